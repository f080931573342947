"""Pieces of one stream on their way in and out of an actor, with windows (`model.exchanges`). Without IO."""

from collections import deque
from collections.abc import Callable

from epoxy.model.exchanges import WINDOW_BYTES, Piece, cost

Changed = Callable[[], None]


class SendWindow:
    """What the other end has given no credit for yet waits here."""

    def __init__(self, send: Callable[[Piece], None], changed: Changed) -> None:
        self.unsent_bytes = 0
        self._send = send
        self._changed = changed
        self._credit = WINDOW_BYTES
        self._waiting: deque[Piece] = deque()
        self._last: Changed | None = None

    def push(self, piece: Piece) -> None:
        self._waiting.append(piece)
        self.unsent_bytes += len(piece.body)
        self._go_on()

    def grant(self, amount: int) -> None:
        self._credit += amount
        self._go_on()

    def finish(self, then: Changed) -> None:
        """Calls `then` behind the last piece. After `drop`: never."""
        self._last = then
        self._go_on()

    def drop(self) -> None:
        self._waiting.clear()
        self.unsent_bytes = 0
        self._last = None

    def _go_on(self) -> None:
        while self._waiting and self._credit > 0:
            piece = self._waiting.popleft()
            self._credit -= cost(piece.body)
            self.unsent_bytes -= len(piece.body)
            self._send(piece)
        if self._last is not None and not self._waiting:
            last, self._last = self._last, None
            last()
        self._changed()


class BodyBuffer:
    """The body of a request, as it comes. Credit goes back with what is taken. `gather`: it is wanted whole before any
    of it is taken, so credit for more than half a window goes back at once. Not sooner: a request that was given no
    credit can still be refused, and its node gives it again."""

    def __init__(self, credit: Callable[[int], None], changed: Changed, *, gather: bool) -> None:
        self.has_ended = False
        self.failure = ""
        self.unread_bytes = 0
        self._credit = credit
        self._changed = changed
        self._gather = gather
        self._owed = 0
        self._pieces: deque[tuple[bytes, int]] = deque()

    def begin(self, body: bytes, *, fin: bool) -> None:
        """What came with the head takes nothing from the window."""
        self._add(body, 0, fin=fin)

    def push(self, body: bytes, *, fin: bool) -> None:
        self._add(body, cost(body), fin=fin)

    def fail(self, reason: str) -> None:
        self.failure = reason
        self._changed()

    def take(self) -> bytes | None:
        if not self._pieces:
            return None
        body, taken = self._pieces.popleft()
        self.unread_bytes -= len(body)
        if taken and not self._gather and not self.has_ended:
            self._credit(taken)
        return body

    def _add(self, body: bytes, taken: int, *, fin: bool) -> None:
        self._pieces.append((body, taken))
        self.unread_bytes += len(body)
        self.has_ended = self.has_ended or fin
        self._owed += taken
        if self._gather and self._owed > WINDOW_BYTES // 2 and not self.has_ended:
            self._credit(self._owed)
            self._owed = 0
        self._changed()
