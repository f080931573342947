"""Commands that read keys, and what a client is told of a write that failed.

A read of a value that this node holds is answered at once, without a message. One that asks other replicas reserves its
place in the queue of replies.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import assert_never

from epoxy.api.resp.command import Arguments, CommandSpec, Handler, RespSession, checked_key, shown
from epoxy.api.resp.turns import Ended, Spread, in_turns
from epoxy.codec import resp
from epoxy.model.access import Access
from epoxy.model.marks import is_owned
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
    NothingToDelete,
    Outcome,
    ReadAnswer,
    ReadFailed,
    ReadResult,
    Refused,
    Unchanged,
    VersionMismatch,
)

MAX_REPLY_BYTES = 16 << 20
"""Sixteen of the longest values: a reply is put together in memory before it is sent."""

Piece = Callable[[bytes | None], bytes]


def known(session: RespSession, key: bytes) -> ReadResult | None:
    """What this node may answer without a message. A reserved name never changes, so that answers consistent reads
    too."""
    if session.watched and key in session.watched:
        return session.watched[key]
    here = session.node.peek(key)
    if here is None or not session.consistent:
        return here
    return here if here.committed is not None and not here.committed.mutable else None


def get(session: RespSession, arguments: Arguments) -> bytes | None:
    key = checked_key(arguments[1])
    question = resp.bulk(key)
    cached = session.cache.find(question) if not session.watched else None
    if cached is not None:
        return cached
    here = known(session, key)
    if here is None:
        return ask(session, key, lambda value: resp.maybe_bulk(value, session.protocol))
    reply = resp.maybe_bulk(here.value, session.protocol)
    if is_cacheable(session, key, here):
        session.cache.keep(question, reply)
    return reply


def is_cacheable(session: RespSession, key: bytes, here: ReadResult) -> bool:
    """Whether the reply may be cached: for ever, or until the node announces a newer version. For a consistent session
    `known` returns only immutable values, which are of the first kind."""
    committed = here.committed
    if committed is None or committed.is_tombstone:
        return False
    return not committed.mutable or session.node.stays(key, here)


def read_one(piece: Piece) -> Handler:
    """A command whose reply follows from the value of one key."""

    def run(session: RespSession, arguments: Arguments) -> bytes | None:
        here = known(session, checked_key(arguments[1]))
        return piece(here.value) if here is not None else ask(session, arguments[1], piece)

    return run


def ask(session: RespSession, key: bytes, piece: Piece) -> bytes | None:
    answer = session.promise()

    def heard(outcome: ReadAnswer) -> None:
        answer(piece(outcome.value) if isinstance(outcome, ReadResult) else unreadable(key, outcome))

    session.node.read(key, session.consistency, heard, session.caller)
    return None


def unreadable(key: bytes, outcome: ReadFailed | Refused) -> bytes:
    if isinstance(outcome, Refused):
        return resp.error(f"BUSY {shown(key)} was not read: {outcome.reason}")
    return resp.error(f"UNAVAILABLE {shown(key)} cannot be read now: {outcome.reason}")


class Pieces:
    """One reply made of the values of several keys."""

    def __init__(
        self, session: RespSession, keys: Sequence[bytes], piece: Piece, whole: Callable[[Sequence[bytes]], bytes]
    ) -> None:
        self._session = session
        self._keys = keys
        self._piece = piece
        self._whole = whole
        self._pieces = [b""] * len(keys)
        self._elsewhere: list[int] = []
        self._bytes = 0
        self._failure: bytes | None = None
        self._answer = session.promise()

    def read(self) -> None:
        in_turns(self._session, self._look(), self._ask, self._answer)

    def _look(self) -> Iterator[None]:
        """Read what is known here, until the reply is too long."""
        for index, key in enumerate(self._keys):
            here = known(self._session, key)
            if here is None:
                self._elsewhere.append(index)
            else:
                self._keep(index, self._piece(here.value))
            if self._failure is not None:
                return
            yield

    def _ask(self) -> None:
        """Ask other replicas for the rest."""
        if not self._elsewhere or self._failure is not None:
            self._reply()
            return
        is_full = partial(self._session.node.is_full, writes=False)
        Spread(self._session, self._elsewhere, self._ask_for, is_full, self._reply, self._answer).go_on()

    def _ask_for(self, index: int, ended: Ended) -> None:
        session = self._session
        session.node.read(self._keys[index], session.consistency, partial(self._heard, index, ended), session.caller)

    def _heard(self, index: int, ended: Ended, outcome: ReadAnswer) -> None:
        if not isinstance(outcome, ReadResult):
            self._failure = unreadable(self._keys[index], outcome)
        elif self._failure is None:
            self._keep(index, self._piece(outcome.value))
        ended()

    def _keep(self, index: int, piece: bytes) -> None:
        self._pieces[index] = piece
        self._bytes += len(piece)
        if self._bytes > MAX_REPLY_BYTES:
            self._failure = resp.error(f"ERR the reply exceeds {MAX_REPLY_BYTES} bytes; ask for fewer keys at a time")
            self._pieces = []

    def _reply(self) -> None:
        self._answer(self._failure if self._failure is not None else self._whole(self._pieces))


def mget(session: RespSession, arguments: Arguments) -> None:
    keys = [checked_key(key) for key in arguments[1:]]
    Pieces(session, keys, lambda value: resp.maybe_bulk(value, session.protocol), resp.array).read()


def exists(session: RespSession, arguments: Arguments) -> None:
    """A key named twice counts twice, as in Redis."""
    keys = [checked_key(key) for key in arguments[1:]]
    Pieces(session, keys, presence, lambda pieces: resp.integer(pieces.count(b"+"))).read()


def presence(value: bytes | None) -> bytes:
    return b"" if value is None else b"+"


def length(value: bytes | None) -> bytes:
    return resp.integer(len(value) if value is not None else 0)


def type_name(value: bytes | None) -> bytes:
    return resp.simple("none" if value is None else "string")


def failure(key: bytes, outcome: Outcome) -> bytes:
    """The error for a write that was not done, or may not have been."""
    match outcome:
        case ImmutableKey() if is_owned(outcome.committed):
            return resp.error(
                f"WRONGENGINE nothing was written: {shown(key)} was used in a transaction, and cannot be reserved any "
                "more; SET works"
            )
        case ImmutableKey():
            return resp.error(f"IMMUTABLE {shown(key)} is reserved for ever and cannot be overwritten or deleted")
        case ConsensusFailed():
            return resp.error(f"INDEFINITE no decision about {shown(key)}, outcome unknown: {outcome.reason}")
        case Refused() if outcome.no_session:
            return resp.error(f"NOSESSION nothing was written to {shown(key)}: {outcome.reason}")
        case Refused() if outcome.no_quorum:
            return resp.error(f"UNAVAILABLE nothing was written to {shown(key)}: {outcome.reason}")
        case Refused():
            return resp.error(f"BUSY nothing was written to {shown(key)}: {outcome.reason}")
        case NotAnInteger():
            return resp.error(f"ERR {outcome.reason}")
        case Committed() | ExpectedValueDoesNotMatch() | VersionMismatch() | NothingToDelete() | Unchanged():
            raise AssertionError(outcome)
        case _:
            assert_never(outcome)


def read(name: str, run: Handler, summary: str, *, many: bool = False) -> CommandSpec:
    return on_keys(name, run, -2 if many else 2, summary, Access.READ, many=many)


def write(name: str, run: Handler, arity: int, summary: str, *, many: bool = False) -> CommandSpec:
    return on_keys(name, run, arity, summary, Access.WRITE, many=many)


def on_keys(name: str, run: Handler, arity: int, summary: str, access: Access, *, many: bool) -> CommandSpec:
    last = -1 if many else 1
    return CommandSpec(
        name=name, run=run, arity=arity, first_key=1, last_key=last, summary=summary, group="string", access=access
    )


COMMANDS = (
    read("get", get, "The value of a key, or nil."),
    read("mget", mget, "The values of several keys.", many=True),
    read("exists", exists, "How many of the keys exist.", many=True),
    read("touch", exists, "How many of the keys exist.", many=True),
    read("strlen", read_one(length), "The length of a value; 0 without one."),
    read("type", read_one(type_name), "string, or none."),
)
