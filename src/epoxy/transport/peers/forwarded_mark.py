"""The mark of a request that a node of a datacenter forwards to the gateway: who the client is, at which listener it
asked, and that a holder of the cluster's secret says so.

    epoxy-forwarded: time, ms | address | listener | names in the client's certificate | MAC

Words are percent-encoded, with commas between them, and the names with spaces between them. The MAC covers the method
and the target, too. A marked request is never forwarded again, so two nodes that take each other for the gateway do not
forward in circles.
"""

import hmac
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from msgspec import Struct

from epoxy.transport.http.request import HttpRequest
from epoxy.transport.peers.auth import WINDOW_MS, mac_of, wall_ms
from epoxy.transport.peers.keyring import Keyring

if TYPE_CHECKING:
    from epoxy.transport.http.exchange import Exchange

FORWARDED = b"epoxy-forwarded"


class ForwardedClient(Struct, frozen=True):
    """The client of a forwarded request, as the node saw it that forwards."""

    address: str
    listener: str
    certificate_names: tuple[str, ...] = ()


class BadMark(Exception):
    """Says what is wrong with a mark."""


class ForwardedMarks:
    """`keys`: those of the links between peers."""

    def __init__(self, keys: Keyring, now_ms: Callable[[], int] = wall_ms) -> None:
        self._keys = keys
        self._now_ms = now_ms

    def header(self, exchange: "Exchange", listener: str) -> tuple[bytes, bytes]:
        """The mark of a request that came in at this listener."""
        client = ForwardedClient(exchange.address, listener, exchange.certificate_names)
        return FORWARDED, self.make(exchange.request, client)

    def make(self, request: HttpRequest, client: ForwardedClient) -> bytes:
        names = quote(" ".join(quote(name, safe="") for name in client.certificate_names), safe="")
        words = quote(client.address, safe=""), quote(client.listener, safe=""), names
        text = ",".join((str(self._now_ms()), *words)).encode("ascii")
        return text + b"," + mark_mac(self._keys.spoken.secret, request, text)

    def read(self, request: HttpRequest) -> ForwardedClient:
        """Raises BadMark."""
        text, _, mac = request.headers.get(FORWARDED, b"").rpartition(b",")
        if not any(hmac.compare_digest(mac, mark_mac(key.secret, request, text)) for key in self._keys.keys):
            raise BadMark("the mark of a forwarded request is not signed with this cluster's secret")
        time_ms, address, listener, names = text.decode("ascii").split(",")
        if abs(self._now_ms() - int(time_ms)) > WINDOW_MS:
            apart_s = abs(self._now_ms() - int(time_ms)) // 1000
            raise BadMark(f"the clock of the node that forwarded this is {apart_s} s off: compare them")
        found = tuple([unquote(name) for name in unquote(names).split()])
        return ForwardedClient(unquote(address), unquote(listener), found)


def mark_mac(secret: bytes, request: HttpRequest, text: bytes) -> bytes:
    head = b"forwarded\n%b\n%b\n%b\n%b" % (request.method.encode("ascii"), request.path, request.query, text)
    return mac_of(secret, head, b"")
