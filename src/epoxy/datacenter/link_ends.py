"""The two ends of one connection between nodes of a datacenter: `NodeDial` asks, `NodeServer` answers."""

import asyncio
import hmac
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from epoxy.codec.seals import SEAL_BYTES, Seals
from epoxy.datacenter.link_limits import NodeLinkLimits
from epoxy.datacenter.messages import (
    FIRST_ANSWER,
    VERSION,
    BadMessage,
    LinkBeat,
    TooLong,
    Unanswerable,
    decode,
    decode_frame,
    encode,
    join_messages,
)
from epoxy.datacenter.ports import Answered, AnswerLost, Serve
from epoxy.ports import Clock
from epoxy.transport.http.response import Headers
from epoxy.transport.http.upgraded import UpgradedProtocol
from epoxy.transport.limits import NODES_PATH
from epoxy.transport.peers import auth
from epoxy.transport.peers.dial import Dial, report
from epoxy.transport.peers.frames import BadFrame, Frames, refusal_text
from epoxy.transport.peers.keyring import SigningKey
from epoxy.transport.peers.link_context import Identity
from epoxy.transport.peers.session import NONCE_BYTES, PeerSession, conclude_handshake
from epoxy.transport.peers.signed_header import SignedHeader, read_greeting

log = logging.getLogger("epoxy.nodes")

FIRST_NODE = 1 << 32
"""A node signs as this and its session. Replicas have smaller ids."""

PROTOCOL = b"epoxy-nodes/%d" % VERSION
"""The first word of both ends. Each refuses another one."""

MAX_HANDSHAKE_BYTES = 4 << 10
"""Of the answer to a handshake, which has less than a quarter of that, or of a refusal."""

BEAT = encode(0, LinkBeat())

Message = tuple[int, int, Any]
"""Kind, number and content."""


class NodeFrames:
    """Both directions of one connection."""

    def __init__(self, out: Seals, into: Seals) -> None:
        self._out = out
        self._into = into
        self._frames = Frames()

    def frame(self, pieces: Sequence[bytes]) -> bytes:
        body = join_messages(pieces)
        return (SEAL_BYTES + len(body)).to_bytes(4, "little") + self._out.next(b"", body) + body

    def read(self, data: bytes) -> list[Message]:
        """Raises BadFrame or BadMessage: nothing after that can be trusted."""
        found: list[Message] = []
        for frame in self._frames.feed(data):
            body = frame[SEAL_BYTES:]
            if not self._into.matches(frame[:SEAL_BYTES], b"", body):
                raise BadFrame("a frame is not sealed for its place")
            for kind, number, raw in decode_frame(body):
                found.append((kind, number, decode(kind, raw)))
        return found


class NodeDial(Dial):
    """The end that asks. It is open when the other end has switched, and proved that it holds the secret and belongs to
    the same replica."""

    def __init__(
        self,
        drained: Callable[[], None],
        identity: Identity,
        header: SignedHeader,
        clock: Clock,
        dials: "set[NodeDial]",
    ) -> None:
        """`dials`: where it is while it is open."""
        super().__init__(drained)
        self._identity = identity
        self._header = header
        self._clock = clock
        self._dials = dials
        self._signing_key = identity.keys.spoken
        self._mac = b""
        self._handshake_answer = b""
        self._messages: NodeFrames | None = None
        self._asked: dict[int, tuple[Answered, int, float]] = {}
        self.waiting_bytes = 0
        self._sent_ms = self._heard_ms = clock.now_ms()

    @property
    def waiting(self) -> int:
        return len(self._asked)

    @property
    def key(self) -> SigningKey | None:
        return self._signing_key

    def send(self, batch: Sequence[tuple[int, bytes, Answered | None, float]]) -> None:
        """Numbers, messages, callbacks, and when they were asked."""
        assert self._transport is not None, "a connection that is open"
        assert self._messages is not None
        for number, piece, answered, asked_ms in batch:
            if answered is not None:
                self._asked[number] = answered, len(piece), asked_ms
                self.waiting_bytes += len(piece)
        self._transport.write(self._messages.frame([piece for _, piece, _, _ in batch]))

    def beat(self) -> None:
        if self._messages is not None and self._transport is not None:
            self._transport.write(self._messages.frame((BEAT,)))

    def expire(self, before_ms: float, silent_ms: float) -> None:
        """Give up what was asked before that moment, and the connection after a silence of so many milliseconds."""
        while self._asked:
            number, (answered, size, asked_ms) = next(iter(self._asked.items()))
            if asked_ms > before_ms:
                break
            del self._asked[number]
            self.waiting_bytes -= size
            deliver(answered, AnswerLost("no answer in time"))
        if self._messages is not None and self._clock.now_ms() - self._heard_ms > silent_ms:
            log.warning("session %d is silent; connection closed", self._header.recipient - FIRST_NODE)
            self.abort()

    # The transport calls these.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.made = True
        self._dials.add(self)
        signature, self._mac = auth.sign(self._signing_key.secret, self._header, NODES_PATH, b"")
        self._transport.write(
            b"GET %b HTTP/1.1\r\nhost: %b\r\nauthorization: %b\r\nconnection: upgrade\r\nupgrade: %b\r\n\r\n"
            % (NODES_PATH, self.host, signature, PROTOCOL)
        )

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.end("connection lost")

    def abort(self) -> None:
        self.write_paused = True  # Nothing more is given to it, until it is known to be lost.
        super().abort()

    def end(self, reason: str) -> None:
        self.write_paused = True
        super().end(reason)
        self._dials.discard(self)
        asked, self._asked, self.waiting_bytes = self._asked, {}, 0
        for answered, _, _ in asked.values():
            deliver(answered, AnswerLost("the connection to the node was lost"))

    def data_received(self, data: bytes) -> None:
        self._heard_ms = self._clock.now_ms()
        if self._messages is None:
            data = self._finish_handshake(data)
        if self._messages is None or not data:
            return
        try:
            messages = self._messages.read(data)
        except (BadFrame, BadMessage) as bad:
            log.warning("session %d: %s; connection closed", self._header.recipient - FIRST_NODE, bad)
            self.abort()
            return
        self.answers += len(messages)
        for kind, number, content in messages:
            if kind >= FIRST_ANSWER:
                self._answered(number, content)

    def _answered(self, number: int, answer: Any) -> None:
        """An answer to nothing that is open comes late: its question was given up."""
        found = self._asked.pop(number, None)
        if found is not None:
            self.waiting_bytes -= found[1]
            deliver(found[0], answer)

    # The handshake.

    def _finish_handshake(self, data: bytes) -> bytes:
        """The bytes behind the answer to the handshake."""
        self._handshake_answer += data
        head, end, rest = self._handshake_answer.partition(b"\r\n\r\n")
        if not end and len(head) <= MAX_HANDSHAKE_BYTES:
            return b""
        if self.opened.done():
            return self._give_up("answered too late")
        if not end or not head.startswith(b"HTTP/1.1 101 "):
            return self._give_up(f"answered {refusal_text(self._handshake_answer)}")
        fields = dict([header_of(line) for line in head.split(b"\r\n")[1:]])
        spoken = fields.get(b"upgrade", b"").lower()
        if spoken != PROTOCOL:
            told = f"speaks {spoken.decode('ascii', 'replace')!r}, and this node {PROTOCOL.decode()}"
            return self._give_up(f"{told}; both nodes need the same release of Epoxy")
        session = self._session(fields.get(b"epoxy-session", b""))
        if session is None:
            return self._give_up("not a holder of the cluster's secret, or a node of another datacenter")
        self._messages = NodeFrames(session.request_seals, session.answer_seals)
        self._handshake_answer = b""
        self.opened.set_result(None)
        return rest

    def _session(self, said: bytes) -> PeerSession | None:
        given, _, more = said.partition(b",")
        text, _, proof = more.rpartition(b",")
        try:
            nonce, greeting = bytes.fromhex(given.decode("ascii")), read_greeting(text.split(b","))
        except ValueError:
            return None
        gate = self._identity.gate
        session = conclude_handshake(self._signing_key, self._mac, nonce, self._header, greeting, gate)
        proven = hmac.compare_digest(proof, session.proof.hex().encode()) and session.said == text
        is_ours = greeting.incarnation.store == self._header.store
        return session if proven and is_ours and len(nonce) == NONCE_BYTES else None

    def _give_up(self, reason: str) -> bytes:
        self.abort()
        self.end(reason)
        return b""


def header_of(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name.strip().lower(), value.strip()


def deliver(answered: Answered, answer: Any) -> None:
    """An exception in one callback must not stop the others."""
    try:
        answered(answer)
    except Exception as error:
        report(error)


def ignore(_: Any) -> None:
    """The answer to what was told without a question."""


class NodeServer(UpgradedProtocol):
    """The end that answers. The other one has proved to be a node of this datacenter."""

    def __init__(
        self,
        session: PeerSession,
        handlers: Mapping[type[Any], Serve[Any]],
        limits: NodeLinkLimits,
        servers: "set[NodeServer]",
    ) -> None:
        """`servers`: where it is while it is open."""
        super().__init__()
        self._session = session
        self._sender = session.header.sender - FIRST_NODE
        self._handlers = handlers
        self._limits = limits
        self._servers = servers
        self._messages = NodeFrames(session.answer_seals, session.request_seals)
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._flush_is_next = False
        self._open: set[int] = set()
        """Numbers of questions that are not answered yet."""
        self._silent_ticks = 0
        self._is_retired = False

    def handshake_headers(self) -> Headers:
        session = self._session
        said = b"%b,%b,%b" % (session.nonce.hex().encode(), session.said, session.proof.hex().encode())
        return (b"upgrade", PROTOCOL), (b"epoxy-session", said)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._servers.add(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        self._servers.discard(self)
        self._unsent.clear()

    def pause_writing(self) -> None:
        """The other end does not read its answers: it is asked for no more questions."""
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        self._silent_ticks = 0
        try:
            messages = self._messages.read(data)
        except (BadFrame, BadMessage) as bad:
            self._refuse(str(bad))
            return
        for _, number, content in messages:
            if type(content) is LinkBeat:
                self._send(BEAT)
            else:
                self._serve(number, content)

    def tick(self, stood_still: bool) -> None:
        """A node that is silent, or whose secret was replaced, is heard no longer; answers under way have one tick."""
        self._silent_ticks += not stood_still
        if self._silent_ticks * self._limits.tick_ms > self._limits.idle_ms or self._is_retired:
            self.abort()
        self._is_retired = self._session.key.retired

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _serve(self, number: int, question: Any) -> None:
        handler = self._handlers.get(type(question))
        answered = ignore
        if number:
            self._open.add(number)
            answered = partial(self._answer, number)
        if len(self._open) > self._limits.pending_questions:
            self._refuse(f"more than {self._limits.pending_questions} questions at a time")
        elif handler is None:
            answered(Unanswerable(f"this node does not serve {type(question).__name__}"))
        else:
            try:
                handler(self._sender, question, answered)
            except Exception as error:
                report(error)
                answered(Unanswerable("a bug; the log of the node has more"))

    def _answer(self, number: int, answer: Any) -> None:
        """Once."""
        if number not in self._open:
            return
        self._open.discard(number)
        try:
            piece = encode(number, answer)
        except TooLong as error:
            piece = encode(number, Unanswerable(str(error)))
        self._send(piece)

    def _send(self, piece: bytes) -> None:
        if self._transport is None:
            return
        if self._unsent_bytes + len(piece) > self._limits.batch_bytes:
            self._flush()
        self._unsent.append(piece)
        self._unsent_bytes += len(piece)
        if not self._flush_is_next:
            self._flush_is_next = True
            asyncio.get_running_loop().call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._flush_is_next = False
        self._flush()

    def _flush(self) -> None:
        pieces, self._unsent, self._unsent_bytes = self._unsent, [], 0
        if not pieces or self._transport is None:
            return
        self._transport.write(self._messages.frame(pieces))
        if self._transport.get_write_buffer_size() > self._limits.unsent_answer_bytes:
            self._refuse("it does not read its answers")

    def _refuse(self, reason: str) -> None:
        log.warning("session %d: %s; connection closed", self._sender, reason)
        self.abort()
