"""The connection of one envoy: JSON messages over a WebSocket."""

import asyncio
from collections.abc import Callable

import msgspec

from epoxy.actors.conversation import Conversation
from epoxy.actors.hosting import Hosting
from epoxy.codec import json_text
from epoxy.model.actors import FromEnvoy, ToEnvoy
from epoxy.model.errors import CodecError
from epoxy.transport.http.websocket import WebSocket

HELLO_S = 10.0
"""For the first message, after which a connection without one is closed."""

MAX_REASON_BYTES = 100
"""A close frame holds 123 bytes."""

encoder = msgspec.json.Encoder()
messages: msgspec.json.Decoder[FromEnvoy] = msgspec.json.Decoder(FromEnvoy)


class EnvoySession:
    """A Listener for the socket, and a Session for hosting."""

    def __init__(self, socket: WebSocket, hosting: Hosting, ended: Callable[["EnvoySession"], None]) -> None:
        self._socket = socket
        self._ended = ended
        self._conversation = Conversation(hosting, self)
        self._timer = asyncio.get_running_loop().call_later(HELLO_S, self._expect_hello)

    def send(self, message: ToEnvoy) -> None:
        self._socket.send(encoder.encode(message))

    def close(self, reason: str = "") -> None:
        self._socket.close(reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore"))

    def heard(self, text: bytes) -> None:
        try:
            message = json_text.decode(messages, text)
        except CodecError as error:
            self._conversation.reject(str(error))
        else:
            self._conversation.heard(message)

    def lost(self) -> None:
        self._ended(self)
        self._timer.cancel()
        self._conversation.lost()

    def _expect_hello(self) -> None:
        if self._conversation.envoy is None:
            self._conversation.reject("no hello came")
