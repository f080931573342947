"""The connection of one envoy: JSON messages over a WebSocket."""

import asyncio
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from epoxy.actors.conversation import Conversation
from epoxy.actors.hosting import Hosting
from epoxy.api.http.permissions import quoted_name
from epoxy.codec import json_text
from epoxy.model.actors import EnvoyHello, FromEnvoy, ToEnvoy
from epoxy.model.errors import CodecError
from epoxy.protocol.access.principal import Principal
from epoxy.transport.http.websocket import WebSocket

HELLO_S = 10.0
"""For the first message, after which a connection without one is closed."""

MAX_REASON_BYTES = 100
"""A close frame holds 123 bytes."""

encoder = msgspec.json.Encoder()
messages: msgspec.json.Decoder[FromEnvoy] = msgspec.json.Decoder(FromEnvoy)


ENDED = "its grant or token is not in force any more"


def objection_to(principal: Principal, hello: EnvoyHello) -> str | None:
    if principal.may_work(hello.namespace, hello.pool):
        return None
    return f"{quoted_name(principal)} is not for pool {hello.pool!r} of namespace {hello.namespace!r}"


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
    ) -> None:
        self._principal = principal
        self._principal_now = principal_now
        self._hello: EnvoyHello | None = None
        self._over = False
        self._socket = socket
        self._ended = ended
        self._conversation = Conversation(hosting, self)
        self._timer = asyncio.get_running_loop().call_later(HELLO_S, self._expect_hello)

    def send(self, message: ToEnvoy) -> None:
        self._socket.send(encoder.encode(message))

    def close(self, reason: str = "") -> None:
        """Nothing is heard from now on: a worker may go on sending until its end of the WebSocket is closed, too."""
        self._over = True
        self._socket.close(reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore"))

    def heard(self, text: bytes) -> None:
        if self._over:
            return
        try:
            message = json_text.decode(messages, text)
        except CodecError as error:
            self._conversation.reject(str(error))
            return
        if isinstance(message, EnvoyHello):
            message = self._hello = held_by(self._principal, message)
            if (objection := objection_to(self._principal, message)) is not None:
                self._conversation.reject(objection)
                return
        self._conversation.heard(message)

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
        self._conversation.lost()

    def _expect_hello(self) -> None:
        if self._conversation.envoy is None:
            self._conversation.reject("no hello came")
