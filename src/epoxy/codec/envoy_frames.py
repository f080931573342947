"""Messages between a node and an envoy as frames of a WebSocket: binary ones hold a batch in MessagePack, which is what
the SDK speaks; a text frame holds one message in JSON, which any language and a person at a terminal can write."""

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

import msgspec

from epoxy.codec import json_text
from epoxy.model.envoy_messages import FromEnvoy, ToEnvoy
from epoxy.model.errors import InvalidValue

T = TypeVar("T")

FRAME_BYTES = 256 << 10
"""Of one batch, unless a single message is larger. A ping that comes next waits no longer than for the rest of it."""

pack = msgspec.msgpack.Encoder().encode
to_json = msgspec.json.Encoder().encode


class EnvoyFrames(Generic[T]):
    """Reads the messages of one side."""

    def __init__(self, batches: type[list[T]], messages: type[T]) -> None:
        self._batches = msgspec.msgpack.Decoder(batches)
        self._messages = msgspec.json.Decoder(messages)

    def read(self, frame: bytes, *, text: bool) -> list[T]:
        """Raises InvalidValue."""
        if text:
            return [json_text.decode(self._messages, frame)]
        try:
            return self._batches.decode(frame)
        except RecursionError as error:
            raise InvalidValue("arrays or maps are nested too deep") from error
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidValue(str(error)) from error


from_envoy: EnvoyFrames[FromEnvoy] = EnvoyFrames(list[FromEnvoy], FromEnvoy)  # type: ignore[arg-type]
to_envoy: EnvoyFrames[ToEnvoy] = EnvoyFrames(list[ToEnvoy], ToEnvoy)  # type: ignore[arg-type]


def batch(messages: Iterable[FromEnvoy | ToEnvoy]) -> bytes:
    """One binary frame."""
    return pack(list(messages))


def join(pieces: Sequence[bytes]) -> bytes:
    """The same of messages that are encoded already, so that a queue knows how many bytes it holds."""
    count = len(pieces)
    if count < 1 << 4:
        head = bytes((0x90 | count,))
    elif count < 1 << 16:
        head = b"\xdc" + count.to_bytes(2, "big")
    else:
        head = b"\xdd" + count.to_bytes(4, "big")
    return head + b"".join(pieces)


def text_frame(message: FromEnvoy | ToEnvoy) -> bytes:
    return to_json(message)
