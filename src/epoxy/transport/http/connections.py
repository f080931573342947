"""The open connections of a server: how many, what they hold, and the timer for their time limits."""

import asyncio
from typing import Protocol

from epoxy.transport.holdings import Holdings
from epoxy.transport.http.eviction import UnprovenSet
from epoxy.transport.http.response_cache import ResponseCache

DRAIN_POLL_S = 0.01
"""How often a stopping node checks whether the last client has gone."""

SWEEP_S = 1.0
"""The shortest time limit is two of these. One timer for all connections: a timer for each request costs as much as
reading it."""


TRIALS = 64
"""Connections beyond the limit that may still prove to be a peer's or an operator's: four for each of sixteen peers
that reconnect at once. With one more, one is aborted (`eviction`), so that silent connections do not keep a peer
out. Those that are refused count until they are closed."""

OPERATORS = 64
"""Connections of operators beyond the limit: a few people, and the tools they run."""


TOGETHER_S = 0.001
"""For pipelined requests of all clients, in one turn of the event loop, before peers and first requests are served
again. A commit takes several turns of the loop, so this is what a flood of requests makes others wait, many times."""


class TurnShare:
    """Time on the event loop for requests that clients pipeline. `waiting`: connections whose requests wait for their
    next turn. The more there are, the shorter a turn, so that frames of peers, and first requests, do not wait for a
    full turn of each of them. One request is served in every turn, however short it is."""

    def __init__(self, together_s: float = TOGETHER_S) -> None:
        self.waiting = 0
        self.together_s = together_s

    def turn_s(self, longest_s: float) -> float:
        return min(longest_s, self.together_s / (1 + self.waiting))


class OpenConnection(Protocol):
    def sweep(self, now: float) -> None:
        """Close if a time limit has passed."""

    def drain(self) -> None:
        """Begin nothing new, finish what is under way, then close."""

    def abort(self) -> None: ...


class Budget:
    """Bytes that the requests of some connections hold together, from the first byte until the answer."""

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
        """Count in another budget from now on."""
        self._budget.bytes -= self.bytes
        budget.bytes += self.bytes
        self._budget = budget

    def exceeds(self, limit: int) -> bool:
        """Whether all that share the budget hold more than this."""
        return self._budget.bytes > limit


class Connections:
    """Shared by the connections of a server. `now` is the loop's time, rounded up to the next sweep: cheap to read, and
    no limit ends early. Peers, and what they hold, are counted apart from clients, so that clients cannot keep peers
    out: a connection beyond the limit, or in reserve (`reserves`), is on trial, and stays if it proves to be a peer's
    or an operator's. `response_cache` has whole answers by the address in a GET.
    """

    def __init__(self, limit: int, trials: int = TRIALS, holdings: Holdings | None = None) -> None:
        """`holdings`: shared by all listeners of a node."""
        self.limit = limit
        self.holdings = holdings if holdings is not None else Holdings()
        self.now = 0.0
        self.client_budget = Budget()
        self.peer_budget = Budget()
        self.turns = TurnShare()
        self.draining = False
        self.response_cache = ResponseCache()
        self._open: set[OpenConnection] = set()
        self._peers: set[OpenConnection] = set()
        self._operators: set[OpenConnection] = set()
        self._trials: UnprovenSet[OpenConnection] = UnprovenSet(trials)
        self._timer: asyncio.TimerHandle | None = None
        self._empty: asyncio.Future[None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, connection: OpenConnection, source: str = "", *, reserved: bool = False) -> bool:
        """False: it is beyond the limit or in reserve, on trial. `source`: as `eviction.source_of` has it."""
        self._open.add(connection)
        if self._timer is None:
            self._tick()
        if connection in self._peers or (not reserved and self._clients <= self.limit):
            return True
        crowded_out = self._trials.add(connection, source)
        if crowded_out is not None:
            crowded_out.abort()
        return False

    @property
    def _clients(self) -> int:
        return len(self._open) - len(self._peers) - len(self._operators)

    def mark_as_peer(self, connection: OpenConnection) -> None:
        self._peers.add(connection)
        self._trials.discard(connection)

    def mark_as_operator(self, connection: OpenConnection) -> bool:
        """Of a connection on trial. False: there are enough of them."""
        if len(self._operators) >= OPERATORS:
            return False
        self._operators.add(connection)
        self._trials.discard(connection)
        return True

    def note_unsent(self, connection: OpenConnection, size: int) -> None:
        """What a client has not read. Peers have links of their own, with limits of their own."""
        if connection not in self._peers:
            self.holdings.note(connection, size)

    def forget(self, connection: OpenConnection) -> None:
        self.holdings.forget(connection)
        self._open.discard(connection)
        self._peers.discard(connection)
        self._operators.discard(connection)
        self._trials.discard(connection)
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
        """Close every connection after its next answer, and refuse new ones."""
        self.draining = True

    async def drain_clients(self, grace_s: float) -> None:
        """As `drain`, of all connections but those of peers, on which comes what clients wait for."""
        self.last_call()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_s
        for connection in self._open - self._peers:
            connection.drain()
        while self._open - self._peers and loop.time() < deadline:
            await asyncio.sleep(DRAIN_POLL_S)
        for connection in self._open - self._peers:
            connection.abort()

    async def drain(self, grace_s: float) -> None:
        """Wait until everything under way is answered, at most `grace_s`, then abort the rest."""
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
