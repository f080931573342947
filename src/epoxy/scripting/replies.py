"""Replies on their way into Lua and out of it. Lua numbers the kinds in api.lua."""

from math import isfinite

from epoxy.model.integers import LEAST_INTEGER, MOST_INTEGER
from epoxy.model.strings import Fault, Reply, SimpleString

NULL, VALUE, STATUS, ERROR, LIST, LIST_END, TABLE, RAISED = range(8)


def reply_of(kind: int, value: bytes | float | None) -> Reply:
    """What a client gets, of anything but a list."""
    if kind == NULL or value is None:
        return None
    if not isinstance(value, bytes):
        return integer_of_number(value)
    if kind == STATUS:
        return SimpleString(line_of(value))
    return Fault(line_of(value)) if kind == ERROR else value


def integer_of_number(number: float) -> int:
    """Cut towards zero. What does not fit into 64 bits is what x86 makes of it, the least of them."""
    if not isfinite(number) or not LEAST_INTEGER <= number <= MOST_INTEGER:
        return LEAST_INTEGER
    return int(number)


def line_of(text: bytes) -> str:
    """Simple strings and errors are lines."""
    return text.decode(errors="replace").replace("\r", " ").replace("\n", " ")


class ReplyBuilder:
    """A list, put together from its parts in order."""

    def __init__(self) -> None:
        self._open: list[list[Reply]] = [[]]

    def add(self, kind: int, value: bytes | float | None = None) -> None:
        if kind == LIST:
            self._open.append([])
        elif kind == LIST_END:
            self._open[-2].append(tuple(self._open.pop()))
        else:
            self._open[-1].append(reply_of(kind, value))

    def taken(self) -> Reply:
        """The whole, after which the next begins. A script that was ended leaves a part behind."""
        whole = self._open[0]
        self._open = [[]]
        return whole[0] if whole else None
