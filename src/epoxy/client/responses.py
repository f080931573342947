"""What an answer of a node means: a result, or the exception for it. Both clients agree on every case."""

from typing import NoReturn, TypeVar

import msgspec

from epoxy.client.http1 import HttpResponse
from epoxy.codec import json_text
from epoxy.model.api import Failure, Problem
from epoxy.model.errors import (
    AccessRefused,
    CodecError,
    ConsensusFailed,
    CursorGone,
    Forbidden,
    ImmutableKey,
    InvalidRequest,
    KeyExists,
    NoSession,
    NotAnInteger,
    NotRunning,
    OutcomeUnknown,
    QuotaExceeded,
    Unauthenticated,
    Unavailable,
    UnexpectedAnswer,
    VersionMismatch,
    WriteConflict,
)
from epoxy.model.integers import integer_of
from epoxy.model.writes import Path, Source

T = TypeVar("T")

JSON = "application/json"
NAMED_PATHS = {path.value: path for path in Path}
NAMED_SOURCES = {source.value: source for source in Source}
CURSOR_GONE = "cursor_gone"
GONE = {CURSOR_GONE: CursorGone, "no_session": NoSession}
NOT_RUNNING = "not_running"
CONFLICTS = ("version_mismatch", "immutable", "not_an_integer", "exists")
QUOTAS = ("quota_requests", "quota_bytes")


def fail(answer: HttpResponse, *, writes: bool) -> NoReturn:
    """The exception for an answer that is no result. Unavailable means: another node may be asked; NotRunning is what
    all of them would say, and so is AccessRefused."""
    if answer.status == 409 and answer.headers.get("epoxy-error") in CONFLICTS:
        raise conflict(answer)
    error = error_of(answer)
    if error is None:
        raise not_a_node(answer, writes=writes)
    told = f"{error.message} ({error.code})"
    if error.code in GONE:
        raise GONE[error.code](told)
    if (refusal := access_refusal(error.code, told, answer)) is not None:
        raise refusal
    if not error.definite:
        raise ConsensusFailed(told) if error.code == "consensus_failed" else OutcomeUnknown(told)
    if answer.status >= 500 or answer.status == 429:
        raise NotRunning(told) if error.code == NOT_RUNNING else Unavailable(told)
    raise InvalidRequest(told)


def access_refusal(code: str, told: str, answer: HttpResponse) -> AccessRefused | None:
    if code in QUOTAS:
        after = answer.headers.get("retry-after", "")
        return QuotaExceeded(told, retry_after_s=float(after) if after.isdecimal() else None)
    if code == "unauthenticated":
        return Unauthenticated(told)
    return Forbidden(told) if code == "forbidden" else None


def conflict(answer: HttpResponse) -> WriteConflict:
    """What is committed is the body, unless a proxy made an error of its own out of it."""
    version = version_of(answer)
    value = answer.body if version and not is_error(answer) else None
    error, is_reserved = answer.headers.get("epoxy-error"), answer.headers.get("epoxy-mutable") == "false"
    if error == "immutable" or (error == "exists" and is_reserved):  # It does not become free by waiting.
        return ImmutableKey(f"the name is reserved, for ever, as version {version}", value=value, version=version)
    if error == "exists":
        left = ttl_of(answer)
        ends = f", for another {left:.1f} s unless it is renewed" if left is not None else ""
        return KeyExists(f"the key has a value, version {version}{ends}", value=value, version=version, ttl=left)
    if error == "not_an_integer":
        fits = value is not None and integer_of(value) is not None
        reason = "the sum would have more than 64 bits" if fits else "the value is no decimal number of 64 bits"
        return NotAnInteger(f"nothing can be added: {reason}", value=value, version=version)
    stands = f"version {version} stands" if version else "the key was never written"
    return VersionMismatch(f"not the version asked for: {stands}", value=value, version=version)


def not_a_node(answer: HttpResponse, *, writes: bool) -> Unavailable | UnexpectedAnswer:
    """An answer that is not a node's. A status of 4xx, or "not implemented", means that nothing was done, whichever
    server sends it; anything else may hide a proxy that lost a node's answer on its way."""
    told = f"answered {answer.status} ({answer.media_type or 'no content type'}), which no Epoxy node says"
    if writes and answer.status != 501 and (not 400 <= answer.status < 500 or answer.status == 408):
        return UnexpectedAnswer(told)
    return Unavailable(f"{told}; is this the address of an Epoxy node?")


def is_error(answer: HttpResponse) -> bool:
    return answer.media_type == JSON


def error_of(answer: HttpResponse) -> Problem | None:
    if not is_error(answer):
        return None
    try:
        return json_text.decode(msgspec.json.Decoder(Failure), answer.body).error
    except CodecError:
        return None


def says_absent(answer: HttpResponse) -> bool:
    """A 404 of a node and not of some other server, which would make every name look free."""
    return answer.status == 404 and answer.headers.get("epoxy-error") == "not_found"


def version_of(answer: HttpResponse) -> int:
    """An answer about a committed value must have its version. After a 404, or before a first write that came with a
    condition, nothing is committed, and there may be none."""
    told = answer.headers.get("epoxy-version")
    if told is None and answer.status in (404, 409):
        return 0
    if told is None or not told.isdecimal():
        raise UnexpectedAnswer(f"answered {answer.status} without a version, which no Epoxy node does")
    return int(told)


def ttl_of(answer: HttpResponse) -> float | None:
    """What is left of a value's time to live, in seconds."""
    told = answer.headers.get("epoxy-ttl", "")
    return int(told) / 1000 if told.isdecimal() else None


def replaced(answer: HttpResponse) -> bytes | None:
    """What a write that is `returning` replaced. The header tells an empty value from none."""
    return answer.body if "epoxy-previous-version" in answer.headers else None


def travelled(answer: HttpResponse) -> Path:
    """Without the header, the longest path there is."""
    return NAMED_PATHS.get(answer.headers.get("epoxy-path", ""), Path.SLOW)


def found_at(answer: HttpResponse) -> Source:
    return NAMED_SOURCES.get(answer.headers.get("epoxy-source", ""), Source.REMOTE)


def read_json(kind: type[T], answer: HttpResponse, *, status: int = 200, writes: bool = False) -> T:
    """The body of an answer with this status; any other is an error."""
    if answer.status != status:
        fail(answer, writes=writes)
    try:
        return json_text.decode(msgspec.json.Decoder(kind), answer.body)
    except CodecError as error:
        raise Unavailable(f"answered what no Epoxy node says ({error}); is this the address of one?") from error
