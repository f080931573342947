"""The connection of one envoy: JSON messages over a WebSocket, turned into what they mean."""

import asyncio
from collections.abc import Callable
from typing import assert_never

import msgspec

from epoxy.actors.hosting import Hosting
from epoxy.codec import json_text
from epoxy.model.actors import (
    Draining,
    FromEnvoy,
    Goodbye,
    Hello,
    Ping,
    Pong,
    Rejected,
    Response,
    Running,
    Stopped,
    ToEnvoy,
    parse_id,
)
from epoxy.model.errors import CodecError, InvalidRequest
from epoxy.placement.records import EnvoyId
from epoxy.transport.websocket import WebSocket

HELLO_S = 10.0
"""For the first word. Whoever has none is no envoy."""

encoder = msgspec.json.Encoder()
words: msgspec.json.Decoder[FromEnvoy] = msgspec.json.Decoder(FromEnvoy)


class EnvoySession:
    """A Listener for the socket, and a Session for hosting."""

    def __init__(self, socket: WebSocket, hosting: Hosting, ended: Callable[["EnvoySession"], None]) -> None:
        self._socket = socket
        self._ended = ended
        self._hosting = hosting
        self._envoy: EnvoyId | None = None
        self._timer = asyncio.get_running_loop().call_later(HELLO_S, lambda: self._reject("no hello came"))

    def send(self, message: ToEnvoy) -> None:
        self._socket.send(encoder.encode(message))

    def close(self) -> None:
        self._socket.close()

    def heard(self, message: bytes) -> None:
        try:
            self._take(json_text.decode(words, message))
        except (CodecError, InvalidRequest) as error:
            self._reject(str(error))

    def lost(self) -> None:
        self._ended(self)
        self._timer.cancel()
        if self._envoy is not None:
            self._hosting.disconnected(self._envoy, self)

    def _take(self, word: FromEnvoy) -> None:
        if isinstance(word, Hello):
            if self._envoy is not None:
                raise InvalidRequest("hello is said once")
            self._timer.cancel()
            self._envoy = self._hosting.connect(word, self)
        elif self._envoy is None:
            raise InvalidRequest("the first word is hello")
        elif self._hosting.sessions.get(self._envoy) is self:
            self._obey(self._envoy, word)

    def _obey(self, envoy: EnvoyId, word: Ping | Running | Stopped | Draining | Goodbye | Response) -> None:
        match word:
            case Ping():
                if self._hosting.ping(envoy, word.rtt_ms):
                    self.send(Pong(sent_ms=word.sent_ms))
                else:
                    self._reject("expired", expired=True)
            case Running():
                self._hosting.running(envoy, parse_id(word.actor_id), word.generation)
            case Stopped():
                self._hosting.stopped(envoy, parse_id(word.actor_id), word.generation, failed=word.failed)
            case Draining():
                self._hosting.drain(envoy)
            case Goodbye():
                self._hosting.leave(envoy, self)
            case Response():
                self._hosting.calls.heard(envoy, word)
            case _:
                assert_never(word)

    def _reject(self, reason: str, *, expired: bool = False) -> None:
        self.send(Rejected(message=reason, expired=expired))
        self._socket.close(reason[:100])
