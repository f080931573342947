"""Reads the parts of a request. What is outside the contract raises BadRequest, which says what is wrong."""

import re
from collections.abc import Mapping
from typing import TypeVar
from urllib.parse import unquote_to_bytes

import msgspec

from epoxy.codec import json_text
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.errors import CodecError, InvalidRequest
from epoxy.model.records import MAX_KEY_BYTES, SESSION_ID_BYTES
from epoxy.transport.http.request import HttpRequest
from epoxy.transport.http.response import JSON

T = TypeVar("T")

SHOWN_BYTES = 64
"""How much of a client's input an error message quotes: enough to find the mistake."""

BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
DIGITS = re.compile(rb"[0-9]{1,20}")
SIGNED = re.compile(rb"-?[0-9]{1,20}")
SESSION = re.compile(rb"[0-9a-f]{%d}" % (2 * SESSION_ID_BYTES))

Parameters = Mapping[bytes, bytes]
NO_PARAMETERS: Parameters = {}


class BadRequest(InvalidRequest):
    """A request outside the contract: nothing was done."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def json_body(request: HttpRequest) -> bytes:
    """JSON must be declared as such: no page of another origin can make a browser send that type (`cross_site`)."""
    media_type = request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if media_type != JSON:
        message = f"the body is JSON and must say so: Content-Type: application/json, not '{shown(media_type)}'"
        raise BadRequest(415, "unsupported_media_type", message)
    return request.body


def json_record(request: HttpRequest, decoder: msgspec.json.Decoder[T], what: str) -> T:
    """The body, if it is JSON for this record."""
    try:
        return json_text.decode(decoder, json_body(request))
    except CodecError as error:
        raise BadRequest(400, "bad_request", f"the body is no {what}: {error}") from error


def unquote(raw: bytes) -> bytes:
    if b"%" not in raw:
        return raw
    if (broken := BROKEN_ESCAPE.search(raw)) is not None:
        at = shown(raw[broken.start() : broken.start() + 3])
        raise BadRequest(
            400, "bad_encoding", f"'{at}' is not a percent sign and two hexadecimal digits; write % as %25"
        )
    return unquote_to_bytes(raw)


def key_of(raw: bytes) -> bytes:
    """The key in a path."""
    key = unquote(raw)
    if not 1 <= len(key) <= MAX_KEY_BYTES:
        raise BadRequest(400, "bad_key", f"a key has 1 to {MAX_KEY_BYTES} bytes, not {len(key)}")
    if key >= FIRST_SYSTEM_KEY:
        raise BadRequest(400, "bad_key", "keys that begin with the byte ff are the cluster's own")
    return key


def parameters(query: bytes, known: frozenset[bytes]) -> Parameters:
    """Strict: a misspelt or doubled condition must not become an unconditional write."""
    if not query:
        return NO_PARAMETERS
    found: dict[bytes, bytes] = {}
    for part in query.split(b"&"):
        if not part:
            continue
        name, _, value = [unquote(word) for word in part.replace(b"+", b" ").partition(b"=")]
        if name not in known:
            names = ", ".join(sorted(word.decode() for word in known)) or "none"
            raise BadRequest(400, "bad_parameter", f"unknown parameter '{shown(name)}'; there are: {names}")
        if name in found:
            raise BadRequest(400, "bad_parameter", f"'{shown(name)}' is given twice")
        found[name] = value
    return found


def number(given: Parameters, name: bytes, *, low: int, high: int) -> int | None:
    """None if it is not given."""
    text = given.get(name)
    if text is None:
        return None
    value = int(text) if (DIGITS if low >= 0 else SIGNED).fullmatch(text) else None
    if value is None or not low <= value <= high:
        raise BadRequest(400, "bad_parameter", f"{name.decode()} is a number from {low} to {high}, not '{shown(text)}'")
    return value


def session_of(text: bytes) -> bytes:
    """The id of a session, as it is shown to clients."""
    if not SESSION.fullmatch(text):
        words = f"the id of a session has {2 * SESSION_ID_BYTES} hexadecimal digits, not '{shown(text)}'"
        raise BadRequest(400, "bad_parameter", words)
    return bytes.fromhex(text.decode())


def fragment(given: Parameters, name: bytes) -> bytes:
    """A key, or the beginning of one; empty if it is not given."""
    value = given.get(name, b"")
    if len(value) > MAX_KEY_BYTES:
        raise BadRequest(400, "bad_parameter", f"{name.decode()} has at most {MAX_KEY_BYTES} bytes, not {len(value)}")
    return value


def choice(name: str, text: bytes, choices: tuple[bytes, ...]) -> bytes:
    if text not in choices:
        words = ", ".join(word.decode() for word in choices)
        raise BadRequest(400, "bad_parameter", f"{name} is one of {words}, not '{shown(text)}'")
    return text


def flag(given: Parameters, name: bytes, default: bytes = b"false") -> bool:
    return choice(name.decode(), given.get(name, default), (b"true", b"false")) == b"true"


def shown(raw: bytes) -> str:
    """A client's input in an error message: printable, and not too long."""
    text = raw[:SHOWN_BYTES].decode("ascii", "backslashreplace")
    text = "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)
    return text + "..." if len(raw) > SHOWN_BYTES else text
