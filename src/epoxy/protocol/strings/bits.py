"""Bits of a value, the first of them the highest of its first byte: SETBIT, GETBIT, BITCOUNT, BITPOS, BITOP."""

import operator
from collections.abc import Callable
from functools import reduce

from msgspec import Struct

from epoxy.model.records import MAX_VALUE_BYTES
from epoxy.model.strings import Command, Reply
from epoxy.protocol.strings.faults import SYNTAX_ERROR, CommandFault
from epoxy.protocol.strings.parsing import Run, StringCommand, integer
from epoxy.protocol.strings.ranges import clamped, moved_inside
from epoxy.protocol.strings.registers import Registers

BAD_OFFSET = "ERR bit offset is not an integer or out of range"
BAD_BIT = "ERR bit is not an integer or out of range"


def setbit(command: Command) -> Run:
    key, offset, bit = command[1], offset_of(command[2]), bit_of(command[3])

    def run(registers: Registers) -> Reply:
        value = bytearray((registers.value(key) or b"").ljust(offset // 8 + 1, b"\0"))
        mask = 0x80 >> offset % 8
        before = value[offset // 8] & mask
        value[offset // 8] ^= before ^ (mask if bit else 0)
        registers.put(key, bytes(value), keep_expiry=True)
        return int(before != 0)

    return run


def getbit(command: Command) -> Run:
    offset = offset_of(command[2])

    def run(registers: Registers) -> Reply:
        byte = (registers.value(command[1]) or b"")[offset // 8 : offset // 8 + 1]
        return int(byte != b"" and byte[0] & 0x80 >> offset % 8 != 0)

    return run


def offset_of(text: bytes) -> int:
    offset = integer(text, BAD_OFFSET)
    if not 0 <= offset < 8 * MAX_VALUE_BYTES:
        raise CommandFault(BAD_OFFSET)
    return offset


def bit_of(text: bytes) -> int:
    bit = integer(text, BAD_BIT)
    if bit not in (0, 1):
        raise CommandFault(BAD_BIT)
    return bit


# Ranges of bits


class BitRange(Struct, frozen=True, kw_only=True):
    """Of bytes, or of bits. Its ends may count from the end of the value."""

    start: int = 0
    end: int = -1
    in_bits: bool = False

    def of(self, value: bytes, clamp: Callable[[int, int, int], tuple[int, int]]) -> tuple[int, int]:
        """The first bit, and the last."""
        if self.in_bits:
            return clamp(self.start, self.end, 8 * len(value))
        first, last = clamp(self.start, self.end, len(value))
        return 8 * first, 8 * last + 7


def bit_range(words: Command) -> BitRange:
    """[start [end [BYTE | BIT]]]"""
    if len(words) > 3:
        raise CommandFault(SYNTAX_ERROR)
    ends = [integer(word) for word in words[:2]]
    unit = words[2].upper() if len(words) == 3 else b"BYTE"
    if unit not in (b"BYTE", b"BIT"):
        raise CommandFault(SYNTAX_ERROR)
    return BitRange(start=ends[0] if ends else 0, end=ends[1] if len(ends) > 1 else -1, in_bits=unit == b"BIT")


def bitcount(command: Command) -> Run:
    if len(command) == 3:
        raise CommandFault(SYNTAX_ERROR)
    chosen = bit_range(command[2:])

    def run(registers: Registers) -> Reply:
        value = registers.value(command[1]) or b""
        return cut(value, *chosen.of(value, clamped)).bit_count()

    return run


def cut(value: bytes, first: int, last: int) -> int:
    """These bits as a number."""
    if last < first:
        return 0
    number = int.from_bytes(value[first // 8 : last // 8 + 1])
    return (number >> 7 - last % 8) & (1 << last - first + 1) - 1


def bitpos(command: Command) -> Run:
    """Without an end the value counts as followed by zeros for ever, so a 0 is always found, unless the range is
    empty."""
    bit = integer(command[2])
    if bit not in (0, 1):
        raise CommandFault("ERR The bit argument must be 1 or 0.")
    chosen, has_end = bit_range(command[3:]), len(command) > 4

    def run(registers: Registers) -> Reply:
        value = registers.value(command[1])
        if value is None:
            return -1 if bit else 0
        first, last = chosen.of(value, moved_inside)
        if last < first:
            return -1
        found = find(value, first, last, bit)
        return 8 * len(value) if found < 0 and not bit and not has_end else found

    return run


def find(value: bytes, first: int, last: int, bit: int) -> int:
    number, length = cut(value, first, last), last - first + 1
    if not bit:
        number ^= (1 << length) - 1
    return first + length - number.bit_length() if number else -1


# Between keys

COMBINE: dict[bytes, Callable[[int, int], int]] = {b"AND": operator.and_, b"OR": operator.or_, b"XOR": operator.xor}


def bitop(command: Command) -> Run:
    """The shorter values count as followed by zeros. The result has no expiry; an empty one deletes the target."""
    operation, target, sources = command[1].upper(), command[2], command[3:]
    if operation not in COMBINE and operation != b"NOT":
        raise CommandFault(SYNTAX_ERROR)
    if operation == b"NOT" and len(sources) != 1:
        raise CommandFault("ERR BITOP NOT must be called with a single source key.")

    def run(registers: Registers) -> Reply:
        values = [registers.value(key) or b"" for key in sources]
        result = combined(operation, values)
        if result:
            registers.put(target, result)
        else:
            registers.delete(target)
        return len(result)

    return run


def combined(operation: bytes, values: list[bytes]) -> bytes:
    length = max(map(len, values))
    numbers = [int.from_bytes(value.ljust(length, b"\0")) for value in values]
    if operation == b"NOT":
        return (numbers[0] ^ (1 << 8 * length) - 1).to_bytes(length)
    return reduce(COMBINE[operation], numbers).to_bytes(length)


COMMANDS = (
    StringCommand(name="setbit", build=setbit, arity=4, writes=True),
    StringCommand(name="getbit", build=getbit, arity=3),
    StringCommand(name="bitcount", build=bitcount, arity=-2),
    StringCommand(name="bitpos", build=bitpos, arity=-3),
    StringCommand(name="bitop", build=bitop, arity=-4, writes=True, first_key=2, last_key=-1),
)
