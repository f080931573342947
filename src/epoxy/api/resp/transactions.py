"""MULTI, EXEC, DISCARD, WATCH: the commands that a client queues become one transaction, the keys it watches its
compares. If all of them name one key, they become one write of it, with the commands as steps (`single_key.py`). What
has no operation in transactions is evaluated before (`queued_evaluation.py`).

From WATCH to EXEC this connection reads the value that a watched key had at WATCH, and EXEC compares with the same one.
So a client never computes with one value and compares with another.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import assert_never

from epoxy.api.resp import keys as resp_keys
from epoxy.api.resp import single_key
from epoxy.api.resp.command import Arguments, CommandSpec, RespSession, checked_key, shown
from epoxy.api.resp.queued_evaluation import QueuedEvaluation
from epoxy.api.resp.queued_operations import QueuedOperations, faulty, operations_of
from epoxy.api.resp.scripts import with_source
from epoxy.api.resp.session_access import (
    check_quota,
    size_of,
    steps_refusal,
    transaction_refusal,
    writer_of,
)
from epoxy.api.resp.writes import is_reserving
from epoxy.codec import resp
from epoxy.model.access import Access
from epoxy.model.errors import InvalidRequest
from epoxy.model.strings import Command, Fault
from epoxy.model.transactions import (
    MAX_PARTS,
    MAX_TRANSACTION_BYTES,
    Compare,
    Done,
    Executed,
    Txn,
    TxnOutcome,
    TxnRefused,
    TxnUnknown,
    Wrong,
    WrongEngine,
    flaw_of,
)
from epoxy.model.writes import ReadAnswer, ReadResult
from epoxy.protocol.strings import evaluation
from epoxy.protocol.strings.evaluation import parse

QUEUED = resp.simple("QUEUED")

MAX_QUEUED_BYTES = MAX_TRANSACTION_BYTES + 64 * MAX_PARTS
"""The largest transaction, with the names and options of its commands."""


class Queued:
    """A command that waits for EXEC: as it was sent, the keys it names, and its operations in a transaction. None: it
    has none there."""

    __slots__ = ("command", "keys", "native", "spec")

    def __init__(
        self, spec: CommandSpec, command: Command, keys: Sequence[bytes], native: QueuedOperations | None
    ) -> None:
        self.spec = spec
        self.command = command
        self.keys = keys
        self.native = native


def multi(session: RespSession, _arguments: Arguments) -> bytes:
    if session.multi is not None:
        abandon(session)
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
        abandon(session)
        raise InvalidRequest("WATCH inside MULTI is not allowed")
    keys = [key for key in dict.fromkeys(map(checked_key, arguments[1:])) if key not in session.watched]
    if len(session.watched) + len(keys) > MAX_PARTS:
        raise InvalidRequest(f"at most {MAX_PARTS} keys are watched at a time")
    found: dict[bytes, ReadResult] = {}
    unknown: list[bytes] = []
    for key in keys:
        here = resp_keys.known(session, key)
        if here is None:
            unknown.append(key)
        else:
            found[key] = here
            check_watched(session.watched | found)
    if unknown:
        WatchedKeys(session, unknown, found).ask()
        return None
    session.watched |= found
    return resp.OK


class WatchedKeys:
    """Keys that are read from other replicas. Until all values are there no other command of this connection begins."""

    def __init__(self, session: RespSession, keys: list[bytes], found: dict[bytes, ReadResult]) -> None:
        self._session = session
        self._keys = keys
        self._found = found
        self._missing = len(keys)
        self._failure: bytes | None = None
        self._answer = session.promise()

    def ask(self) -> None:
        self._session.executing = True
        for key in self._keys:
            self._session.node.read(key, self._session.consistency, partial(self._heard, key), self._session.caller)

    def _heard(self, key: bytes, outcome: ReadAnswer) -> None:
        self._missing -= 1
        if isinstance(outcome, ReadResult):
            self._found[key] = outcome
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


def check_watched(watched: dict[bytes, ReadResult]) -> None:
    """Refuse at once what EXEC could not compare."""
    size = sum([len(key) + len(found.value or b"") for key, found in watched.items()])
    if size > MAX_TRANSACTION_BYTES:
        limit = f"a transaction compares {MAX_TRANSACTION_BYTES} at most"
        raise InvalidRequest(f"not watched: keys and values would have {size} bytes, and {limit}")


def unwatch(session: RespSession, _arguments: Arguments) -> bytes:
    """Outside of MULTI. Inside it is queued like any command, so EXEC still compares, as in Redis."""
    session.watched = {}
    return resp.OK


def queue(session: RespSession, command: CommandSpec, arguments: Arguments) -> bytes:
    """A command that cannot be queued aborts the whole transaction, as in Redis. From then on nothing is kept."""
    assert session.multi is not None
    try:
        queued = queueable(session, command, arguments)
        session.multi_bytes += sum(map(len, queued.command))
        session.multi_operations += max(1, len(queued.keys))
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


def miscounted(session: RespSession, command: CommandSpec) -> bytes:
    """The error for a wrong number of arguments, which aborts a transaction. EXEC ends its MULTI also then."""
    words = f"wrong number of arguments for '{command.name}' command"
    if session.multi is not None and command.name == "exec":
        session.leave_multi()
        return resp.error(f"EXECABORT Transaction discarded because of: {words}")
    abandon(session)
    return resp.error(f"ERR {words}")


def refused(session: RespSession, command: CommandSpec) -> None:
    """EXEC, refused, ends its MULTI, as in Redis: libraries give the connection to their next caller."""
    if command.name in ("exec", "discard"):
        session.leave_multi()
    elif not command.ends_multi:
        abandon(session)


def queueable(session: RespSession, spec: CommandSpec, arguments: Arguments) -> Queued:
    """As in Redis, what is wrong with the arguments is told by EXEC, in the place of the command."""
    if not spec.accepts(len(arguments)):
        raise InvalidRequest(f"wrong number of arguments for '{spec.name}' command")
    if spec.name not in evaluation.COMMANDS:
        raise InvalidRequest(f"{spec.name.upper()} is not possible inside MULTI")
    if is_reservation(session, arguments):
        raise InvalidRequest(f"{shown(arguments[1])} is reserved by NX here, which is not possible inside MULTI")
    command = with_source(session, tuple(arguments))
    parsed = parse(command)
    if isinstance(parsed, Fault):
        return Queued(spec, command, (), faulty(parsed))
    for key in parsed.keys:
        checked_key(key)
    return Queued(spec, command, parsed.keys, operations_of(parsed))


def is_reservation(session: RespSession, arguments: Arguments) -> bool:
    """SET NX, SETNX and MSETNX of a name that they would take for ever."""
    if not session.reserve_prefixes:
        return False
    match arguments[0].upper():
        case b"MSETNX":
            return any(is_reserving(session, key) for key in arguments[1::2])
        case b"SETNX":
            return is_reserving(session, arguments[1])
        case b"SET":
            return b"NX" in map(bytes.upper, arguments[3:]) and is_reserving(session, arguments[1])
        case _:
            return False


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
    keys = list(dict.fromkeys([*compared, *[key for each in queued for key in each.keys]]))
    if len(keys) > 1 and all(each.native is not None for each in queued):
        return run_transaction(session, queued, compared)
    refused = steps_refusal(writer_of(session), [(each.spec, each.command) for each in queued], compared)
    if refused is not None:
        return refused
    commands = [each.command for each in queued]
    if len(keys) > 1:
        check_quota(session, sum([len(word) for command in commands for word in command]))
        shape = partial(single_key.replies_to, session)
        QueuedEvaluation(session, commands, keys, compared, shape, partial(reply_to, session, queued)).begin()
        return None
    key = keys[0] if keys else None
    return single_key.execute(session, key, commands, compared.get(key) if key is not None else None)


def run_transaction(session: RespSession, queued: list[Queued], compared: dict[bytes, ReadResult]) -> bytes | None:
    then = tuple([operation for each in queued if each.native is not None for operation in each.native.operations])
    compares = tuple([compare_with(key, found.value) for key, found in compared.items()])
    txn = Txn(compares=compares, then=then)
    flaw = flaw_of(txn)
    if flaw is not None:
        return resp.error(f"EXECABORT nothing was done: {flaw}")
    principal = writer_of(session)
    refused = transaction_refusal(principal, txn)
    if refused is not None:
        return refused
    check_quota(session, size_of(txn))
    session.executing = True
    answered = partial(executed, session, queued, session.promise())
    session.node.txn(txn, session.node.quotas.charging(principal, txn, answered), session.caller)
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
            return single_key.nothing_done(session)
        case WrongEngine():
            keys = ", ".join(map(shown, outcome.keys))
            return resp.error(
                f"WRONGENGINE nothing was done: a transaction over several keys has no room for values of more than "
                f"64 KiB that were written outside of one, here {keys}; use them outside of MULTI, or write less"
            )
        case TxnRefused() if outcome.no_quorum:
            return resp.error(f"UNAVAILABLE nothing was done: {outcome.reason}")
        case TxnRefused():
            return resp.error(f"BUSY nothing was done: {outcome.reason}")
        case TxnUnknown():
            return resp.error(f"INDEFINITE no decision about the transaction, outcome unknown: {outcome.reason}")
        case _:
            assert_never(outcome)


def shaped(session: RespSession, queued: list[Queued], done: Sequence[Done]) -> list[bytes]:
    replies: list[bytes] = []
    at = 0
    for each in queued:
        assert each.native is not None, "all have operations"
        operations = each.native.operations
        results = done[at : at + len(operations)]
        names = [op.key for op, one in zip(operations, results, strict=True) if one.wrong is Wrong.IMMUTABLE]
        replies.append(immutable(names[0]) if names else each.native.shape(session, results))
        at += len(operations)
    return replies


def immutable(key: bytes) -> bytes:
    return resp.error(f"IMMUTABLE {shown(key)} is reserved for ever and cannot be overwritten or deleted")


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
    on(name="unwatch", run=unwatch, arity=1, summary="Forget what was watched.", ends_multi=False),
)
