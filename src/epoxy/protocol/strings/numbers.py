"""Numbers: INCR and its kin on integers of 64 bits, INCRBYFLOAT on long doubles."""

from epoxy.model.integers import LEAST_INTEGER, MOST_INTEGER, integer_of
from epoxy.model.strings import Command, Reply
from epoxy.protocol.strings import long_double
from epoxy.protocol.strings.faults import NOT_AN_INTEGER, CommandFault
from epoxy.protocol.strings.parsing import Run, StringCommand, integer, sound_value
from epoxy.protocol.strings.registers import Registers

NOT_A_FLOAT = "ERR value is not a valid float"


def increment(command: Command) -> Run:
    amount = amount_of(command)
    return lambda registers: add(registers, command[1], amount)


def decrement(command: Command) -> Run:
    """The least number has no positive counterpart of 64 bits."""
    amount = amount_of(command)
    if amount == LEAST_INTEGER:
        raise CommandFault("ERR decrement would overflow")
    return lambda registers: add(registers, command[1], -amount)


def amount_of(command: Command) -> int:
    return integer(command[2]) if len(command) > 2 else 1


def add(registers: Registers, key: bytes, amount: int) -> Reply:
    before = integer_of(registers.value(key))
    if before is None:
        raise CommandFault(NOT_AN_INTEGER)
    total = before + amount
    if not LEAST_INTEGER <= total <= MOST_INTEGER:
        raise CommandFault("ERR increment or decrement would overflow")
    registers.put(key, b"%d" % total, keep_expiry=True)
    return total


def increment_float(command: Command) -> Run:
    amount = float_of(command[2])

    def run(registers: Registers) -> Reply:
        before = registers.value(command[1])
        total = long_double.add(float_of(b"0" if before is None else before), amount)
        if total is None:
            raise CommandFault("ERR increment would produce NaN or Infinity")
        text = sound_value(long_double.text_of(total))
        registers.put(command[1], text, keep_expiry=True)
        return text

    return run


def float_of(text: bytes) -> long_double.LongDouble:
    number = long_double.parse(text)
    if number is None:
        raise CommandFault(NOT_A_FLOAT)
    return number


COMMANDS = (
    StringCommand(name="incr", build=increment, arity=2, writes=True),
    StringCommand(name="incrby", build=increment, arity=3, writes=True),
    StringCommand(name="decr", build=decrement, arity=2, writes=True),
    StringCommand(name="decrby", build=decrement, arity=3, writes=True),
    StringCommand(name="incrbyfloat", build=increment_float, arity=3, writes=True),
)
