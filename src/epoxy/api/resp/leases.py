"""Versions and sessions: the commands that Redis has no word for."""

from collections.abc import Callable
from functools import partial

from epoxy.api.resp.admin import unknown_subcommand
from epoxy.api.resp.command import Answer, Arguments, CommandSpec, RespSession, checked_integer, checked_key
from epoxy.api.resp.keys import failure, read, unreadable
from epoxy.codec import resp
from epoxy.model.access import Access
from epoxy.model.errors import InvalidRequest
from epoxy.model.records import MAX_TTL_MS, SESSION_ID_BYTES
from epoxy.model.sessions import session_key
from epoxy.model.writes import Committed, NothingToDelete, Outcome, ReadAnswer, ReadResult

NO_SESSION = resp.error("NOSESSION the session is over, or never was")


def version(session: RespSession, arguments: Arguments) -> bytes | None:
    """The fencing token: it rises with every write of the key, across deletions and holders."""
    key = checked_key(arguments[1])
    here = session.node.peek(key)
    if here is not None and (not session.consistent or (here.committed is not None and not here.committed.mutable)):
        return numbered(here)
    answer = session.promise()

    def heard(outcome: ReadAnswer) -> None:
        answer(numbered(outcome) if isinstance(outcome, ReadResult) else unreadable(key, outcome))

    session.node.read(key, session.consistency, heard, session.caller)
    return None


def numbered(found: ReadResult) -> bytes:
    return resp.integer(found.committed.version if found.committed is not None else 0)


def sessions(session: RespSession, arguments: Arguments) -> None:
    match [arguments[1].upper(), *arguments[2:]]:
        case [b"NEW", ttl]:
            begin(session, ttl_of(ttl))
        case [b"RENEW", spelled]:
            change(session, spelled, session.node.sessions.renew, lambda lasts: resp.OK if lasts else NO_SESSION)
        case [b"END", spelled]:
            change(session, spelled, session.node.sessions.end, lambda lasted: resp.integer(int(lasted)))
        case [name, *_]:
            raise unknown_subcommand("EPOXY.SESSION", name, ": NEW ttl_ms, RENEW id, END id")
        case _:
            raise AssertionError(arguments)


def begin(session: RespSession, ttl_ms: int) -> None:
    answer = session.promise()
    outcomes: list[Outcome] = []
    made: list[bytes] = []

    def tell() -> None:
        """Once both are known: a refusal comes before the id."""
        if len(outcomes) == len(made) == 1:
            begun = isinstance(outcomes[0], Committed)
            answer(resp.bulk(made[0].hex().encode()) if begun else failure(b"session", outcomes[0]))

    def done(outcome: Outcome) -> None:
        outcomes.append(outcome)
        tell()

    made.append(session.node.sessions.begin(ttl_ms, done))
    tell()


def change(
    session: RespSession,
    spelled: bytes,
    ask: Callable[[bytes, Callable[[Outcome], None]], None],
    shape: Callable[[bool], bytes],
) -> None:
    """Of a session: `shape` is told whether it lasted."""
    number = session_id(spelled)
    ask(number, partial(changed, session.promise(), number, shape))


def changed(answer: Answer, number: bytes, shape: Callable[[bool], bytes], outcome: Outcome) -> None:
    if isinstance(outcome, Committed | NothingToDelete):
        answer(shape(isinstance(outcome, Committed)))
    else:
        answer(failure(session_key(number)[1:], outcome))


def ttl_of(text: bytes) -> int:
    ttl_ms = checked_integer(text)
    if not 0 < ttl_ms <= MAX_TTL_MS:
        raise InvalidRequest(f"a session lasts 1 to {MAX_TTL_MS} milliseconds")
    return ttl_ms


def session_id(spelled: bytes) -> bytes:
    try:
        number = bytes.fromhex(spelled.decode("ascii"))
    except ValueError:
        number = b""
    if len(number) != SESSION_ID_BYTES:
        raise InvalidRequest(f"the id of a session has {2 * SESSION_ID_BYTES} hexadecimal digits")
    return number


COMMANDS = (
    read("epoxy.version", version, "The version of a key, which only rises: a fencing token. 0: never written."),
    CommandSpec(
        name="epoxy.session",
        run=sessions,
        arity=-3,
        summary="NEW ttl_ms, RENEW id, END id: a lease that keys may share, by SET k v SESSION id.",
        group="string",
        access=Access.WRITE,
    ),
)
