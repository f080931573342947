"""What a command is, and the parts of its arguments that many commands share."""

from collections.abc import Callable

from msgspec import Struct

from epoxy.model.integers import integer_of
from epoxy.model.records import MAX_VALUE_BYTES
from epoxy.model.strings import Command, Reply, SimpleString
from epoxy.protocol.strings.faults import NOT_AN_INTEGER, TOO_LONG, CommandFault
from epoxy.protocol.strings.registers import Registers

OK = SimpleString("OK")

Run = Callable[[Registers], Reply]
"""Runs a command whose arguments are sound. Raises CommandFault if the register does not allow it."""

Build = Callable[[Command], Run]
"""Reads the arguments of a command, name included. Raises CommandFault with what is wrong in them."""


class StringCommand(Struct, frozen=True, kw_only=True):
    """`arity` counts the name; negative: at least so many. Every `key_step`-th argument from `first_key` to `last_key`
    is a key, 0: it has none; `last_key` counts from the end if negative. `writes`: it may change what it names."""

    name: str
    build: Build
    arity: int
    writes: bool = False
    first_key: int = 1
    last_key: int = 1
    key_step: int = 1

    def accepts(self, count: int) -> bool:
        return count == self.arity or count >= -self.arity > 0

    def keys(self, command: Command) -> tuple[bytes, ...]:
        if self.first_key == 0:
            return ()
        last = self.last_key if self.last_key > 0 else len(command) + self.last_key
        return command[self.first_key : last + 1 : self.key_step]


def integer(text: bytes, fault: str = NOT_AN_INTEGER) -> int:
    """Signed, of 64 bits, with one spelling."""
    number = integer_of(text)
    if number is None:
        raise CommandFault(fault)
    return number


def bounded(length: int) -> int:
    """The length of a value that is to be stored."""
    if length > MAX_VALUE_BYTES:
        raise CommandFault(TOO_LONG)
    return length


def sound_value(value: bytes) -> bytes:
    bounded(len(value))
    return value


def name_of(command: Command) -> str:
    return command[0].decode("ascii", "replace").lower()
