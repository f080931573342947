"""The way to the datacenter that hosts an actor: one connection for all questions and streams of one node at another.

    GET /v2/actors/relay        signed like every request between replicas; `upgrade: epoxy-actors/1`
    101, epoxy-session          nonce, greeting and proof, as in the handshake of `transport/peers/frames.py`
    frame                       length u32 | seal, 32 bytes | messages (`actors/relaying.py`) in MessagePack

The client was authorised where it asked; the owner answers replicas, and no others. The handshake makes the keys of
this one connection, and every frame has a seal for its place. The end that dialled emulates the delay and the cuts of
its link in both directions; a frame that is lost on a cut link holds up those behind it, as in TCP, until the beats
that are missing end the connection.
"""

import asyncio
import hmac
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import cast

import msgspec

from epoxy.actors.messages import OwnerUnavailable, Question
from epoxy.actors.relaying import Answered, AnsweringEnd, AskingEnd, Beat, RelayMessage, Withdraw
from epoxy.actors.service import ActorService
from epoxy.actors.streams import StreamEnd
from epoxy.api.http.calls import ApiCall
from epoxy.api.http.routes import Route
from epoxy.client.http1 import NodeAddress, parse_url
from epoxy.codec.seals import SEAL_BYTES, Seals
from epoxy.model.access import Access
from epoxy.model.versions import RELAY_WIRE
from epoxy.ports import Clock, Dice
from epoxy.transport.http.upgraded import UpgradedProtocol
from epoxy.transport.limits import RELAY_PATH
from epoxy.transport.peers import auth
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.frames import BadFrame, Frames, refusal_text
from epoxy.transport.peers.link_context import Identity
from epoxy.transport.peers.session import NONCE_BYTES, PeerSession, conclude_handshake
from epoxy.transport.peers.signed_header import SignedHeader, read_greeting
from epoxy.transport.tls import ContextOf
from epoxy.transport.wan.emulation import Link

PROTOCOL = b"epoxy-actors/%d" % RELAY_WIRE
"""Contains the version. Both nodes need the same."""

BEAT_S = 2.0
SILENT_BEATS = 4
"""Without a word of the other end, after which the connection is given up."""

CONNECT_S = BEAT_S * SILENT_BEATS
"""For a connection, with its handshakes. Longer than the shortest lease of a home: if that ends first, the questions
that wait for the connection are answered by the next home."""

BATCH_BYTES = 256 << 10
"""Of messages in one frame; one that is longer has a frame of its own."""

MAX_HANDSHAKE_BYTES = 4 << 10

encode = msgspec.msgpack.Encoder().encode
decoder: msgspec.msgpack.Decoder[list[RelayMessage]] = msgspec.msgpack.Decoder(list[RelayMessage])


class SealedMessages:
    """Messages in both directions of one connection. All of a turn of the event loop leave in one frame."""

    def __init__(self, out: Seals, into: Seals, write: Callable[[bytes], None]) -> None:
        self._out = out
        self._into = into
        self._write = write
        self._frames = Frames()
        self._unsent: list[msgspec.Raw] = []
        self._unsent_bytes = 0

    def send(self, message: RelayMessage) -> None:
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self.flush)
        piece = encode(message)
        if self._unsent_bytes + len(piece) > BATCH_BYTES:
            self.flush()
        self._unsent.append(msgspec.Raw(piece))
        self._unsent_bytes += len(piece)

    def flush(self) -> None:
        if self._unsent:
            body = encode(self._unsent)
            self._unsent, self._unsent_bytes = [], 0
            self._write((SEAL_BYTES + len(body)).to_bytes(4, "little") + self._out.next(b"", body) + body)

    def read(self, data: bytes) -> list[RelayMessage]:
        """Raises BadFrame."""
        found: list[RelayMessage] = []
        for frame in self._frames.feed(data):
            body = frame[SEAL_BYTES:]
            if not self._into.matches(frame[:SEAL_BYTES], b"", body):
                raise BadFrame("a frame is not sealed for its place")
            try:
                found += decoder.decode(body)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                raise BadFrame(str(error)) from error
        return found


class RelayServer(UpgradedProtocol):
    """The answering end of a connection."""

    def __init__(
        self,
        actors: ActorService,
        session: PeerSession,
        authenticator: Authenticator,
        ended: Callable[["RelayServer"], None],
    ) -> None:
        super().__init__()
        self._ended = ended
        self._session = session
        self._authenticator = authenticator
        self._messages = SealedMessages(session.answer_seals, session.request_seals, self._write)
        self._end = AnsweringEnd(actors, self._messages.send)
        self._transport: asyncio.Transport | None = None
        self._silent = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        self._silent = 0
        try:
            messages = self._messages.read(data)
        except BadFrame:
            self.abort()
            return
        for message in messages:
            self._end.heard(message)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        self._ended(self)
        self._end.lost()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _write(self, frame: bytes) -> None:
        if self._transport is not None:
            self._transport.write(frame)

    def _watch(self) -> None:
        """A sender that is silent, that left the cluster, or whose secret was replaced is heard no longer."""
        header, key = self._session.header, self._session.key
        if self._silent > SILENT_BEATS or key.retired or not self._authenticator.still_hears(header):
            self.abort()
            return
        self._silent += 1
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._watch)


class RelayEndpoint:
    """Answers what another datacenter passes on."""

    def __init__(self, actors: ActorService, authenticator: Authenticator) -> None:
        self._actors = actors
        self._authenticator = authenticator
        self._open: set[RelayServer] = set()

    def close(self) -> None:
        for server in list(self._open):
            server.abort()

    def route(self) -> Route:
        return Route(
            method="GET",
            path=RELAY_PATH.decode(),
            handler=self.connect,
            kind="http_get_actor_relay",
            access=Access.PEER,
            signed=True,
            head=False,
        )

    def connect(self, call: ApiCall) -> None:
        signed = self._authenticator.authenticate(call.exchange)
        if signed is None:
            return
        if not signed.known:
            call.fail(403, "forbidden", "the datacenter that asks is no member any more")
        elif call.request.headers.get(b"upgrade", b"").lower() != PROTOCOL:
            message = f"this address speaks {PROTOCOL.decode()}; both nodes need the same release of Epoxy"
            call.fail(426, "upgrade_required", message)
        else:
            session = self._authenticator.open_session(signed)
            nonce, proof = session.nonce.hex().encode(), session.proof.hex().encode()
            said = b"%b,%b,%b" % (nonce, session.said, proof)
            server = RelayServer(self._actors, session, self._authenticator, self._open.discard)
            self._open.add(server)
            if not call.exchange.upgrade(server, ((b"upgrade", PROTOCOL), (b"epoxy-session", said))):
                self._open.discard(server)
                call.fail(400, "bad_request", "a connection of its own is needed")


class RelayDial(asyncio.Protocol):
    """The asking end of a connection. `opened`: it can be used. `ended`: is called once."""

    def __init__(
        self,
        label: int,
        address: NodeAddress,
        identity: Identity,
        nonce: int,
        link: Link,
        clock: Clock,
        ended: Callable[[], None],
    ) -> None:
        self.opened: asyncio.Future[AskingEnd] = asyncio.get_running_loop().create_future()
        self.opened.add_done_callback(lambda opened: opened.cancelled() or opened.exception())  # It may have no other.
        self._clock = clock
        self._label = label
        self._host = address.host_header.encode()
        self._identity = identity
        self._header: SignedHeader = identity.header(label, nonce)
        self._key = identity.keys.spoken
        self._link = link
        self._ended = ended
        self._transport: asyncio.Transport | None = None
        self._head = b""
        self._mac = b""
        self._messages: SealedMessages | None = None
        self._end: AskingEnd | None = None
        self._out = OrderedCrossing(lambda arrive: link.there(label, arrive), self._write_now)
        self._into = OrderedCrossing(lambda arrive: link.back(label, self._half_ms(), arrive), self._read_now)
        self._silent = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        signature, self._mac = auth.sign(self._key.secret, self._header, RELAY_PATH, b"")
        self._out.cross(
            b"GET %b HTTP/1.1\r\nhost: %b\r\nauthorization: %b\r\nconnection: upgrade\r\nupgrade: %b\r\n\r\n"
            % (RELAY_PATH, self._host, signature, PROTOCOL)
        )

    def data_received(self, data: bytes) -> None:
        self._into.cross(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
        self._fail("the connection was lost")
        self._ended()
        if self._end is not None:
            self._end.lost()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _half_ms(self) -> float:
        return self._link.half_ms(self._label)

    def _fail(self, reason: str) -> None:
        if not self.opened.done():
            self.opened.set_exception(ConnectionError(reason))

    def _write_now(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def _read_now(self, data: bytes) -> None:
        if self._transport is None:
            return
        self._silent = 0
        if self._messages is None:
            data = self._finish_handshake(data)
        if self._messages is None or self._end is None or not data:
            return
        try:
            messages = self._messages.read(data)
        except BadFrame:
            self.abort()
            return
        for message in messages:
            self._end.heard(message)

    def _finish_handshake(self, data: bytes) -> bytes:
        """The bytes behind the answer to the handshake."""
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if not end and len(head) <= MAX_HANDSHAKE_BYTES:
            return b""
        session = self._session(head) if end and head.startswith(b"HTTP/1.1 101 ") else None
        if session is None:
            self._fail(refusal_text(self._head))
            self.abort()
            return b""
        self._messages = SealedMessages(session.request_seals, session.answer_seals, self._out.cross)
        self._end = AskingEnd(self._clock, self._messages.send)
        self._beat()
        if not self.opened.done():
            self.opened.set_result(self._end)
        return rest

    def _session(self, head: bytes) -> PeerSession | None:
        lines = [line.partition(b": ") for line in head.split(b"\r\n")[1:]]
        said = next((value for name, _, value in lines if name.lower() == b"epoxy-session"), b"")
        given, _, more = said.partition(b",")
        text, _, proof = more.rpartition(b",")
        try:
            nonce, greeting = bytes.fromhex(given.decode("ascii")), read_greeting(text.split(b","))
        except ValueError:
            return None
        if len(nonce) != NONCE_BYTES:
            return None
        session = conclude_handshake(self._key, self._mac, nonce, self._header, greeting, self._identity.gate)
        proven = hmac.compare_digest(proof, session.proof.hex().encode()) and session.said == text
        return session if proven else None

    def _beat(self) -> None:
        if self._silent > SILENT_BEATS or self._key.retired:
            self.abort()
            return
        self._silent += 1
        if self._messages is not None:
            self._messages.send(Beat())
        self._timer = asyncio.get_running_loop().call_later(BEAT_S, self._beat)


class OrderedCrossing:
    """One direction of an emulated link: what is sent arrives in order, and not past anything that was lost."""

    def __init__(self, carry: Callable[[Callable[[], None]], None], arrived: Callable[[bytes], None]) -> None:
        self._carry = carry
        self._arrived = arrived
        self._under_way: deque[list[bytes | bool]] = deque()

    def cross(self, data: bytes) -> None:
        entry: list[bytes | bool] = [data, False]
        self._under_way.append(entry)
        self._carry(partial(self._arrive, entry))

    def _arrive(self, entry: list[bytes | bool]) -> None:
        entry[1] = True
        while self._under_way and self._under_way[0][1]:
            self._arrived(cast(bytes, self._under_way.popleft()[0]))


class UnsentQuestion:
    """One that waits for a connection. It is withdrawn from there unsent."""

    def __init__(self, label: int, question: Question, answered: Answered, stream: StreamEnd | None) -> None:
        self._label = label
        self._question = question
        self._answered = answered
        self._stream = stream
        self._withdrawn = False
        self._withdraw_sent: Withdraw | None = None

    def withdraw(self) -> bool:
        self._withdrawn = True
        return self._withdraw_sent is None or self._withdraw_sent()

    def connected(self, opened: "asyncio.Future[AskingEnd]") -> None:
        if self._withdrawn:
            return
        failed = None if opened.cancelled() else opened.exception()
        if opened.cancelled() or failed is not None:
            why = failed or "the node is stopping"
            reason = f"datacenter {self._label}, which owns the actor, cannot be reached: {why}"
            self._answered(OwnerUnavailable(reason=reason))
        else:
            self._withdraw_sent = opened.result().ask(self._question, self._answered, self._stream)


class LinkRelay:
    """`urls` are the addresses of a datacenter by its label; None: no member has it. `identity` signs. One connection
    for each datacenter, to the first of its addresses that accepts, its gateway."""

    def __init__(
        self,
        urls: Callable[[int], tuple[str, ...] | None],
        link: Link,
        tls: ContextOf | None,
        identity: Identity,
        dice: Dice,
        clock: Clock,
    ) -> None:
        self._urls = urls
        self._link = link
        self._tls = tls
        self._identity = identity
        self._dice = dice
        self._clock = clock
        self._ways: dict[tuple[int, tuple[str, ...]], asyncio.Future[AskingEnd]] = {}
        self._dials: set[RelayDial] = set()
        self._worked: dict[int, str] = {}
        """The address that accepted last, by the label of its datacenter; bounded by the members there ever were."""
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(self, label: int, question: Question, answered: Answered, stream: StreamEnd | None = None) -> Withdraw:
        urls = self._urls(label)
        if urls is None:
            answered(OwnerUnavailable(reason=f"datacenter {label}, which owns the actor, is no member of this cluster"))
            return lambda: True
        opened = self._ways.get((label, urls)) or self._open(label, urls)
        if opened.done() and opened.exception() is None:
            return opened.result().ask(question, answered, stream)
        unsent = UnsentQuestion(label, question, answered, stream)
        opened.add_done_callback(unsent.connected)
        return unsent.withdraw

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        for dial in list(self._dials):
            dial.abort()

    def _open(self, label: int, urls: tuple[str, ...]) -> "asyncio.Future[AskingEnd]":
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[AskingEnd] = loop.create_future()
        opened.add_done_callback(lambda done: done.cancelled() or done.exception())  # It may have no other.
        self._ways[label, urls] = opened
        task = loop.create_task(self._find(label, urls, opened))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return opened

    async def _find(self, label: int, urls: tuple[str, ...], opened: "asyncio.Future[AskingEnd]") -> None:
        """Dial one address after the other, first the one that accepted last. All of them together have the time of
        one, and a silent one leaves the others their share of it."""
        order = sorted(urls, key=lambda url: url != self._worked.get(label))
        loop, troubles = asyncio.get_running_loop(), []
        deadline = loop.time() + CONNECT_S
        try:
            for tried, url in enumerate(order):
                dial = self._dial(label, url, partial(self._ended, (label, urls), opened))
                share_s = (deadline - loop.time()) / (len(order) - tried)
                trouble = await self._connect(dial, parse_url(url), share_s)
                if not trouble and dial in self._dials:
                    self._worked[label] = url
                    opened.set_result(dial.opened.result())
                    return
                trouble = trouble or "the connection was lost"
                troubles.append(trouble if len(order) == 1 else f"{url}: {trouble}")
            self._forget((label, urls), opened)
            opened.set_exception(ConnectionError("; ".join(troubles) or "it has no address"))
        finally:
            if not opened.done():
                self._forget((label, urls), opened)
                opened.cancel()

    def _dial(self, label: int, url: str, over: Callable[[], None]) -> RelayDial:
        def ended() -> None:
            self._dials.discard(dial)
            over()

        nonce = self._dice.nonce()
        dial = RelayDial(label, parse_url(url), self._identity, nonce, self._link, self._clock, ended)
        self._dials.add(dial)
        return dial

    def _ended(self, way: tuple[int, tuple[str, ...]], opened: "asyncio.Future[AskingEnd]") -> None:
        """A connection is over: the one in use, or one that was refused while others are tried."""
        if opened.done():
            self._forget(way, opened)

    def _forget(self, way: tuple[int, tuple[str, ...]], opened: "asyncio.Future[AskingEnd]") -> None:
        if self._ways.get(way) is opened:
            del self._ways[way]

    async def _connect(self, dial: RelayDial, address: NodeAddress, timeout_s: float) -> str:
        """Why the connection is not open; empty: it is."""
        try:
            async with asyncio.timeout(timeout_s):
                context = self._tls() if self._tls is not None and address.secure else None
                await asyncio.get_running_loop().create_connection(
                    lambda: dial, address.host, address.port, ssl=context
                )
                await asyncio.shield(dial.opened)
        except OSError as error:  # TimeoutError is one.
            self._dials.discard(dial)
            dial.abort()
            return str(error) or "no answer in time"
        return ""
