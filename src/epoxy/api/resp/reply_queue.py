"""The queue of replies to one Redis client: they are sent in the order of the commands."""

from collections.abc import Callable

from epoxy.api.resp.command import Arguments, CommandSpec
from epoxy.api.resp.limits import READ_WEIGHT
from epoxy.api.resp.session_access import WRITE

Busy = dict[bytes, int]
"""How many commands under way name a key."""


class Slot:
    """A place in the queue; `reply` None: not known yet."""

    __slots__ = ("reply",)

    def __init__(self, reply: bytes | None) -> None:
        self.reply = reply


class Promise(Slot):
    """A place whose reply comes later. Until then its keys are busy; `weight` estimates the bytes the command holds."""

    __slots__ = ("_busy", "_filled", "_keys", "command", "weight")

    def __init__(self, command: CommandSpec, arguments: Arguments, busy: Busy, filled: "Filled") -> None:
        super().__init__(None)
        self.command = command
        self.weight = sum(map(len, arguments))
        self._keys = keys_of(command, arguments)
        self._busy = busy
        self._filled = filled
        for key in self._keys:
            busy[key] = busy.get(key, 0) + 1
        if command.access is not WRITE:
            self.weight += len(self._keys) * READ_WEIGHT

    def fill(self, reply: bytes) -> None:
        """Only the first call counts: an operation with a bug may answer and raise as well."""
        if self.reply is not None:
            return
        self.reply = reply
        busy = self._busy
        for key in self._keys:
            if busy[key] == 1:
                del busy[key]
            else:
                busy[key] -= 1
        self._filled(self, reply)


def keys_of(command: CommandSpec, arguments: Arguments) -> Arguments:
    """As `CommandSpec.keys`, which is interpreted: most commands have one key, behind their name."""
    first = command.first_key
    if first == 1 and command.last_key == 1:
        return arguments[1:2]
    return command.keys(arguments) if first else []


Filled = Callable[[Promise, bytes], None]
