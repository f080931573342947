"""Whole values: GET, SET, DEL and their kin, and those that name several keys at once."""

from collections.abc import Callable

from epoxy.model.strings import Command, Reply, SimpleString
from epoxy.protocol.strings.conditions import (
    COMPARING,
    GETEX_OPTIONS,
    SET_OPTIONS,
    ValueCondition,
    ValueOptions,
    value_options,
)
from epoxy.protocol.strings.expiry import SECOND, positive_time
from epoxy.protocol.strings.faults import SYNTAX_ERROR, CommandFault, wrong_arity
from epoxy.protocol.strings.parsing import OK, Build, Run, StringCommand, name_of, sound_value
from epoxy.protocol.strings.registers import Registers

# Reading


def reading(shape: Callable[[bytes | None], Reply]) -> Build:
    """A reply that follows from the value of one key."""

    def build(command: Command) -> Run:
        return lambda registers: shape(registers.value(command[1]))

    return build


def type_name(value: bytes | None) -> Reply:
    return SimpleString("none" if value is None else "string")


def mget(command: Command) -> Run:
    return lambda registers: tuple([registers.value(key) for key in command[1:]])


def exists(command: Command) -> Run:
    """A key that is named twice counts twice."""
    return lambda registers: sum([registers.value(key) is not None for key in command[1:]])


# Writing


def set_(command: Command) -> Run:
    key, value = command[1], sound_value(command[2])
    options = value_options(name_of(command), command[3:], SET_OPTIONS)
    return lambda registers: put(registers, key, value, options)


def put(registers: Registers, key: bytes, value: bytes, options: ValueOptions) -> Reply:
    """SET with a time that is over stores nothing, and deletes what was there."""
    before = registers.value(key)
    if options.applies(before):
        registers.put(key, value, keep_expiry=options.keep_expiry)
        if options.time is not None:
            registers.expire(key, options.time.ttl_ms(registers.now_ms))
        return before if options.returning else OK
    return before if options.returning else None


def setex(unit: int) -> Build:
    def build(command: Command) -> Run:
        key, value = command[1], sound_value(command[3])
        options = ValueOptions(time=positive_time(name_of(command), command[2], unit, False))
        return lambda registers: put(registers, key, value, options)

    return build


def setnx(command: Command) -> Run:
    return creating(((command[1], sound_value(command[2])),))


def creating(pairs: tuple[tuple[bytes, bytes], ...]) -> Run:
    """All of them, or none if one of the keys has a value."""

    def run(registers: Registers) -> Reply:
        if any(registers.value(key) is not None for key, _ in pairs):
            return 0
        for key, value in pairs:
            registers.put(key, value)
        return 1

    return run


def getset(command: Command) -> Run:
    value = sound_value(command[2])
    return lambda registers: put(registers, command[1], value, ValueOptions(returning=True))


def mset(command: Command) -> Run:
    pairs = pairs_of(command)

    def run(registers: Registers) -> Reply:
        for key, value in pairs:
            registers.put(key, value)
        return OK

    return run


def msetnx(command: Command) -> Run:
    return creating(pairs_of(command))


def pairs_of(command: Command) -> tuple[tuple[bytes, bytes], ...]:
    if len(command) % 2 == 0:
        raise CommandFault(wrong_arity(name_of(command)))
    return tuple(zip(command[1::2], map(sound_value, command[2::2]), strict=True))


def getex(command: Command) -> Run:
    key = command[1]
    options = value_options(name_of(command), command[2:], GETEX_OPTIONS)

    def run(registers: Registers) -> Reply:
        value = registers.value(key)
        if value is not None and options.persist:
            registers.persist(key)
        elif value is not None and options.time is not None:
            registers.expire(key, options.time.ttl_ms(registers.now_ms))
        return value

    return run


# Deleting


def delete(command: Command) -> Run:
    return lambda registers: sum([registers.delete(key) for key in command[1:]])


def getdel(command: Command) -> Run:
    def run(registers: Registers) -> Reply:
        value = registers.value(command[1])
        registers.delete(command[1])
        return value

    return run


def delex(command: Command) -> Run:
    condition = delex_condition(command)

    def run(registers: Registers) -> Reply:
        allowed = condition is None or condition.holds(registers.value(command[1]))
        return int(allowed and registers.delete(command[1]))

    return run


def delex_condition(command: Command) -> ValueCondition | None:
    match command[2:]:
        case ():
            return None
        case (kind, operand) if kind.upper() in COMPARING:
            return ValueCondition(kind.upper(), operand)
        case (_, _):
            raise CommandFault(SYNTAX_ERROR)
        case _:
            raise CommandFault(wrong_arity("delex"))


# Between keys


def rename(command: Command) -> Run:
    def run(registers: Registers) -> Reply:
        move(registers, command[1], command[2], replace=True)
        return OK

    return run


def renamenx(command: Command) -> Run:
    return lambda registers: int(move(registers, command[1], command[2], replace=False))


def move(registers: Registers, source: bytes, target: bytes, *, replace: bool) -> bool:
    if registers.value(source) is None:
        raise CommandFault("ERR no such key")
    if source == target or not copied(registers, source, target, replace=replace):
        return False
    return registers.delete(source)


def copied(registers: Registers, source: bytes, target: bytes, *, replace: bool) -> bool:
    """The value, and the time it has left."""
    value = registers.value(source)
    if value is None or (registers.value(target) is not None and not replace):
        return False
    registers.put(target, value)
    remaining_ms = registers.remaining_ms(source)
    if remaining_ms is not None:
        registers.expire(target, max(1, remaining_ms))
    return True


def copy(command: Command) -> Run:
    replace = copy_replaces(command[3:])
    if command[1] == command[2]:
        raise CommandFault("ERR source and destination objects are the same")
    return lambda registers: int(copied(registers, command[1], command[2], replace=replace))


def copy_replaces(words: Command) -> bool:
    """There is one database, 0."""
    match [word.upper() for word in words]:
        case [] | [b"DB", b"0"]:
            return False
        case [b"REPLACE"] | [b"REPLACE", b"DB", b"0"] | [b"DB", b"0", b"REPLACE"]:
            return True
        case [b"DB", _] | [b"DB", _, b"REPLACE"] | [b"REPLACE", b"DB", _]:
            raise CommandFault("ERR DB index is out of range")
        case _:
            raise CommandFault(SYNTAX_ERROR)


COMMANDS = (
    StringCommand(name="get", build=reading(lambda value: value), arity=2),
    StringCommand(name="strlen", build=reading(lambda value: len(value or b"")), arity=2),
    StringCommand(name="type", build=reading(type_name), arity=2),
    StringCommand(name="mget", build=mget, arity=-2, last_key=-1),
    StringCommand(name="exists", build=exists, arity=-2, last_key=-1),
    StringCommand(name="touch", build=exists, arity=-2, last_key=-1),
    StringCommand(name="set", build=set_, arity=-3, writes=True),
    StringCommand(name="setnx", build=setnx, arity=3, writes=True),
    StringCommand(name="setex", build=setex(SECOND), arity=4, writes=True),
    StringCommand(name="psetex", build=setex(1), arity=4, writes=True),
    StringCommand(name="getset", build=getset, arity=3, writes=True),
    StringCommand(name="mset", build=mset, arity=-3, writes=True, last_key=-1, key_step=2),
    StringCommand(name="msetnx", build=msetnx, arity=-3, writes=True, last_key=-1, key_step=2),
    StringCommand(name="getex", build=getex, arity=-2, writes=True),
    StringCommand(name="getdel", build=getdel, arity=2, writes=True),
    StringCommand(name="del", build=delete, arity=-2, writes=True, last_key=-1),
    StringCommand(name="unlink", build=delete, arity=-2, writes=True, last_key=-1),
    StringCommand(name="delex", build=delex, arity=-2, writes=True),
    StringCommand(name="rename", build=rename, arity=3, writes=True, last_key=2),
    StringCommand(name="renamenx", build=renamenx, arity=3, writes=True, last_key=2),
    StringCommand(name="copy", build=copy, arity=-3, writes=True, last_key=2),
)
