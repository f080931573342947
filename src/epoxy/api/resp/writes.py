"""Commands that write one key as a whole: SET and its kin, DEL, and RESERVE.

They become operations of the engine, without a read before. A write reserves its place in the queue of replies."""

from collections.abc import Callable, Sequence
from functools import partial
from time import time

from epoxy.api.resp.command import Arguments, RespSession, checked_key, checked_value, shown
from epoxy.api.resp.keys import failure, write
from epoxy.api.resp.leases import session_id
from epoxy.api.resp.session_access import charged, check_quota, writer_of
from epoxy.api.resp.strings import run_string
from epoxy.api.resp.turns import Ended, Spread
from epoxy.codec import resp
from epoxy.model.errors import InvalidRequest
from epoxy.model.records import MAX_TTL_MS
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    ExpectedValueDoesNotMatch,
    NothingToDelete,
    Outcome,
    Write,
)
from epoxy.protocol.strings.conditions import SET_OPTIONS, ValueOptions, value_options
from epoxy.protocol.strings.expiry import SECOND, ExpiryTime, positive_time
from epoxy.protocol.strings.faults import SYNTAX_ERROR, CommandFault, invalid_expiry

Decided = Committed | ExpectedValueDoesNotMatch
"""Outcomes of a write that creates: it has, or another write had before. A plain one only has the first."""


def put(session: RespSession, write: Write, shape: Callable[[Decided], bytes]) -> None:
    check_quota(session, len(write.key) + len(write.value or b""))
    answer = session.promise()

    def done(outcome: Outcome) -> None:
        if isinstance(outcome, Committed | ExpectedValueDoesNotMatch):
            answer(shape(outcome))
        else:
            answer(failure(write.key, outcome))

    session.node.write(write, charged(session, writer_of(session), write.key, done), session.caller)


# SET


def set_(session: RespSession, arguments: Arguments) -> bytes | None:
    key, value = checked_key(arguments[1]), checked_value(arguments[2])
    if len(arguments) == 3:
        put(session, Write(key=key, value=value, mutable=True), written)
        return None
    words, lease = without_session(arguments[3:])
    options = value_options("set", tuple(words), SET_OPTIONS)
    if lease and (options.time is not None or options.keep_expiry):
        raise CommandFault(SYNTAX_ERROR)
    creates = options.condition is not None and options.condition.kind == b"NX"
    if options.condition is not None and not creates:
        if lease:
            raise InvalidRequest("SET with a session takes no condition but NX")
        return run_string(session, arguments)
    if creates and is_reserving(session, key):
        reserve_by_nx(session, key, value, options, lease)
        return None
    if options.time is not None and is_over(options.time):
        return run_string(session, arguments)
    returning = options.returning and not creates
    ttl_ms = ttl_of("set", options.time) if options.time is not None else 0
    write = Write(
        key=key,
        value=value,
        mutable=True,
        if_absent=creates,
        returning=returning,
        ttl_ms=ttl_ms,
        keep_expiry=options.keep_expiry,
        session=lease,
    )
    put(session, write, answer_to_nx(session, options) if creates else answer_to_set(session, options))
    return None


def without_session(words: Arguments) -> tuple[Arguments, bytes]:
    """The other options, and the id of the session that is named, if any: SET k v SESSION id."""
    for place, word in enumerate(words):
        if word.upper() == b"SESSION" and place + 1 < len(words):
            return words[:place] + words[place + 2 :], session_id(words[place + 1])
    return words, b""


def is_over(until: ExpiryTime) -> bool:
    """SET with such a time deletes what was there, as in Redis: that takes the evaluation of a step."""
    return until.absolute and until.ttl_ms(int(time() * 1000)) <= 0


def ttl_of(name: str, until: ExpiryTime) -> int:
    """At most the longest, as in `Registers.expire`: what is sent for "never" may be longer."""
    ttl_ms = until.ttl_ms(int(time() * 1000))
    if ttl_ms <= 0:
        raise CommandFault(invalid_expiry(name))
    return min(ttl_ms, MAX_TTL_MS)


def setex(unit: int) -> Callable[[RespSession, Arguments], None]:
    def run(session: RespSession, arguments: Arguments) -> None:
        key, value = checked_key(arguments[1]), checked_value(arguments[3])
        name = arguments[0].decode().lower()
        ttl_ms = ttl_of(name, positive_time(name, arguments[2], unit, False))
        put(session, Write(key=key, value=value, mutable=True, ttl_ms=ttl_ms), written)

    return run


def setnx(session: RespSession, arguments: Arguments) -> None:
    key, value = checked_key(arguments[1]), checked_value(arguments[2])
    reserves = is_reserving(session, key)
    create = Write(key=key, value=value, mutable=not reserves, if_absent=not reserves)
    put(session, create, lambda outcome: resp.integer(int(is_mine(outcome))))


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

    take = Write(key=key, value=None, mutable=True, returning=True)
    session.node.write(take, charged(session, writer_of(session), key, done), session.caller)


def answer_to_set(session: RespSession, options: ValueOptions) -> Callable[[Decided], bytes]:
    return partial(replaced, session) if options.returning else written


def written(_outcome: Decided) -> bytes:
    return resp.OK


def replaced(session: RespSession, outcome: Decided) -> bytes:
    previous = outcome.previous if isinstance(outcome, Committed) else None
    return resp.maybe_bulk(previous.value if previous is not None else None, session.protocol)


def is_mine(outcome: Decided) -> bool:
    """Whether this very write created the value, as in Redis, and not another one of an equal value."""
    return isinstance(outcome, Committed) and outcome.mine


def answer_to_nx(session: RespSession, options: ValueOptions) -> Callable[[Decided], bytes]:
    """With GET: what was there before, so nil if this write created the value."""

    def shape(outcome: Decided) -> bytes:
        if is_mine(outcome):
            return resp.null(session.protocol) if options.returning else resp.OK
        return resp.bulk(holder(outcome)) if options.returning else resp.null(session.protocol)

    return shape


def holder(outcome: Decided) -> bytes:
    """The value that holds the name."""
    found = outcome.proposal if isinstance(outcome, Committed) else outcome.committed
    assert found.value is not None, "a name that was deleted is free"
    return found.value


# Names that are taken for ever


def reserve(session: RespSession, arguments: Arguments) -> None:
    """OK if the name has this value for ever, by this command or an earlier one: so a client that lost its connection
    may ask again. Else the value that holds the name, perhaps only for now, if it was not reserved."""
    key, value = checked_key(arguments[1]), checked_value(arguments[2])

    def shape(outcome: Decided) -> bytes:
        if isinstance(outcome, Committed) and not outcome.proposal.mutable:
            return resp.OK
        return resp.bulk(holder(outcome))

    put(session, Write(key=key, value=value), shape)


def is_reserving(session: RespSession, key: bytes) -> bool:
    """Whether NX reserves this name: `resp.reserve_prefixes`, for clients that cannot send RESERVE."""
    return key.startswith(session.reserve_prefixes)


def reserve_by_nx(session: RespSession, key: bytes, value: bytes, options: ValueOptions, lease: bytes) -> None:
    if options.time is not None or lease:
        raise InvalidRequest(f"SET NX reserves {shown(key)} for ever (resp.reserve_prefixes), so it cannot expire")
    put(session, Write(key=key, value=value), answer_to_nx(session, options))


# DEL


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
        self._session.node.write(Write(key=key, value=None, mutable=True), deleted, self._session.caller)

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


COMMANDS = (
    write("set", set_, -3, "Write a key. EX, PX, EXAT, PXAT: for so long. NX: only if it has no value."),
    write("setex", setex(SECOND), 4, "Write a key for some seconds."),
    write("psetex", setex(1), 4, "Write a key for some milliseconds."),
    write("setnx", setnx, 3, "Write a key that has no value: 1 if this call did."),
    write("getset", getset, 3, "Write a key and return what it replaced."),
    write("getdel", getdel, 2, "Delete a key and return what it held."),
    write("del", delete, -2, "Delete keys.", many=True),
    write("unlink", delete, -2, "Delete keys.", many=True),
    write("reserve", reserve, 3, "Take a name for ever: OK if its value is this one, else the value that holds it."),
)
