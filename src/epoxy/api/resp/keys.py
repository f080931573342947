"""Commands that read and write keys.

A read of a value that this node holds is answered at once, without a message. Writes, and reads that ask other
replicas, reserve their place in the queue of replies.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import assert_never

from epoxy.api.resp.command import Arguments, CommandSpec, Handler, RespSession, checked_key, checked_value, shown
from epoxy.api.resp.session_access import charged, check_quota, writer_of
from epoxy.api.resp.turns import Ended, Spread, in_turns
from epoxy.codec import resp
from epoxy.model.access import Access
from epoxy.model.errors import InvalidRequest
from epoxy.model.records import LEGACY_PROPOSAL_ID, Proposal
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
    Source,
    VersionMismatch,
    Write,
)
from epoxy.node.txn.transactions import is_owned

MAX_REPLY_BYTES = 16 << 20
"""Sixteen of the longest values: a reply is put together in memory before it is sent."""

EXPIRY = {b"EX", b"PX", b"EXAT", b"PXAT", b"KEEPTTL"}

Piece = Callable[[bytes | None], bytes]

Decided = Committed | ExpectedValueDoesNotMatch
"""Outcomes of a write that reserves a name: it has it, or another write has. A mutable write only has the first."""


def known(session: RespSession, key: bytes) -> ReadResult | None:
    """What this node may answer without a message. A reserved name never changes, so that answers consistent reads
    too."""
    if session.watched and key in session.watched:
        return as_watched(session.watched[key])
    here = session.node.peek(key)
    if here is None or not session.consistent:
        return here
    return here if here.committed is not None and not here.committed.mutable else None


def as_watched(value: bytes | None) -> ReadResult:
    """The value a key had when it was watched. EXEC compares with it, so reads of this client must show the same."""
    committed = Proposal(value=value, version=0, mutable=True, proposal_id=LEGACY_PROPOSAL_ID)
    return ReadResult(committed=committed, source=Source.CACHE)


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

    session.node.read(key, session.consistency, heard)
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
        session.node.read(self._keys[index], session.consistency, partial(self._heard, index, ended))

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


def time_to_live(value: bytes | None) -> bytes:
    """-2: no such key. -1: it never expires; no key does."""
    return resp.integer(-2 if value is None else -1)


def put(session: RespSession, write: Write, shape: Callable[[Decided], bytes]) -> None:
    check_quota(session, len(write.key) + len(write.value or b""))
    answer = session.promise()

    def done(outcome: Outcome) -> None:
        if isinstance(outcome, Committed | ExpectedValueDoesNotMatch):
            assert isinstance(outcome, Committed) or not write.mutable, outcome
            answer(shape(outcome))
        else:
            answer(failure(write.key, outcome))

    session.node.write(write, charged(session, writer_of(session), write.key, done))


def set_(session: RespSession, arguments: Arguments) -> None:
    key, value = checked_key(arguments[1]), checked_value(arguments[2])
    options = [option.upper() for option in arguments[3:]]
    for option in options:
        check_option(option)
    shape: Callable[[Decided], bytes]
    if b"NX" in options:
        shape = winning_value if b"GET" in options else partial(won, session)
    else:
        shape = partial(replaced, session) if b"GET" in options else written
    mutable = b"NX" not in options
    put(session, Write(key=key, value=value, mutable=mutable, returning=mutable and b"GET" in options), shape)


def check_option(option: bytes) -> None:
    if option in EXPIRY:
        raise InvalidRequest(f"SET {option.decode()} is refused: no key expires here")
    if option == b"XX":
        raise InvalidRequest("SET XX is refused: there is no set-if-present here")
    if option not in (b"NX", b"GET"):
        raise InvalidRequest("syntax error")


def setnx(session: RespSession, arguments: Arguments) -> None:
    key, value = checked_key(arguments[1]), checked_value(arguments[2])
    put(session, Write(key=key, value=value), lambda outcome: resp.integer(int(is_mine(outcome))))


def getset(session: RespSession, arguments: Arguments) -> None:
    key, value = checked_key(arguments[1]), checked_value(arguments[2])
    put(session, Write(key=key, value=value, mutable=True, returning=True), partial(replaced, session))


def getdel(session: RespSession, arguments: Arguments) -> None:
    key = checked_key(arguments[1])
    answer = session.promise()

    def done(outcome: Outcome) -> None:
        if isinstance(outcome, NothingToDelete):
            answer(resp.null(session.protocol))
        else:
            answer(replaced(session, outcome) if isinstance(outcome, Committed) else failure(key, outcome))

    write_it = Write(key=key, value=None, mutable=True, returning=True)
    session.node.write(write_it, charged(session, writer_of(session), key, done))


def written(_outcome: Decided) -> bytes:
    return resp.OK


def replaced(session: RespSession, outcome: Decided) -> bytes:
    previous = outcome.previous if isinstance(outcome, Committed) else None
    return resp.maybe_bulk(previous.value if previous is not None else None, session.protocol)


def is_mine(outcome: Decided) -> bool:
    """Whether this very write took the name, as in Redis, and not another one of an equal value."""
    return isinstance(outcome, Committed) and outcome.mine


def won(session: RespSession, outcome: Decided) -> bytes:
    return resp.OK if is_mine(outcome) else resp.null(session.protocol)


def winning_value(outcome: Decided) -> bytes:
    """Every caller gets the same value, the winner included."""
    winner = outcome.proposal if isinstance(outcome, Committed) else outcome.committed
    assert winner.value is not None, "a name that was deleted is free"
    return resp.bulk(winner.value)


def failure(key: bytes, outcome: Outcome) -> bytes:
    """The error for a write that was not done, or may not have been."""
    match outcome:
        case ImmutableKey() if is_owned(outcome.committed):
            return resp.error(
                f"WRONGENGINE nothing was written: {shown(key)} was first written in a transaction, so only "
                "transactions can write it; send this command between MULTI and EXEC"
            )
        case ImmutableKey():
            return resp.error(f"IMMUTABLE {shown(key)} is reserved for ever and cannot be overwritten or deleted")
        case ConsensusFailed():
            return resp.error(f"TRYAGAIN no decision about {shown(key)}, outcome unknown: {outcome.reason}")
        case Refused() if outcome.no_quorum:
            return resp.error(f"UNAVAILABLE nothing was written to {shown(key)}: {outcome.reason}")
        case Refused():
            return resp.error(f"BUSY nothing was written to {shown(key)}: {outcome.reason}")
        case NotAnInteger():
            return resp.error(f"ERR {outcome.reason}")
        case Committed() | ExpectedValueDoesNotMatch() | VersionMismatch() | NothingToDelete():
            raise AssertionError(outcome)
        case _:
            assert_never(outcome)


class DeletionBatch:
    """DEL of several keys, each decided by itself. If some fail, the reply is the error of one of them, preferably one
    whose outcome is unknown, with the number of keys that were deleted."""

    def __init__(self, session: RespSession, keys: Sequence[bytes]) -> None:
        self._session = session
        self._principal = writer_of(session)
        self._keys = keys
        self._deleted = 0
        self._failures: list[tuple[bytes, Outcome]] = []
        self._answer = session.promise()

    def start(self) -> None:
        is_full = partial(self._session.node.is_full, writes=True)
        Spread(self._session, self._keys, self._delete, is_full, self._reply, self._answer).go_on()

    def _delete(self, key: bytes, ended: Ended) -> None:
        deleted = charged(self._session, self._principal, key, partial(self._heard, key, ended))
        self._session.node.write(Write(key=key, value=None, mutable=True), deleted)

    def _heard(self, key: bytes, ended: Ended, outcome: Outcome) -> None:
        if isinstance(outcome, Committed):
            self._deleted += 1
        elif not isinstance(outcome, NothingToDelete):
            self._failures.append((key, outcome))
        ended()

    def _reply(self) -> None:
        if not self._failures:
            self._answer(resp.integer(self._deleted))
            return
        message = failure(*max(self._failures, key=lambda failed: isinstance(failed[1], ConsensusFailed)))
        if len(self._keys) > 1:
            message = resp.error(f"{message[1:-2].decode()}; {self._deleted} of {len(self._keys)} keys were deleted")
        self._answer(message)


def delete(session: RespSession, arguments: Arguments) -> None:
    DeletionBatch(session, [checked_key(key) for key in arguments[1:]]).start()


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
    read("strlen", read_one(length), "The length of a value; 0 without one."),
    read("type", read_one(type_name), "string, or none."),
    read("ttl", read_one(time_to_live), "-1: never expires. -2: no such key."),
    read("pttl", read_one(time_to_live), "-1: never expires. -2: no such key."),
    write("set", set_, -3, "Write a mutable key; with NX reserve an immutable one."),
    write("setnx", setnx, 3, "Reserve an immutable key: 1 if this call took it."),
    write("getset", getset, 3, "Write a mutable key and return what it replaced."),
    write("getdel", getdel, 2, "Delete a mutable key and return what it held."),
    write("del", delete, -2, "Delete mutable keys.", many=True),
    write("unlink", delete, -2, "Delete mutable keys.", many=True),
)
