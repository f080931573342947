"""The connection of one envoy: messages over a WebSocket, in batches as the SDK sends them, or one by one in JSON. A
node answers in the form in which the hello came."""

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from time import perf_counter

from msgspec.structs import replace

from epoxy.actors.asks import Asks
from epoxy.actors.conversation import Conversation
from epoxy.actors.hosting import Hosting
from epoxy.api.http.inputs import BadRequest
from epoxy.api.http.permissions import check_call, missing_role, quoted_name
from epoxy.codec.envoy_frames import FRAME_BYTES, from_envoy, join, pack, text_frame
from epoxy.model.access import Access
from epoxy.model.actors import ActorName
from epoxy.model.envoy_messages import ActorAsk, EnvoyHello, FromEnvoy, ToEnvoy
from epoxy.model.errors import CodecError
from epoxy.protocol.access.principal import Principal
from epoxy.protocol.placement.records import EnvoyId
from epoxy.transport.http.websocket import WebSocket

HELLO_S = 10.0
"""For the first message, after which a connection without one is closed."""

MAX_REASON_BYTES = 100
"""A close frame holds 123 bytes."""

TURN_S = 0.001
"""For the messages of one envoy. A batch may hold tens of thousands, and other connections have their turn between."""

ENDED = "its grant or token is not in force any more"


def objection_to(principal: Principal, hello: EnvoyHello) -> str | None:
    if principal.may_work(hello.namespace, hello.pool):
        return None
    return f"{quoted_name(principal)} is not for pool {hello.pool!r} of namespace {hello.namespace!r}"


def objection_to_call(principal: Principal, name: ActorName) -> str | None:
    """Actors ask others with the grant of their worker, which needs the role for it."""
    if not principal.calls:
        return missing_role(principal, Access.CALL)
    try:
        check_call(principal, name)
    except BadRequest as refusal:
        return refusal.message
    return None


def held_by(principal: Principal, hello: EnvoyHello) -> EnvoyHello:
    """An envoy's key belongs to its process and its grant: another grant cannot take its place by saying the same
    incarnation, which is no secret. Names of grants have no spaces, so no two pairs have the same text."""
    if not principal.name:
        return hello
    return replace(hello, incarnation=f"{hello.incarnation or 'any process'} of {principal.name}")


class EnvoySession:
    """A Listener for the socket, and a Session for hosting. `principal`: of the request that opened the socket;
    `principal_now`: the same by what is in force now, if it still is."""

    def __init__(
        self,
        socket: WebSocket,
        hosting: Hosting,
        ended: Callable[["EnvoySession"], None],
        principal: Principal,
        principal_now: Callable[[], Principal | None],
        asks: Asks,
    ) -> None:
        self._principal = principal
        self._principal_now = principal_now
        self._hello: EnvoyHello | None = None
        self._over = False
        self._socket = socket
        self._ended = ended
        self._speaks_text = True
        self._unread: deque[FromEnvoy] = deque()
        self._scheduled = False
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._asks = asks
        self._conversation = Conversation(hosting, self, self._ask)
        self._timer = asyncio.get_running_loop().call_later(HELLO_S, self._expect_hello)

    def send(self, message: ToEnvoy) -> None:
        """All of a turn of the event loop in one frame."""
        if self._speaks_text:
            self._socket.send(text_frame(message))
            return
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        piece = pack(message)
        if self._unsent_bytes + len(piece) > FRAME_BYTES:
            self._flush()
        self._unsent.append(piece)
        self._unsent_bytes += len(piece)

    def _flush(self) -> None:
        if self._unsent:
            frame, self._unsent, self._unsent_bytes = join(self._unsent), [], 0
            self._socket.send(frame, text=False)

    def close(self, reason: str = "") -> None:
        """Nothing is heard from now on: a worker may go on sending until its end of the WebSocket is closed, too."""
        self._over = True
        self._unread.clear()
        self._flush()
        self._socket.close(reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore"))

    def heard(self, frame: bytes, *, text: bool) -> None:
        if self._over:
            return
        if self._hello is None:
            self._speaks_text = text
        try:
            self._unread += from_envoy.read(frame, text=text)
        except CodecError as error:
            self._conversation.reject(str(error))
            return
        if not self._scheduled:
            self._turn()

    def _turn(self) -> None:
        self._scheduled = False
        ends = perf_counter() + TURN_S
        while self._unread:
            self._take(self._unread.popleft())
            if self._unread and perf_counter() > ends:
                self._scheduled = True
                self._socket.pause_reading()
                asyncio.get_running_loop().call_soon(self._go_on)
                return

    def _go_on(self) -> None:
        self._turn()
        if not self._scheduled:
            self._socket.resume_reading()

    def _take(self, message: FromEnvoy) -> None:
        if isinstance(message, EnvoyHello):
            message = self._hello = held_by(self._principal, message)
            if (objection := objection_to(self._principal, message)) is not None:
                self._conversation.reject(objection)
                return
        self._conversation.heard(message)

    def drained(self) -> None:
        """What waits for an envoy is limited by the socket."""

    def _ask(self, envoy: EnvoyId, asked: ActorAsk) -> None:
        self._asks.ask(envoy, asked, self.send, partial(objection_to_call, self._principal))

    def look_again(self) -> None:
        """What is in force has changed: the connection ends if its principal may not work here any more. An envoy that
        comes back with another token goes on with its actors."""
        principal = self._principal_now()
        if principal is None or not principal.works:
            self.close(ENDED)
            return
        self._principal = principal
        if self._hello is not None and (objection := objection_to(principal, self._hello)) is not None:
            self.close(objection)

    def lost(self) -> None:
        self._ended(self)
        self._timer.cancel()
        self._over = True
        self._unread.clear()
        self._unsent.clear()
        self._conversation.lost()

    def _expect_hello(self) -> None:
        if self._conversation.envoy is None:
            self._conversation.reject("no hello came")
