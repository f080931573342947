"""Times to live: as options of other commands, and EXPIRE, TTL and their kin."""

from collections.abc import Callable

from msgspec import Struct

from epoxy.model.integers import LEAST_INTEGER, MOST_INTEGER
from epoxy.model.strings import Command, Reply
from epoxy.protocol.strings.faults import CommandFault, invalid_expiry
from epoxy.protocol.strings.parsing import Build, Run, StringCommand, integer, name_of
from epoxy.protocol.strings.registers import Registers

SECOND = 1000

LATEST_NOW_MS = 1 << 42
"""In the year 2109. A time from now is refused where the sum of both could have more than 64 bits."""


class ExpiryTime(Struct, frozen=True):
    """In milliseconds: from now, or of the wall clock."""

    ms: int
    absolute: bool

    def ttl_ms(self, now_ms: int) -> int:
        """0 or less: it is over."""
        return self.ms - now_ms if self.absolute else self.ms


EXPIRY_OPTIONS = {b"EX": (SECOND, False), b"PX": (1, False), b"EXAT": (SECOND, True), b"PXAT": (1, True)}
"""How long its unit is, and whether it counts from 1970."""


def expiry_time(name: str, text: bytes, unit: int, absolute: bool) -> ExpiryTime:
    """Of EXPIRE: one that is over is allowed. What does not fit into 64 bits is not, as in Redis."""
    ms = integer(text) * unit
    if not LEAST_INTEGER <= ms <= MOST_INTEGER - (0 if absolute else LATEST_NOW_MS):
        raise CommandFault(invalid_expiry(name))
    return ExpiryTime(ms, absolute)


def positive_time(name: str, text: bytes, unit: int, absolute: bool) -> ExpiryTime:
    """Of SET and GETEX."""
    time = expiry_time(name, text, unit, absolute)
    if time.ms <= 0:
        raise CommandFault(invalid_expiry(name))
    return time


# EXPIRE, PEXPIRE, EXPIREAT, PEXPIREAT


def expiring(unit: int, absolute: bool) -> Build:
    def build(command: Command) -> Run:
        flags = expire_flags(command[3:])
        time = expiry_time(name_of(command), command[2], unit, absolute)
        return lambda registers: expire(registers, command[1], time, flags)

    return build


def expire_flags(words: Command) -> frozenset[bytes]:
    flags = frozenset([word.upper() for word in words])
    for word, flag in zip(words, map(bytes.upper, words), strict=True):
        if flag not in (b"NX", b"XX", b"GT", b"LT"):
            raise CommandFault(f"ERR Unsupported option {word.decode(errors='replace')}")
    if b"NX" in flags and len(flags) > 1:
        raise CommandFault("ERR NX and XX, GT or LT options at the same time are not compatible")
    if flags >= {b"GT", b"LT"}:
        raise CommandFault("ERR GT and LT options at the same time are not compatible")
    return flags


def expire(registers: Registers, key: bytes, time: ExpiryTime, flags: frozenset[bytes]) -> Reply:
    if registers.value(key) is None:
        return 0
    ttl_ms = time.ttl_ms(registers.now_ms)
    if not all(allows(flag, registers.remaining_ms(key), ttl_ms) for flag in flags):
        return 0
    registers.expire(key, ttl_ms)
    return 1


def allows(flag: bytes, current_ms: int | None, ttl_ms: int) -> bool:
    """None: the key has no expiry, which counts as an infinite one."""
    match flag:
        case b"NX":
            return current_ms is None
        case b"XX":
            return current_ms is not None
        case b"GT":
            return current_ms is not None and ttl_ms > current_ms
        case _:
            return current_ms is None or ttl_ms < current_ms


# TTL, PTTL, EXPIRETIME, PEXPIRETIME, PERSIST


def about_expiry(shape: Callable[[int, int], int]) -> Build:
    """-2: no such key, -1: it has no expiry; otherwise what `shape` makes of the time left and the time now."""

    def build(command: Command) -> Run:
        return lambda registers: time_left(registers, command[1], shape)

    return build


def time_left(registers: Registers, key: bytes, shape: Callable[[int, int], int]) -> int:
    if registers.value(key) is None:
        return -2
    remaining_ms = registers.remaining_ms(key)
    return -1 if remaining_ms is None else shape(remaining_ms, registers.now_ms)


def in_seconds(ms: int) -> int:
    return (ms + SECOND // 2) // SECOND


def persist(command: Command) -> Run:
    return lambda registers: int(registers.persist(command[1]))


COMMANDS = (
    StringCommand(name="expire", build=expiring(SECOND, False), arity=-3, writes=True),
    StringCommand(name="pexpire", build=expiring(1, False), arity=-3, writes=True),
    StringCommand(name="expireat", build=expiring(SECOND, True), arity=-3, writes=True),
    StringCommand(name="pexpireat", build=expiring(1, True), arity=-3, writes=True),
    StringCommand(name="persist", build=persist, arity=2, writes=True),
    StringCommand(name="ttl", build=about_expiry(lambda left, _: in_seconds(left)), arity=2),
    StringCommand(name="pttl", build=about_expiry(lambda left, _: left), arity=2),
    StringCommand(name="expiretime", build=about_expiry(lambda left, now: in_seconds(now + left)), arity=2),
    StringCommand(name="pexpiretime", build=about_expiry(lambda left, now: now + left), arity=2),
)
