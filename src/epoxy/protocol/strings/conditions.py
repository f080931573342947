"""The conditions and options of SET, GETEX and DELEX."""

from collections.abc import Iterator

from msgspec import Struct

from epoxy.model.strings import Command
from epoxy.protocol.strings.expiry import EXPIRY_OPTIONS, ExpiryTime, positive_time
from epoxy.protocol.strings.faults import SYNTAX_ERROR, CommandFault

COMPARING = (b"IFEQ", b"IFNE")
"""Conditions that are followed by a value."""

CONDITIONS = (b"NX", b"XX", *COMPARING)


class ValueCondition(Struct, frozen=True):
    """NX, XX, IFEQ or IFNE. An absent key equals no value, so IFNE holds for it."""

    kind: bytes
    operand: bytes = b""

    def holds(self, value: bytes | None) -> bool:
        match self.kind:
            case b"NX":
                return value is None
            case b"XX":
                return value is not None
            case b"IFEQ":
                return value == self.operand
            case _:
                return value != self.operand


class ValueOptions(Struct, kw_only=True):
    """What the options of SET or GETEX ask for; each command has its part of them."""

    condition: ValueCondition | None = None
    time: ExpiryTime | None = None
    keep_expiry: bool = False
    persist: bool = False
    returning: bool = False

    def applies(self, value: bytes | None) -> bool:
        return self.condition is None or self.condition.holds(value)


SET_OPTIONS = frozenset({*CONDITIONS, b"GET", b"KEEPTTL", *EXPIRY_OPTIONS})
GETEX_OPTIONS = frozenset({b"PERSIST", *EXPIRY_OPTIONS})


def value_options(name: str, words: Command, allowed: frozenset[bytes]) -> ValueOptions:
    """In any order. One condition and one word about the expiry. The same word again replaces the first, unless it
    compares, and times are looked at when all words make sense, as in Redis."""
    options = ValueOptions()
    about_expiry: dict[bytes, bytes] = {}
    rest = iter(words)
    for word in rest:
        option = word.upper()
        if option not in allowed:
            raise CommandFault(SYNTAX_ERROR)
        operand = operand_of(rest) if option in COMPARING or option in EXPIRY_OPTIONS else b""
        if option == b"GET":
            options.returning = True
        elif option in CONDITIONS:
            set_condition(options, ValueCondition(option, operand))
        else:
            about_expiry[option] = operand
    set_expiry(name, options, about_expiry)
    return options


def operand_of(rest: Iterator[bytes]) -> bytes:
    operand = next(rest, None)
    if operand is None:
        raise CommandFault(SYNTAX_ERROR)
    return operand


def set_condition(options: ValueOptions, condition: ValueCondition) -> None:
    before = options.condition
    if before is not None and (before.kind != condition.kind or condition.kind in COMPARING):
        raise CommandFault(SYNTAX_ERROR)
    options.condition = condition


def set_expiry(name: str, options: ValueOptions, words: dict[bytes, bytes]) -> None:
    if len(words) > 1:
        raise CommandFault(SYNTAX_ERROR)
    for option, operand in words.items():
        if option in EXPIRY_OPTIONS:
            options.time = positive_time(name, operand, *EXPIRY_OPTIONS[option])
        options.keep_expiry, options.persist = option == b"KEEPTTL", option == b"PERSIST"
