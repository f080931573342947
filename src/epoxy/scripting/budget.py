"""The time that one run of a script may take, and all of them together."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic, thread_time

from epoxy.scripting.limits import KIB, ScriptLimits

OVER = 0
"""Instead of an interval: the script is ended."""


class ScriptBudget:
    """Asked by the hook of the interpreter. `clock` is the processor time of this thread: what others take of the
    machine is not the script's. `passing` is the time in which a node's scripts have their share: a client that sends
    a hundred that loop, in one transaction or on a hundred connections, would else hold up all others for half a
    second."""

    __slots__ = ("_clock", "_end", "_filled_at", "_interval", "_limits", "_passing", "_saved", "_spent", "checks")

    def __init__(
        self,
        limits: ScriptLimits,
        clock: Callable[[], float] = thread_time,
        passing: Callable[[], float] = monotonic,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._passing = passing
        self._saved, self._filled_at = limits.saved_s, passing()
        self._end = 0.0
        self._interval = limits.interval
        self._spent = 0
        self.checks = 0

    def begin(self) -> None:
        limits, now = self._limits, self._passing()
        self._saved = min(limits.saved_s, self._saved + limits.share * (now - self._filled_at))
        self._filled_at = now
        self._end = self._clock() + min(limits.cpu_s, limits.least_s + max(0.0, self._saved))
        self._spent = self._interval = self.checks = 0

    @contextmanager
    def charging(self) -> Iterator[None]:
        """Everything that is done for one run, compiling included. The share is of the time in which no script runs: on
        a busy machine much time passes during a run, too."""
        began = self._clock()
        try:
            yield
        finally:
            self._saved -= max(0.0, self._clock() - began - self._limits.least_s)
            self._filled_at = self._passing()

    def pace(self, held_kib: float) -> int:
        """After how many instructions to ask again. Never raises: an exception would be an object in Lua's hands."""
        self.checks += 1
        self._spent += self._interval
        if self._spent > self._limits.instructions or self._clock() > self._end:
            return OVER
        heavy = held_kib * KIB > self._limits.heavy_bytes
        self._interval = self._limits.heavy_interval if heavy else self._limits.interval
        return self._interval
