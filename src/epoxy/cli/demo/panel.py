"""Where a running demo takes orders from the console's page: HTTP on the loopback, at a port of its own.

The demo serves it, and not its nodes: a page must still be able to start the region again that it was loaded from.
Orders go to the demo's control socket, one at a time, as those of a second terminal do; here is no state.

A browser sends requests to the loopback for any page that it shows. An order is taken only if

- `Host` is this address: a name that was made to resolve to the loopback (DNS rebinding) is refused;
- `Origin`, which no page can forge, is that of a node of this demo: pages of other sites are refused, and so are
  requests without one, which programs send: those have `epoxy demo`;
- `Authorization` has the token that the demo made at its start. The nodes give it to operators alone
  (`GET /v2/console/demo`). It is no header of a simple request, so browsers ask first (preflight), and other origins
  are told nothing.
"""

import hmac
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec
from msgspec import Struct

from epoxy.cli.demo.control import MAX_ORDER_BYTES, DemoOrder, DemoReply
from epoxy.client import Client
from epoxy.model.api import Failure, Problem
from epoxy.model.errors import EpoxyError, InvalidRequest, Unavailable

STATE, ORDERS = "/v1/demo", "/v1/orders"

READ_S = 5.0
"""For a browser on this machine to send a request."""

MAX_AT_ONCE = 16
"""Requests under way: a few pages that look once a second, and an order that takes long."""

LOOK_S = 0.1
"""Between two looks whether the demo ends."""

PREFLIGHT_S = 600
"""As long as nodes say."""

Perform = Callable[[DemoOrder], DemoReply | None]
"""None: the demo has ended."""

Measure = Callable[[Mapping[str, Any]], list[dict[str, Any]]]
"""What the links of the demo that is described take by its nodes' own figures."""


MEASURE_S = 1.0
"""For a node to say what it measured: milliseconds. One that is too busy is left out this time."""


def measured(demo: Mapping[str, Any], token: str) -> list[dict[str, Any]]:
    """The round trips as the regions that run have measured them: the shortest of the last seconds."""
    found = []
    for region in demo["regions"]:
        if region["condition"] not in ("up", "cut off"):
            continue
        with suppress(EpoxyError), Client(region["http"], timeout=MEASURE_S, token=token) as client:
            found += [
                {"from": region["region"], "to": peer.datacenter, "rtt_ms": peer.rtt_ms, "reachable": peer.reachable}
                for peer in client.status().peers
            ]
    return found


class PanelObjection(Struct, frozen=True, kw_only=True):
    status: int
    code: str
    message: str


class Rules(Struct, frozen=True, kw_only=True):
    """Who may send orders. `hosts`: the address of the panel; `origins`: of the demo's nodes."""

    hosts: frozenset[str]
    origins: frozenset[str]
    token: str

    def objection(self, headers: Mapping[str, str], *, preflight: bool = False) -> PanelObjection | None:
        """None: there is none. `headers` in lower case. A preflight request has no token: a script's headers are not
        sent with it."""
        host, origin = headers.get("host", ""), headers.get("origin", "")
        if host not in self.hosts:
            return PanelObjection(
                status=421, code="unknown_host", message="nothing was done: this is no name of the panel"
            )
        if origin not in self.origins:
            words = "nothing was done: only pages of this demo's nodes may send orders"
            return PanelObjection(status=403, code="cross_site", message=words)
        shown = headers.get("authorization", "").encode("utf-8", "replace")
        if not preflight and not hmac.compare_digest(shown, f"Bearer {self.token}".encode()):
            words = "nothing was done: the token is not that of this demo; GET /v2/console/demo of its nodes has it"
            return PanelObjection(status=401, code="unauthorized", message=words)
        return None


class Panel:
    """Bound when it is made, so that a port in use is found out before a region starts; serves from `start` to
    `close`."""

    def __init__(self, port: int, rules: Rules, perform: Perform, measure: Measure) -> None:
        self.rules = rules
        self.perform = perform
        self.measure = measure
        self.room = threading.BoundedSemaphore(MAX_AT_ONCE)
        self._server = PanelServer(("127.0.0.1", port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(LOOK_S,), name="panel", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Requests under way end when the demo's control socket does."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class PanelServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], panel: Panel) -> None:
        self.panel = panel
        super().__init__(address, PanelRequest)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that goes in the middle of an answer is nothing to report."""


class PanelRequest(BaseHTTPRequestHandler):
    timeout = READ_S
    server: PanelServer

    def do_OPTIONS(self) -> None:
        if not self._refused(preflight=True):
            self._answer(204, b"", preflight=True)

    def do_GET(self) -> None:
        if not self._refused():
            self._within_room(self._state if self.path == STATE else self._nowhere)

    def do_POST(self) -> None:
        if not self._refused():
            self._within_room(self._order if self.path == ORDERS else self._nowhere)

    def _refused(self, *, preflight: bool = False) -> bool:
        headers = {name.lower(): value for name, value in self.headers.items()}
        objection = self.server.panel.rules.objection(headers, preflight=preflight)
        if objection is not None:
            self._fail(objection.status, objection.code, objection.message)
        return objection is not None

    def _within_room(self, serve: Callable[[], None]) -> None:
        if not self.server.panel.room.acquire(blocking=False):
            self._fail(503, "overloaded", f"{MAX_AT_ONCE} requests are under way already")
            return
        try:
            serve()
        finally:
            self.server.panel.room.release()

    def _state(self) -> None:
        reply = self._perform(DemoOrder(verb="ps"))
        if reply is not None:
            document = {**reply.demo, "measured": self.server.panel.measure(reply.demo)}
            self._answer(200, msgspec.json.encode(document))

    def _order(self) -> None:
        length = self.headers.get("content-length", "")
        if not length.isdecimal() or len(length) > len(str(MAX_ORDER_BYTES)) or int(length) > MAX_ORDER_BYTES:
            self._fail(400, "bad_request", f"an order is JSON of at most {MAX_ORDER_BYTES} bytes, with its length")
            return
        try:
            order = msgspec.json.decode(self.rfile.read(int(length)), type=DemoOrder)
        except msgspec.MsgspecError as error:
            self._fail(400, "bad_request", f"no order: {error}")
            return
        reply = self._perform(order)
        if reply is not None:
            self._answer(200 if reply.done else 409, msgspec.json.encode(reply))

    def _perform(self, order: DemoOrder) -> DemoReply | None:
        """None: it is answered that there is no answer."""
        try:
            reply = self.server.panel.perform(order)
        except InvalidRequest as error:
            self._fail(400, "bad_request", str(error))
            return None
        except Unavailable as error:
            self._fail(503, "unavailable", str(error))
            return None
        if reply is None:
            self._fail(503, "unavailable", "the demo has ended")
        return reply

    def _nowhere(self) -> None:
        self._fail(404, "no_such_route", f"GET {STATE} and POST {ORDERS} are all there is")

    def _fail(self, status: int, code: str, message: str) -> None:
        problem = Problem(code=code, message=message, definite=status != 503)
        self._answer(status, msgspec.json.encode(Failure(error=problem)))

    def _answer(self, status: int, body: bytes, *, preflight: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Vary", "Origin")
        origin = self.headers.get("origin", "")
        if origin in self.server.panel.rules.origins:
            self.send_header("Access-Control-Allow-Origin", origin)
        if preflight:
            self.send_header("Access-Control-Allow-Methods", "GET, POST")
            self.send_header("Access-Control-Allow-Headers", "authorization, content-type")
            self.send_header("Access-Control-Max-Age", str(PREFLIGHT_S))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """The demo prints orders as it carries them out."""
