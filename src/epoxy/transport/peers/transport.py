"""The transport between replicas: `Peers` sends requests, `PeerEndpoint` serves them."""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from epoxy.codec import wire
from epoxy.codec.plain_requests import Incoming, read_peer_request
from epoxy.codec.wire import MAX_ENCODED_BYTES
from epoxy.model.errors import CodecError, Oversized
from epoxy.model.frames import PeerResponse
from epoxy.model.messages import Failed, Reply, Request
from epoxy.model.versions import PeerVersions
from epoxy.ports import Clock, Dice, Timer
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.limits import STREAM_PATH, PeerLimits
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.frames import FrameExchange
from epoxy.transport.peers.keyring import Keyring, keyring_of
from epoxy.transport.peers.link_context import Identity, LinkContext
from epoxy.transport.peers.negotiation import known_versions
from epoxy.transport.peers.peer import PeerLink
from epoxy.transport.peers.signed_header import Signed, SignedHeader
from epoxy.transport.peers.store_gate import OpenGate, StoreGate
from epoxy.transport.tls import ContextOf
from epoxy.transport.wan.emulation import Link

Handle = Callable[[Sequence[Incoming], Callable[[Sequence[Reply]], None]], None]
"""A replica: takes requests in order, and replies to all of them once all they rest on is durable."""

HandlerFor = Callable[[SignedHeader], Handle]

TOOK_HEADER = b"epoxy-took-us"
"""As `took_us` of a frame."""

log = logging.getLogger("epoxy.peers")


class Peers:
    """`ports.Transport` over the network. Messages of a replica to itself do not get here."""

    def __init__(
        self,
        me: int,
        secret: bytes | Keyring,
        links: Mapping[int, str],
        *,
        epoch: Callable[[], int],
        clock: Clock,
        dice: Dice,
        limits: PeerLimits | None = None,
        ssl: ContextOf | None = None,
        link: Link | None = None,
        gate: StoreGate | None = None,
        versions: PeerVersions | None = None,
    ) -> None:
        """`links`: the address of every peer. `link`: emulated delays and cuts. `gate`: which stores are heard; without
        one, all. `versions`: another build's than this one's."""
        self._limits = limits or PeerLimits()
        self._clock = clock
        self._timer: Timer | None = None
        self._ticked_ms = -math.inf
        self.ticked: Callable[[], None] = lambda: None
        self.versions = versions or known_versions(me)
        self.identity = Identity(
            me, keyring_of(secret), epoch, gate if gate is not None else OpenGate(), versions=self.versions
        )
        self.context = LinkContext(clock, dice, link or Link(clock), ssl)
        self._urls: dict[int, str] = {}
        self._peers: dict[int, PeerLink] = {}
        self._last: Request | None = None
        self._encoded = b""
        self.set_links(links)

    def start(self) -> None:
        self._tick()
        for peer in self._peers.values():
            peer.start()

    def set_links(self, links: Mapping[int, str]) -> None:
        """The peers from now on, with their addresses. Links to others are closed."""
        assert self.identity.me not in links, "a replica is not its own peer"
        for peer in [peer for peer, url in self._urls.items() if links.get(peer) != url]:
            del self._urls[peer]
            self._peers.pop(peer).close()
        for peer, url in links.items():
            if peer not in self._peers:
                self._urls[peer] = url
                self._peers[peer] = PeerLink(peer, url, self.identity, self.context, self._limits)
                if self._timer is not None:
                    self._peers[peer].start()

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for peer in self._peers.values():
            await peer.stop()

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        try:
            encoded = self._encode(requests)
        except CodecError as error:
            log.error("requests for replica %d cannot be encoded: %r", to, error)
            if answered is not None:
                answered(Failed(reason=str(error)))
        else:
            self.send_encoded(to, encoded, len(requests), answered)

    def send_encoded(self, to: int, requests: bytes, count: int, answered: Callable[[Reply], None] | None) -> None:
        """As `send`, of requests as `wire.encode_requests` has them."""
        peer = self._peers.get(to)
        if peer is not None:
            peer.send(requests, count, answered)
        elif answered is not None:
            answered(Failed(reason=f"replica {to} has no address here"))

    def _encode(self, requests: Sequence[Request]) -> bytes:
        """The same request is sent to one peer after the other, and encoded once."""
        if len(requests) > 1:
            return wire.encode_requests(requests)
        if requests[0] is not self._last:
            self._encoded = wire.encode_requests(requests)
            self._last = requests[0]
        return self._encoded

    def rtt_ms(self, peer: int) -> float | None:
        """Of the network alone, without the peer's own time. None: never measured."""
        return self._peers[peer].rtt.value if peer in self._peers else None

    def lag_ms(self, peer: int) -> float:
        """How much longer than that answers took of late."""
        return self._peers[peer].lag.value(self._clock.now_ms()) if peer in self._peers else 0.0

    def waited_ms(self, peer: int) -> float:
        """For the oldest answer of the peer that is outstanding; 0: none is."""
        return self._peers[peer].waited_ms() if peer in self._peers else 0.0

    def silent_ms(self, peer: int) -> float:
        """Since its last answer."""
        return self._peers[peer].silent_ms() if peer in self._peers else math.inf

    def reachable(self, peer: int) -> bool:
        return peer in self._peers and self._peers[peer].reachable

    def trouble(self, peer: int) -> str:
        """Why it is not reachable, if that is known."""
        return self._peers[peer].trouble if peer in self._peers else ""

    @property
    def messages_sent(self) -> Counter[int]:
        return Counter({peer: link.messages_sent for peer, link in self._peers.items()})

    @property
    def batches_sent(self) -> Counter[int]:
        """Probes included."""
        return Counter({peer: link.batches_sent for peer, link in self._peers.items()})

    @property
    def connections_refused(self) -> Counter[int]:
        return Counter({peer: link.refused for peer, link in self._peers.items()})

    @property
    def connections_lost(self) -> Counter[int]:
        return Counter({peer: link.lost for peer, link in self._peers.items()})

    def _tick(self) -> None:
        self._timer = self._clock.call_later(self._limits.tick_ms, self._tick)
        for peer in tuple(self._peers.values()):
            peer.tick()
        before_ms, self._ticked_ms = self._ticked_ms, self._clock.now_ms()
        if self._ticked_ms - before_ms < 2 * self._limits.tick_ms:
            self.ticked()
        # Else this process stood still, and may not have read answers that came meanwhile.


class PeerEndpoint:
    """The HTTP handler of peers' messages, which come as requests or, on a connection that is switched, as frames."""

    def __init__(self, handle: Handle, authenticator: Authenticator, *, handler_for: HandlerFor | None = None) -> None:
        """`handler_for`: chooses the handler by the sender; without it `handle` serves all."""
        self._handle = handle
        self._authenticator = authenticator
        self._handler_for = handler_for

    def __call__(self, exchange: Exchange) -> None:
        if exchange.request.path == STREAM_PATH:
            session = self._authenticator.accept(exchange)
            if session is not None:
                exchange.switch(session, self.handle_frame)
            return
        began_s = time.perf_counter()
        signed = self._authenticator.authenticate(exchange)
        if signed is not None:
            answered = partial(self._respond, exchange, signed, began_s)
            self._handle_requests(exchange, signed.header, exchange.request.body, answered)

    def handle_frame(self, exchange: FrameExchange) -> None:
        began_s = time.perf_counter()
        known = self._authenticator.authenticate_frame(exchange)
        if known is not None:
            self._handle_requests(
                exchange, exchange.header, exchange.body, partial(self._respond_to_frame, exchange, known, began_s)
            )

    def _handle_requests(
        self,
        exchange: Exchange | FrameExchange,
        header: SignedHeader,
        body: bytes,
        answered: Callable[[Sequence[Reply]], None],
    ) -> None:
        try:
            sender, recipient, requests = read_peer_request(body)
        except CodecError as error:
            exchange.fail(400, "bad_frame", repr(error))
            return
        if sender != header.sender or recipient != header.recipient:
            exchange.fail(400, "bad_frame", "the frame names other replicas than its signature")
            return
        handle = self._handle if self._handler_for is None else self._handler_for(header)
        handle(requests, answered)

    def _respond(self, exchange: Exchange, signed: Signed, began_s: float, replies: Sequence[Reply]) -> None:
        body = encode_replies(replies)
        took = b"%d" % ((time.perf_counter() - began_s) * 1e6)
        self._authenticator.respond(exchange, signed, body, ((TOOK_HEADER, took),))

    def _respond_to_frame(self, exchange: FrameExchange, known: bool, began_s: float, replies: Sequence[Reply]) -> None:
        body = encode_replies(replies)
        self._authenticator.respond_to_frame(exchange, known, int((time.perf_counter() - began_s) * 1e6), body)


def encode_replies(replies: Sequence[Reply]) -> bytes:
    """As many as fit into a frame. The sender repeats its requests for those that are missing at the end."""
    try:
        return wire.encode_peer_response(PeerResponse(replies=tuple(replies)))
    except Oversized:
        return wire.encode_peer_response(PeerResponse(replies=tuple(replies[: how_many_fit(replies)])))


def how_many_fit(replies: Sequence[Reply]) -> int:
    """Each is counted with two bytes of header, which is more than it takes in a frame."""
    size = 8
    for count, reply in enumerate(replies):
        size += len(wire.encode_reply(reply))
        if size > MAX_ENCODED_BYTES:
            return count
    return len(replies)
