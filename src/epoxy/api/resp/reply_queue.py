"""The queue of replies to one Redis client: they are sent in the order of the commands."""

from collections.abc import Callable

from epoxy.api.resp.command import Arguments, CommandSpec
from epoxy.api.resp.limits import READ_WEIGHT

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
        self._keys = command.keys(arguments) if command.first_key else []
        self._busy = busy
        self._filled = filled
        for key in self._keys:
            busy[key] = busy.get(key, 0) + 1
        if not command.writes:
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


Filled = Callable[[Promise, bytes], None]
