"""The bytes of an answer in HTTP/1.1, and the JSON of errors."""

from collections.abc import Sequence
from http import HTTPStatus

import msgspec

from epoxy.model.api import Failure, Problem

Headers = Sequence[tuple[bytes, bytes]]

JSON = b"application/json"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"
STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}
WITHOUT_BODY = frozenset((HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED))


def head(status: int, content_type: bytes, headers: Headers, *, framing: bytes, close: bool) -> bytes:
    """Everything up to the body. `framing`: the header line that says where the body ends."""
    line = STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status
    parts = [line, b"content-type: ", content_type, b"\r\n", framing]
    for name, value in headers:
        # A value taken from a request must not be able to add header lines.
        assert b"\r" not in value, (name, value)
        assert b"\n" not in value, (name, value)
        parts += (name, b": ", value, b"\r\n")
    parts.append(b"connection: close\r\n\r\n" if close else b"\r\n")
    return b"".join(parts)


def switching(headers: Headers) -> bytes:
    """101: the last answer in HTTP on a connection."""
    lines = [b"%b: %b\r\n" % header for header in headers]
    return b"".join([STATUS_LINES[101], b"connection: Upgrade\r\n", *lines, b"\r\n"])


def length(size: int) -> bytes:
    return b"content-length: %d\r\n" % size


def chunk(data: bytes) -> tuple[bytes, bytes, bytes]:
    return b"%x\r\n" % len(data), data, b"\r\n"


def problem(code: str, message: str, *, definite: bool = True, retry_after_ms: int | None = None) -> bytes:
    """The body of every error answer. Definite: the request had no effect."""
    found = Problem(code=code, message=message, definite=definite, retry_after_ms=retry_after_ms)
    return msgspec.json.encode(Failure(error=found))


def message_of(body: bytes) -> str:
    """The message in an error answer; of a body in another format, its beginning."""
    return problem_of(body)[1]


def problem_of(body: bytes) -> tuple[str, str]:
    """The code and the message in an error answer. A body in another format has no code."""
    try:
        found = msgspec.json.decode(body, type=Failure).error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return "", body[:200].decode("utf-8", "replace")
    return found.code, found.message
