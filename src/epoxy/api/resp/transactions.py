"""MULTI, EXEC, DISCARD, WATCH: the commands that a client queues become one transaction, the keys it watches its
compares.

From WATCH to EXEC this connection reads the value that a watched key had at WATCH, and EXEC compares with the same one.
So a client never computes with one value and compares with another.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import assert_never

from epoxy.api.resp import keys as resp_keys
from epoxy.api.resp.command import (
    Arguments,
    CommandSpec,
    RespSession,
    checked_integer,
    checked_key,
    checked_value,
    shown,
)
from epoxy.api.resp.session_access import check_quota, size_of, transaction_refusal
from epoxy.codec import resp
from epoxy.model.access import Access
from epoxy.model.errors import InvalidRequest
from epoxy.model.transactions import (
    MAX_PARTS,
    MAX_TRANSACTION_BYTES,
    Add,
    Compare,
    Delete,
    Done,
    Executed,
    Get,
    Operation,
    Put,
    Txn,
    TxnOutcome,
    TxnRefused,
    TxnUnknown,
    WrongEngine,
    flaw_of,
)
from epoxy.model.writes import ReadAnswer, ReadResult

QUEUED = resp.simple("QUEUED")

MAX_QUEUED_BYTES = MAX_TRANSACTION_BYTES + 64 * MAX_PARTS
"""The largest transaction, with the names and options of its commands."""

Shape = Callable[[RespSession, Sequence[Done]], bytes]


class Queued:
    """A command that waits for EXEC: its operations, and how its reply is made of their results."""

    __slots__ = ("operations", "shape")

    def __init__(self, operations: Sequence[Operation], shape: Shape) -> None:
        self.operations = operations
        self.shape = shape


def multi(session: RespSession, _arguments: Arguments) -> bytes:
    if session.multi is not None:
        raise InvalidRequest("MULTI calls can not be nested")
    session.multi, session.multi_broken = [], False
    session.multi_bytes = session.multi_operations = 0
    return resp.OK


def discard(session: RespSession, _arguments: Arguments) -> bytes:
    if session.multi is None:
        raise InvalidRequest("DISCARD without MULTI")
    session.leave_multi()
    return resp.OK


def watch(session: RespSession, arguments: Arguments) -> bytes | None:
    """Values are read as by a GET of this session: here if that is enough, else from other replicas."""
    if session.multi is not None:
        raise InvalidRequest("WATCH inside MULTI is not allowed")
    keys = [key for key in dict.fromkeys(map(checked_key, arguments[1:])) if key not in session.watched]
    if len(session.watched) + len(keys) > MAX_PARTS:
        raise InvalidRequest(f"at most {MAX_PARTS} keys are watched at a time")
    found: dict[bytes, bytes | None] = {}
    unknown: list[bytes] = []
    for key in keys:
        here = resp_keys.known(session, key)
        if here is None:
            unknown.append(key)
        else:
            found[key] = here.value
            check_watched(session.watched | found)
    if unknown:
        WatchedKeys(session, unknown, found).ask()
        return None
    session.watched |= found
    return resp.OK


class WatchedKeys:
    """Keys that are read from other replicas. Until all values are there no other command of this connection begins."""

    def __init__(self, session: RespSession, keys: list[bytes], found: dict[bytes, bytes | None]) -> None:
        self._session = session
        self._keys = keys
        self._found = found
        self._missing = len(keys)
        self._failure: bytes | None = None
        self._answer = session.promise()

    def ask(self) -> None:
        self._session.executing = True
        for key in self._keys:
            self._session.node.read(key, self._session.consistency, partial(self._heard, key))

    def _heard(self, key: bytes, outcome: ReadAnswer) -> None:
        self._missing -= 1
        if isinstance(outcome, ReadResult):
            self._found[key] = outcome.value
        else:
            self._failure = resp_keys.unreadable(key, outcome)
        if not self._missing:
            self._session.executing = False
            self._answer(self._failure if self._failure is not None else self._watched())

    def _watched(self) -> bytes:
        """Watch all of the keys, or none."""
        try:
            check_watched(self._session.watched | self._found)
        except InvalidRequest as error:
            return resp.error(f"ERR {error}")
        self._session.watched |= self._found
        return resp.OK


def check_watched(watched: dict[bytes, bytes | None]) -> None:
    """Refuse at once what EXEC could not compare."""
    size = sum([len(key) + len(value or b"") for key, value in watched.items()])
    if size > MAX_TRANSACTION_BYTES:
        limit = f"a transaction compares {MAX_TRANSACTION_BYTES} at most"
        raise InvalidRequest(f"not watched: keys and values would have {size} bytes, and {limit}")


def unwatch(session: RespSession, _arguments: Arguments) -> bytes:
    session.watched = {}
    return resp.OK


def queue(session: RespSession, command: CommandSpec, arguments: Arguments) -> bytes:
    """A command that cannot be queued aborts the whole transaction, as in Redis. From then on nothing is kept."""
    assert session.multi is not None
    try:
        queued = queueable(command, arguments)
        session.multi_bytes += sum(map(len, arguments))
        session.multi_operations += max(1, len(queued.operations))
        check_room(session)
    except InvalidRequest:
        abandon(session)
        raise
    if not session.multi_broken:
        session.multi.append(queued)
    return QUEUED


def abandon(session: RespSession) -> None:
    """A command could not be queued: EXEC will do nothing, and what was queued is dropped now."""
    if session.multi is not None:
        session.multi_broken = True
        session.multi.clear()


def refused(session: RespSession, command: CommandSpec) -> None:
    """EXEC, refused, ends its MULTI, as in Redis: libraries give the connection to their next caller."""
    if command.name in ("exec", "discard"):
        session.leave_multi()
    elif not command.ends_multi:
        abandon(session)


def queueable(command: CommandSpec, arguments: Arguments) -> Queued:
    if not command.accepts(len(arguments)):
        raise InvalidRequest(f"wrong number of arguments for '{command.name}' command")
    make = QUEUEABLE.get(command.name)
    if make is None:
        raise InvalidRequest(f"{command.name.upper()} is not possible inside MULTI")
    return make(command.name, arguments)


def check_room(session: RespSession) -> None:
    """Refuse at once what EXEC would refuse."""
    if session.multi_operations > MAX_PARTS:
        raise InvalidRequest(f"a transaction has at most {MAX_PARTS} operations")
    if session.multi_bytes > MAX_QUEUED_BYTES:
        raise InvalidRequest(f"the commands of a transaction have at most {MAX_QUEUED_BYTES} bytes")


def exec_(session: RespSession, _arguments: Arguments) -> bytes | None:
    queued, broken, compared = session.multi, session.multi_broken, session.watched
    if queued is None:
        raise InvalidRequest("EXEC without MULTI")
    session.leave_multi()
    if broken:
        return resp.error("EXECABORT Transaction discarded because of previous errors.")
    then = tuple([operation for each in queued for operation in each.operations])
    if not then and not compared:
        return resp.array([each.shape(session, ()) for each in queued])
    compares = tuple([compare_with(key, value) for key, value in compared.items()])
    txn = Txn(compares=compares, then=then)
    flaw = flaw_of(txn)
    if flaw is not None:
        return resp.error(f"EXECABORT nothing was done: {flaw}")
    principal = session.principal
    assert principal is not None, "only clients that were let in run transactions"
    refused = transaction_refusal(principal, txn)
    if refused is not None:
        return refused
    check_quota(session, size_of(txn))
    session.executing = True
    answered = partial(executed, session, queued, session.promise())
    session.node.txn(txn, session.node.quotas.charging(principal, txn, answered))
    return None


def compare_with(key: bytes, value: bytes | None) -> Compare:
    return Compare(key=key, absent=True) if value is None else Compare(key=key, values=(value,))


def executed(session: RespSession, queued: list[Queued], answer: Callable[[bytes], None], outcome: TxnOutcome) -> None:
    session.executing = False
    answer(reply_to(session, queued, outcome))


def reply_to(session: RespSession, queued: list[Queued], outcome: TxnOutcome) -> bytes:
    match outcome:
        case Executed() if outcome.succeeded:
            return resp.array(shaped(session, queued, outcome.done))
        case Executed():
            return resp.null(3) if session.protocol == 3 else b"*-1\r\n"
        case WrongEngine():
            keys, claimed = (", ".join(map(shown, each)) for each in (outcome.keys, outcome.claimed))
            after = f"; from now on only transactions can write {claimed}" if claimed else ""
            return resp.error(
                f"WRONGENGINE nothing was done: a transaction cannot use keys that were first written outside of one, "
                f"here {keys}; use them outside of MULTI{after}"
            )
        case TxnRefused() if outcome.no_quorum:
            return resp.error(f"UNAVAILABLE nothing was done: {outcome.reason}")
        case TxnRefused():
            return resp.error(f"BUSY nothing was done: {outcome.reason}")
        case TxnUnknown():
            return resp.error(f"TRYAGAIN no decision about the transaction, outcome unknown: {outcome.reason}")
        case _:
            assert_never(outcome)


def shaped(session: RespSession, queued: list[Queued], done: Sequence[Done]) -> list[bytes]:
    replies: list[bytes] = []
    at = 0
    for each in queued:
        replies.append(each.shape(session, done[at : at + len(each.operations)]))
        at += len(each.operations)
    return replies


# Commands that may be queued


def get(_name: str, arguments: Arguments) -> Queued:
    return Queued([Get(key=checked_key(arguments[1]))], bulk_of)


def mget(_name: str, arguments: Arguments) -> Queued:
    gets = [Get(key=checked_key(key)) for key in arguments[1:]]
    return Queued(gets, lambda session, done: resp.array([bulk_of(session, [each]) for each in done]))


def exists(_name: str, arguments: Arguments) -> Queued:
    return Queued([Get(key=checked_key(key)) for key in arguments[1:]], count_of)


def about_one(piece: Callable[[bytes | None], bytes]) -> "Callable[[str, Arguments], Queued]":
    def make(_name: str, arguments: Arguments) -> Queued:
        return Queued([Get(key=checked_key(arguments[1]))], lambda _, done: piece(done[0].value))

    return make


def set_(_name: str, arguments: Arguments) -> Queued:
    options = [option.upper() for option in arguments[3:]]
    if b"NX" in options:
        raise InvalidRequest("SET NX is not possible inside MULTI: reserve the name with a command of its own")
    for option in options:
        resp_keys.check_option(option)
    put = Put(key=checked_key(arguments[1]), value=checked_value(arguments[2]))
    return Queued([put], bulk_of if b"GET" in options else ok_of)


def getset(_name: str, arguments: Arguments) -> Queued:
    return Queued([Put(key=checked_key(arguments[1]), value=checked_value(arguments[2]))], bulk_of)


def getdel(_name: str, arguments: Arguments) -> Queued:
    return Queued([Delete(key=checked_key(arguments[1]))], bulk_of)


def delete(_name: str, arguments: Arguments) -> Queued:
    return Queued([Delete(key=checked_key(key)) for key in arguments[1:]], count_of)


def increment(name: str, arguments: Arguments) -> Queued:
    delta = checked_integer(arguments[2]) if len(arguments) > 2 else 1
    delta = -delta if name.startswith("decr") else delta
    return Queued([Add(key=checked_key(arguments[1]), amount=abs(delta), negative=delta < 0)], sum_of)


def constant(reply: Callable[[Arguments], bytes]) -> "Callable[[str, Arguments], Queued]":
    def make(_name: str, arguments: Arguments) -> Queued:
        told = reply(arguments)
        return Queued([], lambda _, __: told)

    return make


def bulk_of(session: RespSession, done: Sequence[Done]) -> bytes:
    return resp.maybe_bulk(done[0].value, session.protocol)


def ok_of(_session: RespSession, _done: Sequence[Done]) -> bytes:
    return resp.OK


def count_of(_session: RespSession, done: Sequence[Done]) -> bytes:
    return resp.integer(sum(each.value is not None for each in done))


def sum_of(_session: RespSession, done: Sequence[Done]) -> bytes:
    (one,) = done
    if one.wrong is not None:
        return resp.error(f"ERR {one.wrong.value}")
    return resp.integer(int(one.value or b"0"))


QUEUEABLE: dict[str, Callable[[str, Arguments], Queued]] = {
    "get": get,
    "mget": mget,
    "exists": exists,
    "strlen": about_one(resp_keys.length),
    "type": about_one(resp_keys.type_name),
    "set": set_,
    "getset": getset,
    "getdel": getdel,
    "del": delete,
    "unlink": delete,
    **dict.fromkeys(("incr", "incrby", "decr", "decrby"), increment),
    "ping": constant(lambda arguments: resp.bulk(arguments[1]) if len(arguments) > 1 else resp.simple("PONG")),
    "echo": constant(lambda arguments: resp.bulk(arguments[1])),
}

on = partial(CommandSpec, group="transactions", access=Access.ANY, ends_multi=True)
"""Without keys of their own: those of the queued commands are checked."""

COMMANDS = (
    on(name="multi", run=multi, arity=1, summary="Begin a transaction."),
    on(name="exec", run=exec_, arity=1, summary="Do what was queued, at one moment, or nothing.", alone=True),
    on(name="discard", run=discard, arity=1, summary="Forget what was queued."),
    on(
        name="watch",
        run=watch,
        arity=-2,
        summary="EXEC only if these keys have not changed.",
        access=Access.READ,
        first_key=1,
        last_key=-1,
        alone=True,
    ),
    on(name="unwatch", run=unwatch, arity=1, summary="Forget what was watched."),
)
