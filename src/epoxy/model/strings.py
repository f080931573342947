"""Redis commands on the value of one key, as data: what a fold evaluates where a single operation is not enough."""

from msgspec import Struct

Command = tuple[bytes, ...]
"""Name and arguments as a client sends them, the key among them."""

KEEP, PERSIST = -1, 0
"""What becomes of a key's expiry: it stays, or there is none. Above 0: the new time to live, in milliseconds."""


class SimpleString(Struct, frozen=True):
    """A simple string: +OK."""

    text: str


class Fault(Struct, frozen=True):
    """An error: -ERR ..."""

    text: str


class ScriptEnded(Fault, frozen=True):
    """The error of a script that a limit ended: what it had written is undone."""


Reply = int | bytes | None | SimpleString | Fault | tuple["Reply", ...]


class Register(Struct, frozen=True, kw_only=True):
    """A key as commands see it. `remaining_ms` None: it never expires."""

    value: bytes | None
    remaining_ms: int | None = None
    version: int = 0


class Evaluated(Struct, frozen=True, kw_only=True):
    """The register after the commands, and a reply for each of them. `changed`: something was written, perhaps the same
    value."""

    value: bytes | None
    replies: tuple[Reply, ...]
    expiry: int = KEEP
    changed: bool = False


class Steps(Struct, frozen=True, kw_only=True):
    """Commands on one key, run in order and as one write. A script is one of them. `now_ms`: the wall clock when they
    arrived, by which absolute times are counted; `seed`: of a script's random numbers."""

    commands: tuple[Command, ...]
    now_ms: int = 0
    seed: int = 0

    @property
    def size(self) -> int:
        return sum([len(argument) for command in self.commands for argument in command])
