"""The transport between replicas: `Peers` asks, `PeerEndpoint` answers."""

import logging
import ssl as tls
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from epoxy.codec import wire
from epoxy.codec.wire import MAX_ENCODED_BYTES
from epoxy.model.errors import CodecError, Oversized
from epoxy.model.frames import PeerResponse
from epoxy.model.messages import Failed, Reply, Request
from epoxy.ports import Clock, Dice, Timer
from epoxy.transport import auth
from epoxy.transport.auth import OPERATOR, Unauthenticated, Verifier
from epoxy.transport.claim import Signed
from epoxy.transport.exchange import Exchange
from epoxy.transport.limits import CHANGELOG_READ_PATH, PeerLimits
from epoxy.transport.link import Link
from epoxy.transport.peer import LOST_STATUS, TOOK_HEADER, Peer
from epoxy.transport.world import Identity, World

Handle = Callable[[Sequence[Request], Callable[[Sequence[Reply]], None]], None]
"""A replica: requests in order, and a reply to each, once all they rest on is durable."""

log = logging.getLogger("epoxy.peers")


class Peers:
    """`ports.Transport` on real links. Own messages never get here."""

    def __init__(
        self,
        me: int,
        secret: bytes,
        links: Mapping[int, str],
        *,
        epoch: Callable[[], int],
        clock: Clock,
        dice: Dice,
        limits: PeerLimits | None = None,
        ssl: tls.SSLContext | None = None,
        link: Link | None = None,
        wall_ms: Callable[[], int] = auth.wall_ms,
    ) -> None:
        """`links`: the address of every peer. `link`: delays and cuts; none if left out."""
        assert me not in links, "a replica is not its own peer"
        self._limits = limits or PeerLimits()
        self._clock = clock
        self._timer: Timer | None = None
        identity = Identity(me, secret, epoch, wall_ms)
        world = World(clock, dice, link or Link(clock), ssl)
        self._peers = {peer: Peer(peer, url, identity, world, self._limits) for peer, url in links.items()}
        self._last: Request | None = None
        self._encoded = b""

    def start(self) -> None:
        for peer in self._peers.values():
            peer.start()
        self._tick()

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for peer in self._peers.values():
            await peer.stop()

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        peer = self._peers.get(to)
        if peer is not None:
            try:
                encoded = self._encode(requests)
            except CodecError as error:
                log.error("requests for replica %d cannot be encoded: %r", to, error)
                failure = str(error)
            else:
                peer.send(encoded, len(requests), answered)
                return
        else:
            failure = f"replica {to} has no address here"
        if answered is not None:
            answered(Failed(reason=failure))

    def _encode(self, requests: Sequence[Request]) -> bytes:
        """The same request goes to all peers, one after the other, and is encoded for the first of them."""
        if len(requests) > 1:
            return wire.encode_requests(requests)
        if requests[0] is not self._last:
            self._encoded = wire.encode_requests(requests)
            self._last = requests[0]
        return self._encoded

    def rtt_ms(self, peer: int) -> float | None:
        """Of the way alone, without what the peer does. None: never measured."""
        return self._peers[peer].rtt.value if peer in self._peers else None

    def reachable(self, peer: int) -> bool:
        return peer in self._peers and self._peers[peer].reachable

    @property
    def messages_sent(self) -> Counter[int]:
        return Counter({peer: link.messages_sent for peer, link in self._peers.items()})

    @property
    def batches_sent(self) -> Counter[int]:
        """Probes, too."""
        return Counter({peer: link.batches_sent for peer, link in self._peers.items()})

    def _tick(self) -> None:
        self._timer = self._clock.call_later(self._limits.tick_ms, self._tick)
        for peer in self._peers.values():
            peer.tick()


class PeerEndpoint:
    """The handler of the peers' addresses. Nothing of a request is looked at before its signature."""

    def __init__(
        self, handle: Handle, verifier: Verifier, *, link: Link | None = None, certificates: bool = False
    ) -> None:
        """`certificates`: only connections that have shown a client's certificate are answered."""
        self._handle = handle
        self._verifier = verifier
        self._link = link
        self._certificates = certificates

    def __call__(self, exchange: Exchange) -> None:
        began_s = time.perf_counter()
        request = exchange.request
        try:
            if self._certificates and not exchange.certified:
                raise Unauthenticated("peers show a certificate")
            signed = self._verifier.verify(request.headers, request.path, request.body)
            if signed.claim.sender == OPERATOR:
                raise Unauthenticated("the operator is no replica")
        except Unauthenticated as refusal:
            exchange.fail(401, "unauthenticated", str(refusal))
            return
        exchange.vouch()
        if request.path == CHANGELOG_READ_PATH:
            exchange.fail(501, "not_implemented", "this version reads no changelogs of peers")
            return
        if self._link is not None and not self._link.hears(signed.claim.sender):
            exchange.fail(LOST_STATUS, "link_cut", "this link is cut on purpose")
            return
        self._answer(exchange, signed, began_s)

    def _answer(self, exchange: Exchange, signed: Signed, began_s: float) -> None:
        try:
            frame = wire.decode_peer_request(exchange.request.body)
        except CodecError as error:
            exchange.fail(400, "bad_frame", repr(error))
            return
        if frame.sender != signed.claim.sender or frame.recipient != signed.claim.recipient:
            exchange.fail(400, "bad_frame", "the frame names other replicas than its signature")
            return
        self._handle(frame.requests, partial(self._respond, exchange, signed, began_s))

    def _respond(self, exchange: Exchange, signed: Signed, began_s: float, replies: Sequence[Reply]) -> None:
        if self._link is not None and not self._link.sends(signed.claim.sender):
            exchange.fail(LOST_STATUS, "link_cut", "this link is cut on purpose")
            return
        body = encode_replies(replies)
        took = b"%d" % ((time.perf_counter() - began_s) * 1e6)
        exchange.respond(200, body, headers=(self._verifier.answer(signed, 200, body), (TOOK_HEADER, took)))


def encode_replies(replies: Sequence[Reply]) -> bytes:
    """What fits into a frame. The sender asks again for what is missing at the end."""
    try:
        return wire.encode_peer_response(PeerResponse(replies=tuple(replies)))
    except Oversized:
        return wire.encode_peer_response(PeerResponse(replies=tuple(replies[: how_many_fit(replies)])))


def how_many_fit(replies: Sequence[Reply]) -> int:
    """Each is counted with the two bytes of a header of its own, which is more than it takes in a frame."""
    size = 8
    for count, reply in enumerate(replies):
        size += len(wire.encode_reply(reply))
        if size > MAX_ENCODED_BYTES:
            return count
    return len(replies)
