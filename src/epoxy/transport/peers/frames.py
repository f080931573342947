"""Requests and answers between peers as short binary frames, on a connection that began as HTTP.

    GET /v2/epoxy/stream        signed like every request; `upgrade: epoxy-frames/5`, answered with 101; which version
                                is spoken: `negotiation.py`
    request     length u32 | seal, 32 bytes | epoch of the sender u64 | position u64 | body
    answer      length u32 | seal, 32 bytes | status u16 | took, us u32 | recorded u8 | position u64 | body

Numbers are little endian; a length counts what follows it. A position is that of the sender's store; `recorded`: 1 if
the store of the client is on record at the server. The handshake is a signed request. Its MAC and a nonce in
the server's answer make the keys of this one connection (`session.py`), so a frame needs no signature, only a seal; a
frame with a wrong seal ends the connection. Senders are authorized as for HTTP, which still serves the same messages at
`MESSAGE_PATH`. Answers come in the order of the requests.
"""

import asyncio
import hmac
import logging
import math
from collections import deque
from collections.abc import Callable
from typing import cast

from epoxy.codec.seals import SEAL_BYTES, Seals
from epoxy.codec.wire import MAX_ENCODED_BYTES
from epoxy.model.incarnation import StoreMismatch
from epoxy.model.versions import PeerVersions
from epoxy.transport.http import response
from epoxy.transport.http.connections import Account, Connections
from epoxy.transport.http.request import HttpReply
from epoxy.transport.limits import STREAM_PATH, HttpLimits
from epoxy.transport.peers import auth
from epoxy.transport.peers.dial import Answered, Dial, report
from epoxy.transport.peers.gateway_refusal import may_be_not_gateway, says_not_gateway
from epoxy.transport.peers.keyring import SigningKey
from epoxy.transport.peers.negotiation import PROTOCOL, SPEAKS_HEADER, read_offer, sign_offer
from epoxy.transport.peers.session import (
    NONCE_BYTES,
    PeerSession,
    StartCheck,
    conclude_handshake,
)
from epoxy.transport.peers.signed_header import GREETING_FIELDS, SignedHeader, read_greeting
from epoxy.transport.peers.store_gate import StoreGate

log = logging.getLogger("epoxy.peers")

SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: %b" % PROTOCOL
"""Followed by the version."""

SESSION_LINE = b"\r\nepoxy-session: "
"""Followed by the nonce in hex, the server's greeting, its offer, and the proof in hex, with commas between them."""

MAX_FRAME_BYTES = MAX_ENCODED_BYTES + (4 << 10)
"""The longest body, and the fields before it."""

MAX_HANDSHAKE_BYTES = 1 << 10
"""Of the server's answer to a handshake, which has less than half of that."""

REQUEST_HEAD_BYTES = 8 + 8
REQUEST_BODY = SEAL_BYTES + REQUEST_HEAD_BYTES
ANSWER_BODY = SEAL_BYTES + 2 + 4 + 1 + 8
"""Where the body begins."""

MAX_TOOK_US = (1 << 32) - 1

NO_HEADERS: dict[bytes, bytes] = {}

FrameHandler = Callable[["FrameExchange"], None]


def handshake_request(host: bytes, signature: bytes, oldest: int, offer: bytes) -> bytes:
    return (
        b"GET %b HTTP/1.1\r\nhost: %b\r\nauthorization: %b\r\nconnection: upgrade\r\nupgrade: %b%d\r\n%b: %b\r\n\r\n"
        % (STREAM_PATH, host, signature, PROTOCOL, oldest, SPEAKS_HEADER, offer)
    )


def handshake_answer(session: PeerSession) -> bytes:
    nonce, proof = session.nonce.hex().encode(), session.proof.hex().encode()
    return b"%b%d%b%b,%b,%b\r\n\r\n" % (SWITCHING, session.version, SESSION_LINE, nonce, session.said, proof)


class BadFrame(Exception):
    """A frame that is too long, or not sealed for its place. Nothing after it can be trusted."""


class Frames:
    """Splits the received bytes into frames. Holds one incomplete frame, and at most one read beyond it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._wanted = 0

    @property
    def has_partial(self) -> bool:
        return self._size > 0

    def feed(self, data: bytes) -> list[bytes]:
        if self._size:
            self._parts.append(data)
            self._size += len(data)
            if self._size < self._wanted:
                return []
            data = b"".join(self._parts)
            self._parts, self._size = [], 0
        frames: list[bytes] = []
        position, wanted, end = 0, 4, len(data)
        while end - position >= 4:
            wanted = 4 + int.from_bytes(data[position : position + 4], "little")
            if wanted > MAX_FRAME_BYTES:
                raise BadFrame(f"a frame of {wanted} bytes")
            if position + wanted > end:
                break
            frames.append(data[position + 4 : position + wanted])
            position += wanted
            wanted = 4
        if position < end:
            rest = data[position:]
            self._parts, self._size, self._wanted = [rest], len(rest), wanted
        return frames


def seal_request(seals: Seals, epoch: int, position: int, body: bytes) -> bytes:
    """The frame up to the body."""
    head = (epoch | position << 64).to_bytes(REQUEST_HEAD_BYTES, "little")
    return (REQUEST_BODY + len(body)).to_bytes(4, "little") + seals.next(head, body) + head


def read_request(session: PeerSession, frame: bytes) -> tuple[SignedHeader, int, bytes]:
    """The sender's header, its position and the body."""
    head, body = frame[SEAL_BYTES:REQUEST_BODY], frame[REQUEST_BODY:]
    if len(head) < REQUEST_HEAD_BYTES or not session.request_seals.matches(frame[:SEAL_BYTES], head, body):
        raise BadFrame(f"a frame of replica {session.header.sender} is not sealed for its place")
    header = session.header_at(int.from_bytes(head[:8], "little"))
    return header, int.from_bytes(head[8:], "little"), body


def seal_answer(seals: Seals, status: int, took_us: int, recorded: bool, position: int, body: bytes) -> bytes:
    fields = status | min(took_us, MAX_TOOK_US) << 16 | recorded << 48
    head = fields.to_bytes(7, "little") + position.to_bytes(8, "little")
    return (ANSWER_BODY + len(body)).to_bytes(4, "little") + seals.next(head, body) + head


def read_answer(seals: Seals, frame: bytes) -> HttpReply:
    head, body = frame[SEAL_BYTES:ANSWER_BODY], frame[ANSWER_BODY:]
    if len(frame) < ANSWER_BODY or not seals.matches(frame[:SEAL_BYTES], head, body):
        raise BadFrame("an answer is not sealed for its place")
    status, took_us = int.from_bytes(head[:2], "little"), int.from_bytes(head[2:6], "little")
    return HttpReply(status, NO_HEADERS, body, took_us, head[6] == 1, int.from_bytes(head[7:], "little"))


class FrameExchange:
    """One request of a peer and its one answer, which is ignored if the connection is lost."""

    __slots__ = (
        "_server",
        "answer",
        "answered",
        "body",
        "header",
        "position",
        "recorded",
        "size",
        "start",
        "status",
        "took_us",
    )

    def __init__(
        self, server: "FrameServer", header: SignedHeader, position: int, start: StartCheck, body: bytes, size: int
    ) -> None:
        """`position`: of the sender's store, and `start` knows whether that is heard."""
        self.header = header
        self.position = position
        self.start = start
        self.body = body
        self.size = size
        self.answered = self.recorded = False
        self.status = self.took_us = 0
        self.answer = b""
        self._server: FrameServer | None = server

    def respond(self, status: int, body: bytes, took_us: int = 0, recorded: bool = False) -> None:
        assert not self.answered, "one answer for each request"
        self.answered = True
        self.status, self.answer, self.took_us, self.recorded = status, body, took_us, recorded
        if self._server is not None:
            self._server.advance()

    def fail(self, status: int, code: str, message: str, *, definite: bool = True) -> None:
        """Answer with an error, as JSON."""
        self.respond(status, response.problem(code, message, definite=definite))

    def lost(self) -> None:
        self._server = None


class FrameServer(asyncio.Protocol):
    """The server's end of a connection that was switched to frames. The client has proved to be a peer."""

    def __init__(
        self,
        session: PeerSession,
        handler: FrameHandler,
        limits: HttpLimits,
        connections: Connections,
        account: Account,
    ) -> None:
        self._session = session
        self._handler = handler
        self._limits = limits
        self._connections = connections
        self._account = account
        self._frames = Frames()
        self._waiting: deque[bytes] = deque()
        self._exchanges: deque[FrameExchange] = deque()
        self._transport: asyncio.Transport | None = None
        self._write_paused = self._paused = self._draining = self._is_serving = False
        self._read_deadline = self._write_deadline = math.inf

    def begin(self, transport: asyncio.Transport, already: bytes) -> None:
        """`already`: bytes received after the handshake."""
        self._transport = transport
        self._connections.mark_as_peer(self)
        self._connections.admit(self)
        self._draining = self._connections.draining
        transport.set_protocol(self)
        transport.write(handshake_answer(self._session))
        self._extend_deadline()
        if already:
            self.data_received(already)

    # The transport calls these.

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._session.start.close()
        self._connections.forget(self)
        self._waiting.clear()
        for exchange in self._exchanges:
            exchange.lost()
        self._exchanges.clear()
        self._account.add(-self._account.bytes)

    def data_received(self, data: bytes) -> None:
        try:
            frames = self._frames.feed(data)
        except BadFrame:
            self.abort()
            return
        self._extend_deadline()
        for frame in frames:
            self._account.add(len(frame))
        self._waiting.extend(frames)
        self._serve()

    def pause_writing(self) -> None:
        self._write_paused = True
        self._write_deadline = self._connections.now + self._limits.write_timeout_s

    def resume_writing(self) -> None:
        self._write_paused = False
        self._write_deadline = math.inf
        self._serve()

    # The exchanges call this.

    def advance(self) -> None:
        """Send the answers that are next in order. Seals are numbered, so each is made when its frame leaves."""
        transport = self._transport
        if transport is None:
            return
        seals, gate = self._session.answer_seals, self._session.start.gate
        while self._exchanges and self._exchanges[0].answered:
            exchange = self._exchanges.popleft()
            body = exchange.answer
            head = seal_answer(seals, exchange.status, exchange.took_us, exchange.recorded, gate.position(), body)
            transport.write(head + body)
            self._account.add(-exchange.size)
        if self._waiting or self._draining or self._paused:
            self._serve()

    # As one of the server's connections.

    def sweep(self, now: float) -> None:
        """A session whose secret was replaced has one more sweep for the answers under way."""
        is_retired = self._session.key.retired
        if now > self._write_deadline or now > self._read_deadline or (is_retired and self._draining):
            self.abort()
        elif is_retired:
            self.drain()

    def drain(self) -> None:
        self._draining = True
        self._serve()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _extend_deadline(self) -> None:
        """A peer sends a probe every second, and a frame without pauses."""
        partial = self._frames.has_partial
        timeout_s = self._limits.body_timeout_s if partial else self._limits.idle_timeout_s
        self._read_deadline = self._connections.now + timeout_s

    def _serve(self) -> None:
        """Handle frames that wait, within the limits; then read on or pause, or close when draining. An answer that
        comes at once calls this again: the loop goes on, instead of one that is a call deeper for each frame."""
        if self._is_serving:
            return
        self._is_serving = True
        try:
            self._serve_waiting()
        finally:
            self._is_serving = False
        transport = self._transport
        if transport is None:
            return
        if self._draining and not self._exchanges:
            transport.close()
        elif self._paused != bool(self._waiting):
            self._paused = not self._paused
            if self._paused:
                transport.pause_reading()
            else:
                transport.resume_reading()

    def _serve_waiting(self) -> None:
        while self._waiting and not self._is_full:
            frame = self._waiting.popleft()
            try:
                header, position, body = read_request(self._session, frame)
            except BadFrame as bad:
                log.warning("%s; connection closed", bad)
                self._waiting.clear()
                self.abort()
                return
            exchange = FrameExchange(self, header, position, self._session.start, body, len(frame))
            self._exchanges.append(exchange)
            self._handle(exchange)

    @property
    def _is_full(self) -> bool:
        return self._write_paused or self._draining or len(self._exchanges) >= self._limits.pipelined

    def _handle(self, exchange: FrameExchange) -> None:
        try:
            self._handler(exchange)
        except Exception as error:
            report(error)
            if not exchange.answered:
                exchange.fail(500, "internal", "a bug; the log has more", definite=False)


class PeerHandshake:
    """The client's part of a handshake."""

    def __init__(
        self, host: bytes, key: SigningKey, header: SignedHeader, gate: StoreGate, versions: PeerVersions
    ) -> None:
        self._key = key
        self._header = header
        self._gate = gate
        self._versions = versions
        self.mismatch: StoreMismatch | None = None
        """Why the server is not heard, after its answer."""
        signature, self._mac = auth.sign(key.secret, header, STREAM_PATH, b"")
        self.request = handshake_request(
            host, signature, versions.mine.oldest, sign_offer(key.secret, self._mac, versions.mine)
        )

    def session(self, head: bytes) -> PeerSession | None:
        """From the head of the answer. None: it is not an answer to this handshake by a holder of our secret, or in
        another version than both ends would choose."""
        number, _, said = head.removeprefix(SWITCHING).partition(SESSION_LINE)
        given, _, rest = said.partition(b",")
        text, _, proof = rest.rpartition(b",")
        fields = text.split(b",")
        offer = b",".join(fields[GREETING_FIELDS:])
        try:
            nonce, greeting = bytes.fromhex(given.decode("ascii")), read_greeting(fields[:GREETING_FIELDS])
        except ValueError:
            return None
        session = conclude_handshake(self._key, self._mac, nonce, self._header, greeting, self._gate, offer)
        proven = hmac.compare_digest(proof, session.proof.hex().encode()) and session.said == text
        theirs = read_offer(offer)
        if not proven or len(nonce) != NONCE_BYTES or (offer and theirs is None):
            return None
        version = self._versions.heard(self._header.recipient, theirs)
        if version is None or number != b"%d" % version:
            return None
        session.version = version
        self._gate.told(self._header.recipient, greeting.known)
        self.mismatch = session.start.refusal(greeting.position)
        return session


class FrameDial(Dial):
    """The client's end. It is open when the server has switched and proved that it holds the secret."""

    def __init__(self, drained: Callable[[], None], begin: Callable[[bytes], PeerHandshake]) -> None:
        """`begin` gets `host`."""
        super().__init__(drained)
        self._begin_handshake = begin
        self._handshake: PeerHandshake | None = None
        self._frames = Frames()
        self._handshake_answer = b""
        self._session: PeerSession | None = None
        self.start: StartCheck | None = None
        """Of the server, once the connection is open."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.made = True
        self._handshake = self._begin_handshake(self.host)
        self._transport.write(self._handshake.request)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.end("connection lost")
        if self.start is not None:
            self.start.close()

    @property
    def key(self) -> SigningKey | None:
        """Of its session, once the connection is open."""
        return self._session.key if self._session is not None else None

    def ask(self, epoch: int, body: bytes, answered: Answered) -> None:
        if self._transport is None or self._session is None:
            answered(None)
            return
        self._waiting.append(answered)
        session = self._session
        self._transport.write(seal_request(session.request_seals, epoch, session.start.gate.position(), body) + body)

    def data_received(self, data: bytes) -> None:
        if not self.opened.done():
            data = self._finish_handshake(data)
        session = self._session
        if session is None:
            return
        try:
            for frame in self._frames.feed(data):
                self.deliver(read_answer(session.answer_seals, frame))
        except BadFrame as bad:
            log.warning("%s; connection closed", bad)
            self.abort()

    def _finish_handshake(self, data: bytes) -> bytes:
        """The bytes behind the answer to the handshake."""
        self._handshake_answer += data
        head, end, rest = self._handshake_answer.partition(b"\r\n\r\n")
        switches = self._handshake_answer.startswith(SWITCHING[: len(self._handshake_answer)])
        may_continue = switches or may_be_not_gateway(self._handshake_answer)
        if may_continue and len(head) <= MAX_HANDSHAKE_BYTES and not end:
            return b""
        if says_not_gateway(head):
            self.not_gateway = True
            return self._give_up("it is not the gateway of its datacenter")
        if switches and end and self._handshake is not None:
            self._session = self._handshake.session(head)
        if self._session is None:
            return self._give_up(f"answered {refusal_text(self._handshake_answer)}")
        mismatch = self._handshake.mismatch if self._handshake is not None else None
        if mismatch is not None:
            return self._give_up(mismatch_text(mismatch))
        self.start = self._session.start
        self._handshake_answer = b""
        self.opened.set_result(None)
        return rest

    def _give_up(self, reason: str) -> bytes:
        self._session = None
        self.abort()
        self.end(reason)
        return b""


def mismatch_text(mismatch: StoreMismatch) -> str:
    return f"{mismatch.code.value}: {mismatch.words}"


def refusal_text(refusal: bytes) -> str:
    """The status and the message of an error in HTTP."""
    head, _, body = refusal.partition(b"\r\n\r\n")
    status = head.partition(b"\r\n")[0].removeprefix(b"HTTP/1.1 ").decode("utf-8", "replace")
    return f"{status}: {response.message_of(body)}"
