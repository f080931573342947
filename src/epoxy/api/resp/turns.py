"""Commands that take more than one turn of the event loop."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from time import monotonic
from typing import Generic, TypeVar

from epoxy.api.resp.command import Answer, Arguments, RespSession
from epoxy.api.resp.limits import SLICE_BYTES, TURN_S
from epoxy.codec import resp
from epoxy.codec.resp import CommandReader
from epoxy.model.errors import StoreFailed

T = TypeVar("T")
Ended = Callable[[], None]

BROKEN = resp.error("INDEFINITE internal error, outcome unknown")


def read_slices(reader: CommandReader, commands: deque[Arguments], data: bytes) -> bytes:
    """Parse a long chunk for at most one turn, and only until there are commands to begin with: returns the rest. One
    read of a socket may hold thirty thousand arguments."""
    until = monotonic() + TURN_S
    for start in range(0, len(data), SLICE_BYTES):
        if start and (commands or monotonic() > until):
            return data[start:]
        commands.extend(reader.feed(data[start : start + SLICE_BYTES]))
    return b""


def in_turns(session: RespSession, work: Iterator[None], then: Callable[[], None], answer: Answer) -> None:
    """Do one step after the other until the turn is over, and go on in the next: other connections wait for one turn at
    most, however many keys a command names and however long their values are. Until all steps are done no other command
    of this connection begins; if the client disconnects, the remaining steps are not done."""
    until = monotonic() + TURN_S
    try:
        for _ in work:
            if monotonic() > until:
                session.executing = True
                session.soon(partial(in_turns, session, work, then, answer))
                return
        session.executing = False
        then()
    except StoreFailed:
        raise
    except Exception:
        session.executing = False
        answer(BROKEN)
        raise


class Spread(Generic[T]):
    """The operations of one command, begun a turn at a time. While the node admits no more and one of these is under
    way, the rest waits for it: a thousand keys of one command are a queue and no overload. `begin` calls its second
    argument when the operation has ended; `done` is called when all have. Once the last has begun, `executing` is that
    of the next command, and not touched here: operations that end at once leave a turn behind that finds nothing to
    do."""

    def __init__(
        self,
        session: RespSession,
        items: Iterable[T],
        begin: Callable[[T, Ended], None],
        is_full: Callable[[], bool],
        done: Callable[[], None],
        answer: Answer,
    ) -> None:
        self._session = session
        self._items = deque(items)
        self._begin = begin
        self._is_full = is_full
        self._done = done
        self._answer = answer
        self._under_way = 0
        self._scheduled = False

    def go_on(self) -> None:
        self._scheduled = False
        until = monotonic() + TURN_S
        try:
            while self._items and not self._must_wait():
                self._under_way += 1
                item = self._items.popleft()
                self._session.executing = bool(self._items)
                self._begin(item, self._ended)
                if monotonic() > until:
                    break
        except StoreFailed:
            raise
        except Exception:
            self._session.executing = False
            self._answer(BROKEN)
            raise
        if self._items and not self._must_wait():
            self._go_on_soon()

    def _must_wait(self) -> bool:
        return self._under_way > 0 and self._is_full()

    def _ended(self) -> None:
        self._under_way -= 1
        if self._items:
            self._go_on_soon()
        elif not self._under_way:
            self._done()

    def _go_on_soon(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._session.soon(self.go_on)
