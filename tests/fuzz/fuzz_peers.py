"""Peers, mutated: frames of an open connection, and signed requests in HTTP. What the cluster's secret did not seal or
sign reaches no replica; what it did seal is handled or refused, whatever is in it."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random

from epoxy.codec.plain_requests import Incoming, decoded
from epoxy.codec.wire import encode_peer_request
from epoxy.model.frames import PeerRequest
from epoxy.model.messages import Reply, Request
from epoxy.model.versions import WireVersions
from epoxy.transport.http.connections import Account, Connections
from epoxy.transport.http.server import HttpServer
from epoxy.transport.limits import MESSAGE_PATH, HttpLimits
from epoxy.transport.peers import auth
from epoxy.transport.peers.auth import Verifier
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.frames import (
    BadFrame,
    FrameExchange,
    Frames,
    FrameServer,
    handshake_request,
    read_answer,
    seal_request,
)
from epoxy.transport.peers.keyring import SigningKey
from epoxy.transport.peers.negotiation import sign_offer
from epoxy.transport.peers.session import PeerSession, StartCheck
from epoxy.transport.peers.signed_header import SignedHeader
from epoxy.transport.peers.store_gate import OpenGate
from epoxy.transport.peers.transport import PeerEndpoint
from tests.fuzz.fuzz_http import answers
from tests.fuzz.hand_loop import HandLoop, RecordingTransport, hand_loop
from tests.fuzz.harness import BYTE_MUTATIONS, Finding, FuzzTarget
from tests.transport.peers.pair import ME, PEER, SECRET, Replica, accept, read

NOW_MS = 1_700_000_000_000
GATE = OpenGate()

OFFERS = [WireVersions(oldest=5, newest=newest, release="0.2.0") for newest in (5, 5, 6)]
LIMITS = HttpLimits(pipelined=4)
MOST_UNREAD = 4 << 20

Batch = tuple[Request, ...]


def batch(dice: Random) -> Batch:
    return tuple(dice.choice((read, accept))(dice.randrange(1000)) for _ in range(dice.choice((0, 1, 1, 2, 6))))


def endpoint_of(replica: Replica) -> PeerEndpoint:
    return PeerEndpoint(replica.handle, Authenticator(Verifier(PEER, SECRET, now_ms=lambda: NOW_MS), GATE))


class Batches(Replica):
    """Remembers what it was asked, batch by batch."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[Batch] = []

    def handle(self, incoming: Sequence[Incoming], answered: Callable[[Sequence[Reply]], None]) -> None:
        self.batches.append(tuple([decoded(each) for each in incoming]))
        super().handle(incoming, answered)


class PeerWorld:
    """What both targets share: the server's connections, and what must hold when one of them has ended."""

    def __init__(self, loop: HandLoop) -> None:
        self._loop = loop
        self.connections = Connections(100)

    def converse(self, wire: RecordingTransport, pieces: Sequence[bytes]) -> bytes:
        for piece in pieces:
            wire.receive(piece)
        wire.drain()
        wire.hang_up()
        connections = self.connections
        if self._loop.unheard:
            raise Finding(f"reached the loop's exception handler: {self._loop.unheard.pop()}")
        if len(connections) or connections.client_budget.bytes or connections.peer_budget.bytes:
            raise Finding("a connection that has ended is still counted, or its bytes are")
        if wire.most_unread > MOST_UNREAD:
            raise Finding(f"{wire.most_unread} bytes for a peer that does not read")
        return bytes(wire.written)


class FramesTarget:
    """An open connection: its handshake is over, and both ends have the keys."""

    name = "frames"
    tokens: Sequence[bytes] = (b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\x00\x00\x00\x01", b"\x30\x00\x00\x00")

    def __init__(self, loop: HandLoop) -> None:
        self._loop = loop
        self._world = PeerWorld(loop)
        self._sealed: dict[int, list[bytes]] = {}
        """Bodies that the other end sealed for this input, by the place they were sealed for."""

    def _session(self) -> PeerSession:
        header = SignedHeader(ME, PEER, 1, NOW_MS, 1)
        start = StartCheck(GATE, ME, header.greeting, None)
        return PeerSession(SigningKey(SECRET), b"mac", b"n" * 16, header, GATE.greeting(ME), start)

    def conversation(self, dice: Random) -> list[bytes]:
        seals, frames = self._session().request_seals, []
        for place in range(dice.choice((1, 2, 3, 6))):
            body = encode_peer_request(PeerRequest(sender=ME, recipient=PEER, requests=batch(dice)))
            if dice.random() < 0.2:
                body = dice.choice(BYTE_MUTATIONS)(dice, body, self.tokens)
            frames.append(seal_request(seals, dice.choice((1, 1, 2)), dice.randrange(9), body) + body)
            self._sealed.setdefault(place, []).append(body)
        return frames

    def judge(self, pieces: Sequence[bytes], dice: Random) -> str:
        sealed, self._sealed = self._sealed, {}
        handled: list[bytes] = []
        endpoint = endpoint_of(Replica())

        def handle(exchange: FrameExchange) -> None:
            handled.append(exchange.body)
            endpoint.handle_frame(exchange)

        connections = self._world.connections
        server = FrameServer(self._session(), handle, LIMITS, connections, Account(connections.peer_budget))
        wire = RecordingTransport(self._loop, server, slow=dice.random() < 0.2)
        server.begin(wire, b"")
        self._loop.settle()
        written = self._world.converse(wire, pieces)
        for place, body in enumerate(handled):
            if body not in sealed.get(place, []):
                raise Finding(f"frame {place} was handled, and nobody sealed it for that place")
        return self._verdict(written, len(handled))

    def _verdict(self, written: bytes, handled: int) -> str:
        session = self._session()
        _head, _, rest = written.partition(b"\r\n\r\n")
        try:
            replies = [read_answer(session.answer_seals, frame) for frame in Frames().feed(rest)]
        except BadFrame as bad:
            raise Finding(f"an answer that the peer would refuse: {bad}") from bad
        if len(replies) != handled:
            raise Finding(f"{len(replies)} answers to {handled} frames")
        if any(reply.status == 500 for reply in replies):
            raise Finding("an internal error")
        worst = max((reply.status for reply in replies), default=0)
        return {0: "refused at once", 200: "handled"}.get(worst, f"refused {worst}")

    def probe(self) -> None:
        self._sealed = {}
        body = encode_peer_request(PeerRequest(sender=ME, recipient=PEER, requests=(read(1),)))
        frame = seal_request(self._session().request_seals, 1, 0, body) + body
        self._sealed = {0: [body]}
        if self.judge([frame], Random(0)) != "handled":
            raise Finding("a sealed frame is not handled")


class SignedTarget:
    """Requests in HTTP: messages, and handshakes that ask for frames."""

    name = "signed"
    tokens: Sequence[bytes] = (b"\r\n", b",", b"Epoxy v3,", b"Epoxy v2,", b" ", b"-", b"0", b"authorization: ", b"\xff")

    def __init__(self, loop: HandLoop) -> None:
        self._loop = loop
        self._world = PeerWorld(loop)
        self._nonces = itertools.count(1)
        self._signed: list[Batch] = []

    def conversation(self, dice: Random) -> list[bytes]:
        header = SignedHeader(
            ME, dice.choice((PEER, PEER, PEER, ME)), 1, NOW_MS + dice.choice((0, 0, 0, 60_000)), next(self._nonces)
        )
        if dice.random() < 0.3:
            signature, mac = auth.sign(SECRET, header, b"/v2/epoxy/stream", b"")
            offer = sign_offer(SECRET, mac, dice.choice(OFFERS))
            return [handshake_request(b"x", signature, dice.choice((5, 5, 5, 6)), offer)]
        asked = batch(dice)
        body = encode_peer_request(PeerRequest(sender=ME, recipient=PEER, requests=asked))
        value, _ = auth.sign(SECRET, header, MESSAGE_PATH, body)
        head = b"POST %b HTTP/1.1\r\nhost: x\r\nauthorization: %b\r\n" % (MESSAGE_PATH, value)
        request = head + b"content-length: %d\r\n\r\n%b" % (len(body), body)
        self._signed.append(asked)
        return [request, request] if dice.random() < 0.1 else [request]

    def judge(self, pieces: Sequence[bytes], dice: Random) -> str:
        signed, self._signed = self._signed, []
        replica = Batches()
        server = HttpServer(endpoint_of(replica), LIMITS, self._world.connections)
        wire = RecordingTransport(self._loop, server, slow=dice.random() < 0.2)
        wire.open()
        written = self._world.converse(wire, pieces)
        for asked in replica.batches:
            if asked not in signed:
                raise Finding(f"a batch was handled that nobody signed, or twice: {asked}")
            signed.remove(asked)
        statuses = answers(written, b"HEAD" in b"".join(pieces))
        if 500 in statuses:
            raise Finding(f"an internal error: {written!r}")
        if not statuses:
            return "silence"
        return "handled" if max(statuses) == 200 else f"status {max(statuses)}"

    def probe(self) -> None:
        self._signed = []
        dice, request = Random(next(self._nonces)), [b""]
        while not self._signed:
            request = self.conversation(dice)[:1]
        if self.judge(request, Random(0)) not in ("handled", "status 401"):
            raise Finding("a signed request is not answered")


@contextmanager
def frames_target() -> Iterator[FuzzTarget]:
    with hand_loop() as loop:
        yield FramesTarget(loop)


@contextmanager
def signed_target() -> Iterator[FuzzTarget]:
    with hand_loop() as loop:
        yield SignedTarget(loop)
