"""The open connections of a door: how many, and which of them have had their time."""

import asyncio
from typing import Protocol

from epoxy.transport.http.response_cache import ReadyAnswers

SWEEP_S = 1.0
"""The shortest limit on time is two of these. One timer for all connections: a timer for each request costs as much as
reading it."""


TRIALS = 64
"""Connections beyond the limit that may still prove to be a peer's: four for each of sixteen that come back at once.
With one more the oldest goes, so that nobody who says nothing keeps a peer out."""


class OpenConnection(Protocol):
    def sweep(self, now: float) -> None:
        """Hang up if a limit on time is over."""

    def drain(self) -> None:
        """Begin nothing new, finish what is under way, then close."""

    def abort(self) -> None: ...


class Budget:
    """What the requests of some connections hold together, from their first byte until they are answered."""

    def __init__(self) -> None:
        self.bytes = 0


class Account:
    """One connection's part in a budget."""

    __slots__ = ("_budget", "bytes")

    def __init__(self, budget: Budget) -> None:
        self.bytes = 0
        self._budget = budget

    def add(self, size: int) -> None:
        self.bytes += size
        self._budget.bytes += size

    def move(self, budget: Budget) -> None:
        """Count with others from now on, with everything it holds."""
        self._budget.bytes -= self.bytes
        budget.bytes += self.bytes
        self._budget = budget

    def exceeds(self, limit: int) -> bool:
        """Whether all who share the budget hold too much."""
        return self._budget.bytes > limit


class Connections:
    """Shared by the connections of a door. `now` is the loop's time, rounded up to the next sweep: it costs nothing to
    read, and nobody is hung up on early. Peers, and what they hold, are counted apart from strangers, so that no crowd
    of those can keep the peers out: one beyond the limit is on trial, and stays if it proves to be a peer. `ready` has
    whole answers, by the address in a GET.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.now = 0.0
        self.strangers = Budget()
        self.peers = Budget()
        self.draining = False
        self.ready = ReadyAnswers()
        self._open: set[OpenConnection] = set()
        self._vouched: set[OpenConnection] = set()
        self._trials: dict[OpenConnection, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._empty: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: OpenConnection) -> bool:
        """False: one too many, on trial. It is swept like the others until it has gone."""
        self._open.add(connection)
        if self._timer is None:
            self._tick()
        if connection in self._vouched or len(self._open) - len(self._vouched) <= self.limit:
            return True
        self._trials[connection] = None
        if len(self._trials) > TRIALS:
            oldest = next(iter(self._trials))
            del self._trials[oldest]
            oldest.abort()
        return False

    def vouch(self, connection: OpenConnection) -> None:
        """It is a peer's."""
        self._vouched.add(connection)
        self._trials.pop(connection, None)

    def forget(self, connection: OpenConnection) -> None:
        self._open.discard(connection)
        self._vouched.discard(connection)
        self._trials.pop(connection, None)
        if self._open:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._empty is not None and not self._empty.done():
            self._empty.set_result(None)

    def sweep(self, now: float) -> None:
        self.now = now + SWEEP_S
        for connection in tuple(self._open):
            connection.sweep(now)

    def last_call(self) -> None:
        """Every answer from here on is the last of its connection, and nobody new is admitted."""
        self.draining = True

    async def drain(self, grace_s: float) -> None:
        """Wait until everything under way is answered, at most `grace_s`, then hang up on the rest."""
        self.last_call()
        for connection in tuple(self._open):
            connection.drain()
        if self._open:
            self._empty = asyncio.get_running_loop().create_future()
            await asyncio.wait((self._empty,), timeout=grace_s)
        for connection in tuple(self._open):
            connection.abort()

    def _tick(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(SWEEP_S, self._tick)
        self.sweep(loop.time())
