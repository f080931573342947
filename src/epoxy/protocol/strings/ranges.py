"""Parts of a value: APPEND, GETRANGE, SETRANGE."""

from epoxy.model.strings import Command, Reply
from epoxy.protocol.strings.faults import CommandFault
from epoxy.protocol.strings.parsing import Run, StringCommand, bounded, integer, sound_value
from epoxy.protocol.strings.registers import Registers


def append(command: Command) -> Run:
    key, more = command[1], sound_value(command[2])

    def run(registers: Registers) -> Reply:
        before = registers.value(key) or b""
        length = bounded(len(before) + len(more))
        registers.put(key, before + more, keep_expiry=True)
        return length

    return run


def getrange(command: Command) -> Run:
    start, end = integer(command[2]), integer(command[3])

    def run(registers: Registers) -> Reply:
        value = registers.value(command[1]) or b""
        first, last = clamped(start, end, len(value))
        return value[first : last + 1]

    return run


def clamped(start: int, end: int, length: int) -> tuple[int, int]:
    """The first and the last of a range whose negative ends count from the end. Empty: the last is before the first."""
    return (0, -1) if end < start < 0 else moved_inside(start, end, length)


def moved_inside(start: int, end: int, length: int) -> tuple[int, int]:
    """The same for BITPOS, which takes two ends before the beginning for the first place, in whatever order."""
    first = max(0, start + length if start < 0 else start)
    last = max(0, end + length if end < 0 else end)
    return first, min(last, length - 1)


def setrange(command: Command) -> Run:
    """Zeros fill the gap behind the value. Nothing is written if there is nothing to write, not even an empty value."""
    key, offset, part = command[1], integer(command[2]), command[3]
    if offset < 0:
        raise CommandFault("ERR offset is out of range")
    if part:
        bounded(offset + len(part))

    def run(registers: Registers) -> Reply:
        before = registers.value(key) or b""
        if not part:
            return len(before)
        after = before[:offset].ljust(offset, b"\0") + part + before[offset + len(part) :]
        registers.put(key, after, keep_expiry=True)
        return len(after)

    return run


COMMANDS = (
    StringCommand(name="append", build=append, arity=3, writes=True),
    StringCommand(name="getrange", build=getrange, arity=4),
    StringCommand(name="substr", build=getrange, arity=4),
    StringCommand(name="setrange", build=setrange, arity=4, writes=True),
)
