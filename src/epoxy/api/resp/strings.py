"""String commands beyond SET and GET. What they mean is in `protocol/strings`; here they are given their register.

A command that writes becomes a write with steps: it is evaluated where the writes of its key are folded, on the newest
version. One that reads is evaluated here, on the value and the time left that a read finds.
"""

import random
import time
from collections.abc import Callable

from epoxy.api.resp.command import Arguments, CommandSpec, Handler, RespSession, checked_key
from epoxy.api.resp.keys import failure, known, unreadable
from epoxy.api.resp.session_access import charged, check_quota, writer_of
from epoxy.codec import resp
from epoxy.model.access import Access
from epoxy.model.strings import Command, Fault, Register, Reply, SimpleString, Steps
from epoxy.model.writes import Committed, Outcome, ReadAnswer, ReadResult, Unchanged, Write
from epoxy.protocol.strings import evaluation
from epoxy.protocol.strings.evaluation import MultiSession, Parsed, RegisterSession, parse

Shape = Callable[[tuple[Reply, ...]], bytes]
"""Makes one reply of those of the steps."""


def encoded(reply: Reply, protocol: int) -> bytes:
    match reply:
        case int():
            return resp.integer(reply)
        case bytes():
            return resp.bulk(reply)
        case SimpleString(text):
            return resp.simple(text)
        case Fault(text):
            return resp.error(text)
        case tuple():
            return resp.array([encoded(each, protocol) for each in reply])
        case None:
            return resp.null(protocol)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def run_string(session: RespSession, arguments: Arguments) -> bytes | None:
    """One command on one key."""
    parsed = parse(tuple(arguments))
    return encoded(parsed, session.protocol) if isinstance(parsed, Fault) else run_parsed(session, parsed)


def run_parsed(session: RespSession, parsed: Parsed) -> bytes | None:
    key = checked_key(parsed.keys[0])
    if not parsed.writes:
        return read_string(session, key, parsed.command)
    write_steps(session, key, (parsed.command,), lambda replies: encoded(replies[0], session.protocol))
    return None


# Writing


def write_steps(session: RespSession, key: bytes, commands: tuple[Command, ...], shape: Shape) -> None:
    """`shape` makes the reply, also if the steps wrote nothing."""
    steps = checked_steps(session, key, commands)
    answer = session.promise()

    def done(outcome: Outcome) -> None:
        if isinstance(outcome, Committed | Unchanged):
            answer(shape(outcome.replies))
        else:
            answer(failure(key, outcome))

    begin_steps(session, key, steps, done)


def checked_steps(session: RespSession, key: bytes, commands: tuple[Command, ...]) -> Steps:
    """Raises OverQuota: their client has no room for what they may store."""
    steps = Steps(commands=commands, now_ms=now_ms(), seed=random.getrandbits(32))
    check_quota(session, len(key) + steps.size)
    return steps


def begin_steps(
    session: RespSession, key: bytes, steps: Steps, done: Callable[[Outcome], None], if_version: int | None = None
) -> None:
    write_it = Write(key=key, value=None, mutable=True, steps=steps, if_version=if_version)
    session.node.write(write_it, charged(session, writer_of(session), key, done), session.caller)


# Reading


def read_string(session: RespSession, key: bytes, command: Command) -> bytes | None:
    here = known(session, key)
    if here is not None:
        return on_value(session, key, command, here)
    answer = session.promise()

    def heard(outcome: ReadAnswer) -> None:
        if isinstance(outcome, ReadResult):
            answer(on_value(session, key, command, outcome))
        else:
            answer(unreadable(key, outcome))

    session.node.read(key, session.consistency, heard, session.caller)
    return None


def on_value(session: RespSession, key: bytes, command: Command, found: ReadResult) -> bytes:
    reading = RegisterSession(key, register_of(session, key, found), now_ms(), session.node.scripts.run)
    return encoded(reading.call(command), session.protocol)


def register_of(session: RespSession, key: bytes, found: ReadResult) -> Register:
    committed = found.committed
    if committed is None or committed.value is None:
        return Register(value=None)
    remaining_ms = session.node.leases.remaining_ms(key, committed)
    return Register(value=committed.value, remaining_ms=remaining_ms, version=committed.version)


SUMMARIES = {
    "getrange": "Part of a value, from one place to another.",
    "substr": "The same as GETRANGE.",
    "getbit": "One bit of a value.",
    "bitcount": "How many bits of a value, or of a part of it, are set.",
    "bitpos": "Where the first bit of a kind is.",
    "ttl": "Seconds that a value has left. -1: it never expires. -2: no such key.",
    "pttl": "Milliseconds that a value has left. -1: it never expires. -2: no such key.",
    "expiretime": "When a value ends, in seconds since 1970.",
    "pexpiretime": "When a value ends, in milliseconds since 1970.",
    "getex": "A value; and give it another time to live.",
    "append": "Put bytes behind a value.",
    "setrange": "Overwrite part of a value.",
    "setbit": "Write one bit of a value, and return what it was.",
    "incrbyfloat": "Add to a decimal number with a fraction.",
    "expire": "Let a value end after some seconds.",
    "pexpire": "Let a value end after some milliseconds.",
    "expireat": "Let a value end at a second since 1970.",
    "pexpireat": "Let a value end at a millisecond since 1970.",
    "persist": "Let a value never expire.",
    "delex": "Delete a key if its value is this one, or is not.",
}


def spec(name: str, summary: str, run: Handler = run_string) -> CommandSpec:
    command = evaluation.COMMANDS[name]
    return CommandSpec(
        name=name,
        run=run,
        arity=command.arity,
        summary=summary,
        group="string",
        access=Access.WRITE if command.writes else Access.READ,
        first_key=command.first_key,
        last_key=command.last_key,
    )


def tell_time(session: RespSession, _arguments: Arguments) -> bytes:
    return encoded(MultiSession({}, now_ms()).call((b"TIME",)), session.protocol)


COMMANDS = (
    *[spec(name, summary) for name, summary in SUMMARIES.items()],
    CommandSpec(
        name="time",
        run=tell_time,
        arity=1,
        summary="The clock of this node: seconds since 1970, and microseconds.",
        group="server",
        access=Access.ANY,
    ),
)
