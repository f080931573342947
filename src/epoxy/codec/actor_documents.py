"""The document of an actor, as its worker saves it: the fields of its state, each encoded on its own, and the answers
that are kept for requests with an idempotency key."""

import msgspec
from msgspec import Raw, Struct

from epoxy.model.errors import InvalidValue
from epoxy.model.exchanges import Headers

FORMAT = 1


class KeptAnswer(Struct, frozen=True, kw_only=True, array_like=True):
    """`at_ms`: unix time. `error`: the request failed, and the body is the reason. `too_large`: it was carried out, but
    its answer is not kept."""

    key: str
    at_ms: int
    status: int = 200
    headers: Headers = ()
    body: bytes = b""
    error: bool = False
    too_large: bool = False


class ActorDocument(Struct, frozen=True, kw_only=True, array_like=True):
    format: int = FORMAT
    fields: dict[str, Raw] = {}
    answers: tuple[KeptAnswer, ...] = ()


_decoder = msgspec.msgpack.Decoder(ActorDocument)
_encoder = msgspec.msgpack.Encoder()


def encode_document(fields: dict[str, bytes], answers: tuple[KeptAnswer, ...] = ()) -> bytes:
    """Fields are encoded already."""
    return _encoder.encode(ActorDocument(fields={name: Raw(value) for name, value in fields.items()}, answers=answers))


def decode_document(raw: bytes) -> tuple[dict[str, bytes], tuple[KeptAnswer, ...]]:
    """Raises InvalidValue. No bytes at all: an actor that has saved nothing."""
    if not raw:
        return {}, ()
    try:
        document = _decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidValue(f"not the document of an actor: {error}") from error
    if document.format != FORMAT:
        raise InvalidValue(f"a document of format {document.format}; this SDK reads format {FORMAT}")
    return {name: bytes(value) for name, value in document.fields.items()}, document.answers
