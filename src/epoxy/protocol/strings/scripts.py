"""Commands without a register of their own: EVAL and EVALSHA, whose script calls others; PING, ECHO, TIME, UNWATCH."""

from collections.abc import Callable
from functools import partial

from epoxy.model.strings import Command, Reply, SimpleString
from epoxy.protocol.strings.faults import CommandFault, wrong_arity
from epoxy.protocol.strings.parsing import Run, StringCommand, integer, name_of
from epoxy.protocol.strings.registers import Registers

Call = Callable[[Command], Reply]
"""What a script's redis.call does."""

RunScript = Callable[[bytes, tuple[bytes, ...], tuple[bytes, ...], Call, int], Reply]
"""Runs source, keys, arguments, call, seed: the script's reply."""

NOT_IN_SCRIPT = "ERR This Redis command is not allowed from script"
READ_ONLY = "ERR Write commands are not allowed from read-only scripts."
NO_SCRIPT = "NOSCRIPT No matching script. Please use EVAL."


def script_keys(command: Command) -> tuple[bytes, ...]:
    """Of EVAL source numkeys key ... argument ..."""
    count = integer(command[2])
    if count < 0:
        raise CommandFault("ERR Number of keys can't be negative")
    if count > len(command) - 3:
        raise CommandFault("ERR Number of keys can't be greater than number of args")
    return command[3 : 3 + count]


def not_in_script(command: Command) -> Run:
    """A session runs scripts itself; where that is not possible, this is the reply."""
    script_keys(command)
    return partial(refuse, NOT_IN_SCRIPT)


def not_loaded(command: Command) -> Run:
    """A node knows the sources of scripts by their digests, and replaces EVALSHA by EVAL before it comes here."""
    script_keys(command)
    return partial(refuse, NO_SCRIPT)


def refuse(text: str, _registers: Registers) -> Reply:
    raise CommandFault(text)


def ping(command: Command) -> Run:
    if len(command) > 2:
        raise CommandFault(wrong_arity(name_of(command)))
    reply = command[1] if len(command) == 2 else SimpleString("PONG")
    return lambda _: reply


def echo(command: Command) -> Run:
    return lambda _: command[1]


def time(_command: Command) -> Run:
    """Seconds, and microseconds."""
    return lambda registers: (b"%d" % (registers.now_ms // 1000), b"%d" % (registers.now_ms % 1000 * 1000))


def unwatch(_command: Command) -> Run:
    """Queued since MULTI, where it comes after EXEC has compared, so it has no effect."""
    return lambda _: SimpleString("OK")


SCRIPTS = (
    StringCommand(name="eval", build=not_in_script, arity=-3, writes=True, first_key=0),
    StringCommand(name="eval_ro", build=not_in_script, arity=-3, first_key=0),
    StringCommand(name="evalsha", build=not_loaded, arity=-3, writes=True, first_key=0),
    StringCommand(name="evalsha_ro", build=not_loaded, arity=-3, first_key=0),
)
"""Their keys are counted in their arguments: `script_keys`."""

COMMANDS = (
    StringCommand(name="ping", build=ping, arity=-1, first_key=0),
    StringCommand(name="echo", build=echo, arity=2, first_key=0),
    StringCommand(name="time", build=time, arity=1, first_key=0),
    StringCommand(name="unwatch", build=unwatch, arity=1, first_key=0),
)
