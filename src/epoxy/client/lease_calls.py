"""What can be asked about values that expire and about sessions, and what the answers mean, without IO."""

from collections.abc import Callable
from urllib.parse import urlencode

from epoxy.client.calls import Call, checked_key, checked_ttl, condition, kv
from epoxy.client.http1 import HttpResponse
from epoxy.client.responses import JSON, fail, read_json, says_absent, ttl_of, version_of
from epoxy.client.results import Renewed, SessionInfo
from epoxy.model.api import LEAST_SESSION_TTL_MS, MAX_SESSION_TTL_MS, SessionRecord
from epoxy.model.errors import InvalidRequest

PATH = "/v2/sessions"


def renew(
    key: bytes | str, ttl: float | None, *, if_version: int | None = None, timeout: float | None = None
) -> Call[Renewed]:
    """Let the value end `ttl` seconds from now; None: never. The value stays, with a new version. Raises
    VersionMismatch, or ImmutableKey over a reserved name."""
    name = checked_key(key)

    def read(answer: HttpResponse) -> Renewed:
        if answer.status != 200 and not says_absent(answer):
            fail(answer, writes=True)
        return Renewed(
            key=name,
            renewed=answer.status == 200,
            version=version_of(answer),
            ttl=ttl_of(answer),
            latency_ms=answer.latency_ms,
        )

    asked = {"ttl": str(checked_ttl(ttl) if ttl is not None else 0)} | condition(if_version)
    return Call(method="PATCH", target=f"{kv(name)}?{urlencode(asked)}", writes=True, read=read, timeout=timeout)


def begin_session(ttl: float, *, timeout: float | None = None) -> Call[SessionInfo]:
    """A new session, which lasts for `ttl` seconds after each renewal. Keys that name it end with it."""
    return session_call("POST", f"{PATH}?ttl={checked_session_ttl(ttl)}", timeout, status=201)


def renew_session(session: str, *, timeout: float | None = None) -> Call[SessionInfo]:
    """Raises NoSession if it is over."""
    return session_call("PUT", f"{PATH}/{checked_session(session)}", timeout)


def show_session(session: str, *, timeout: float | None = None) -> Call[SessionInfo]:
    """Raises NoSession if it is over."""
    return session_call("GET", f"{PATH}/{checked_session(session)}", timeout, writes=False)


def end_session(session: str, *, timeout: float | None = None) -> Call[SessionInfo]:
    """And after it all keys that name it. Raises NoSession if it is over already."""
    return session_call("DELETE", f"{PATH}/{checked_session(session)}", timeout)


def session_call(
    method: str, target: str, timeout: float | None, *, status: int = 200, writes: bool = True
) -> Call[SessionInfo]:
    return Call(
        method=method,
        target=target,
        accept=JSON,
        writes=writes,
        read=reader(status, writes=writes),
        timeout=timeout,
        body=b"" if method in ("POST", "PUT") else None,
    )


def reader(status: int, *, writes: bool) -> Callable[[HttpResponse], SessionInfo]:
    def read(answer: HttpResponse) -> SessionInfo:
        told = read_json(SessionRecord, answer, status=status, writes=writes)
        left = told.remaining if isinstance(told.remaining, int) else told.ttl
        return SessionInfo(id=told.session, ttl=told.ttl / 1000, remaining=left / 1000)

    return read


def checked_session_ttl(ttl: object) -> int:
    if isinstance(ttl, int | float) and LEAST_SESSION_TTL_MS <= ttl * 1000 <= MAX_SESSION_TTL_MS:
        return round(ttl * 1000)
    most = MAX_SESSION_TTL_MS // 1000
    raise InvalidRequest(f"a session lasts {LEAST_SESSION_TTL_MS / 1000} to {most:,} seconds, not {ttl!r}")


def checked_session(session: object) -> str:
    if isinstance(session, str) and len(session) == 32 and all(letter in "0123456789abcdef" for letter in session):
        return session
    raise InvalidRequest(f"the id of a session has 32 hexadecimal digits, not {session!r}")
