"""Commands as operations of a transaction over several keys. What is not here has none, and runs on one key only."""

from collections.abc import Callable, Sequence

from epoxy.api.resp import keys as resp_keys
from epoxy.api.resp.command import RespSession
from epoxy.api.resp.strings import encoded
from epoxy.codec import resp
from epoxy.model.records import MAX_TTL_MS
from epoxy.model.strings import Command, Fault
from epoxy.model.transactions import Add, Delete, Done, Get, Operation, Put, is_addable
from epoxy.protocol.strings.conditions import SET_OPTIONS, value_options
from epoxy.protocol.strings.evaluation import Parsed

Shape = Callable[[RespSession, Sequence[Done]], bytes]


class QueuedOperations:
    """Of one command, and how its reply is made of their results."""

    __slots__ = ("operations", "shape")

    def __init__(self, operations: Sequence[Operation], shape: Shape) -> None:
        self.operations = operations
        self.shape = shape


Make = Callable[[Command], QueuedOperations | None]


def operations_of(parsed: Parsed) -> QueuedOperations | None:
    make = MAKERS.get(parsed.name)
    return make(parsed.command) if make is not None else None


def faulty(fault: Fault) -> QueuedOperations:
    return QueuedOperations((), lambda session, _: encoded(fault, session.protocol))


def get(arguments: Command) -> QueuedOperations:
    return QueuedOperations([Get(key=arguments[1])], bulk_of)


def mget(arguments: Command) -> QueuedOperations:
    gets = [Get(key=key) for key in arguments[1:]]
    return QueuedOperations(gets, lambda session, done: resp.array([bulk_of(session, [each]) for each in done]))


def exists(arguments: Command) -> QueuedOperations:
    return QueuedOperations([Get(key=key) for key in arguments[1:]], count_of)


def about_one(piece: Callable[[bytes | None], bytes]) -> Make:
    def make(arguments: Command) -> QueuedOperations:
        return QueuedOperations([Get(key=arguments[1])], lambda _, done: piece(done[0].value))

    return make


def set_(arguments: Command) -> QueuedOperations | None:
    """Without a condition, and with a time that counts from now."""
    options = value_options("set", arguments[3:], SET_OPTIONS)
    if options.condition is not None or (options.time is not None and options.time.absolute):
        return None
    ttl_ms = min(options.time.ms, MAX_TTL_MS) if options.time is not None else 0
    put = Put(key=arguments[1], value=arguments[2], ttl_ms=ttl_ms, keep_expiry=options.keep_expiry)
    return QueuedOperations([put], bulk_of if options.returning else ok_of)


def getset(arguments: Command) -> QueuedOperations:
    return QueuedOperations([Put(key=arguments[1], value=arguments[2])], bulk_of)


def getdel(arguments: Command) -> QueuedOperations:
    return QueuedOperations([Delete(key=arguments[1])], bulk_of)


def delete(arguments: Command) -> QueuedOperations:
    return QueuedOperations([Delete(key=key) for key in arguments[1:]], count_of)


def increment(arguments: Command) -> QueuedOperations | None:
    delta = int(arguments[2]) if len(arguments) > 2 else 1
    delta = -delta if arguments[0].upper().startswith(b"DECR") else delta
    if not is_addable(delta):
        return None
    return QueuedOperations([Add(key=arguments[1], amount=abs(delta), negative=delta < 0)], sum_of)


def constant(reply: Callable[[Command], bytes]) -> Make:
    def make(arguments: Command) -> QueuedOperations:
        told = reply(arguments)
        return QueuedOperations([], lambda _, __: told)

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


MAKERS: dict[str, Make] = {
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
    "unwatch": constant(lambda _: resp.OK),
}
