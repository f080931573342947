"""The output gate: what an actor answers, sends and asks leaves when the state it rests on is saved. Without IO.

Each change of the state is a *point*. What is released waits for the save that has the last point in it. One save is
under way at a time; all points that were made meanwhile are in the next one.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

from epoxy.model.envoy_messages import Saved, SaveRefused, SaveState

FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 100, 5_000
"""Before a save that was refused (nothing was written) is tried again."""

MAX_HELD_BYTES = 8 << 20
"""Outputs of an actor that wait for a save. With more of them no further turn begins."""

MAX_HELD = 10_000
"""The same, as a number of outputs."""


class GateTimer(Protocol):
    def cancel(self) -> None: ...


Compose = Callable[[int, int], SaveState]
"""Makes the message of a save, of its number and the version that it builds on."""


class OutputGate:
    """`told` is called when a save is refused, the first time; it is tried again. `fenced` is called when a later
    generation has begun: from then on nothing passes."""

    def __init__(
        self,
        version: int,
        compose: Compose,
        send: Callable[[SaveState], None],
        later: Callable[[float, Callable[[], None]], GateTimer],
        told: Callable[[str], None],
        fenced: Callable[[str], None],
    ) -> None:
        self.closed = False
        self.held_bytes = 0
        self.under_way: SaveState | None = None
        self.version = version
        self._compose = compose
        self._send = send
        self._later = later
        self._told = told
        self._fenced = fenced
        self._number = 0
        self._point = self._saved_point = self._under_way_point = 0
        self._held: deque[tuple[int, int, Callable[[], None]]] = deque()
        self._pause_ms = FIRST_PAUSE_MS
        self._timer: GateTimer | None = None

    @property
    def is_settled(self) -> bool:
        """All is saved, and nothing waits."""
        return self._saved_point == self._point and not self._held

    @property
    def is_full(self) -> bool:
        return self.held_bytes > MAX_HELD_BYTES or len(self._held) > MAX_HELD

    def advance(self) -> None:
        """The state has changed: what is released from now on waits for a save with the change in it."""
        self._point += 1
        self._save()

    def release(self, then: Callable[[], None], size: int = 0) -> None:
        """Calls `then` when all changes so far are saved; in the order of the calls. Never, if the actor is fenced."""
        if self.closed:
            return
        if self.is_settled:
            then()
        else:
            self._held.append((self._point, size, then))
            self.held_bytes += size

    def saved(self, message: Saved) -> None:
        if self.under_way is None or message.number != self.under_way.number or self.closed:
            return
        self.version = message.version
        self._saved_point, self.under_way = self._under_way_point, None
        self._pause_ms = FIRST_PAUSE_MS
        self._save()
        while self._held and self._held[0][0] <= self._saved_point and not self.closed:
            _, size, then = self._held.popleft()
            self.held_bytes -= size
            then()

    def refused(self, message: SaveRefused) -> None:
        if self.under_way is None or message.number != self.under_way.number or self.closed:
            return
        if message.fenced:
            self.close()
            self._fenced(message.reason)
        else:
            self.under_way = None
            if self._pause_ms == FIRST_PAUSE_MS:
                self._told(message.reason)
            self._timer = self._later(self._pause_ms, self._try_again)
            self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)

    def send_again(self) -> None:
        """On a new connection: the answer to the save under way may be lost. The node recognises it by its number."""
        if self.under_way is not None and not self.closed:
            self._send(self.under_way)

    def close(self) -> None:
        """Nothing passes any more, and nothing is saved."""
        self.closed = True
        self._held.clear()
        self.held_bytes = 0
        if self._timer is not None:
            self._timer.cancel()

    def _try_again(self) -> None:
        self._timer = None
        self._save()

    def _save(self) -> None:
        if self.under_way is None and self._timer is None and self._saved_point < self._point and not self.closed:
            self._number += 1
            self.under_way, self._under_way_point = self._compose(self._number, self.version), self._point
            self._send(self.under_way)
