"""The database of a simulated datacenter: a server that restarts, and the ways to it."""

from collections.abc import Callable
from random import Random

from epoxy_sim.datacenter.judge import JudgedTables
from epoxy_sim.datacenter.memory_database import MemoryDatabase, Statement
from epoxy_sim.datacenter.plan import DatabaseWeather, DatacenterPlan
from epoxy_sim.world import Action, World

LATE_US = 3_000_000
"""How long a statement whose connection is lost may still be under way at the server."""

SLOW = 100

DOOM_US = 1_000_000
"""How long a crash waits for a batch to be executed."""


class DatabaseServer:
    """One server. A crash takes down all connections, what is under way on them, and batches that were not flushed."""

    def __init__(self, world: World, plan: DatacenterPlan) -> None:
        self.world = world
        self.weather = plan.weather
        self.tables = JudgedTables(lambda: world.now_us / 1000)
        self.tables.flushes_batches = plan.flushes_batches
        self.statements = 0
        self.lost = 0
        """Batches that crashes have undone."""
        self.is_up = True
        self._doomed_us: int | None = None
        """How long the crash lasts that is about to come."""
        self._starts = 0
        self._fastest_us = max(1, plan.statement_us // 4)
        self._slowest_us = plan.statement_us
        self._dice = Random(f"database/{plan.seed}")

    def down(self, lasts_us: int) -> None:
        """A crash, if possible while a batch is executed and not flushed: such a moment is short, and comes soon."""
        self._doomed_us = lasts_us
        self.world.after(DOOM_US, self._crash)

    def _crash(self) -> None:
        """Of what is not flushed some may have come to the disk, and the rest is lost."""
        if self._doomed_us is None:
            return
        self.world.after(self._doomed_us, self.up)
        self._doomed_us, self.is_up = None, False
        self._starts += 1
        unflushed = len(self.tables.unflushed)
        lost = self._dice.randrange((unflushed + 1) // 2, unflushed + 1)
        self.world.note(f"the database crashes, and loses {lost} of {unflushed} batches")
        self.lost += lost
        self.tables.crash(lost)

    def up(self) -> None:
        self.is_up = True

    def calm(self) -> None:
        self._doomed_us = None
        self.up()
        self.weather = DatabaseWeather()

    def travel_us(self) -> int:
        time_us = self._dice.randrange(self._fastest_us, self._slowest_us + 1)
        return time_us * SLOW if self._dice.random() < self.weather.slow else time_us

    def carry(self, way: "DatabaseWay", statement: Statement) -> None:
        self.statements += 1
        dice, weather, there_us, back_us = self._dice, self.weather, self.travel_us(), self.travel_us()
        luck = dice.random()
        if not way.is_open or luck < weather.lost_before:
            self.world.after(there_us, way.running(statement.lose))
            return
        luck -= weather.lost_before
        if luck < weather.late:
            self.world.after(there_us, way.running(statement.lose))
            self.world.after(there_us + dice.randrange(LATE_US), lambda: self._run_late(statement))
            return
        is_answered, starts, cuts = luck - weather.late >= weather.lost_after, self._starts, way.cuts

        def arrive() -> None:
            if not self._is_same(way, starts, cuts):
                way.run(statement.lose)
                return
            statement.run()
            if self._doomed_us is not None and self.tables.unflushed:
                self.world.after(dice.randrange(self._slowest_us), self._crash)
            self.world.after(back_us, come_back)

        def come_back() -> None:
            way.run(statement.answer if is_answered and self._is_same(way, starts, cuts) else statement.lose)

        self.world.after(there_us, arrive)

    def _run_late(self, statement: Statement) -> None:
        if self.is_up:
            statement.run()

    def _is_same(self, way: "DatabaseWay", starts: int, cuts: int) -> bool:
        """Whether the connection has stood since then."""
        return starts == self._starts and cuts == way.cuts and way.is_open


class ReachedDatabase(MemoryDatabase):
    """Blocking reads fail while there is no way to the server."""

    def __init__(self, way: "DatabaseWay", server: DatabaseServer) -> None:
        super().__init__(server.tables, lambda statement: server.carry(way, statement))
        self._way = way

    def _reach(self, *, flush: bool) -> None:
        self.is_reachable = self._way.is_open
        super()._reach(flush=flush)


class DatabaseWay:
    """The connections of one process to the server. `run` lets the process act: later if it is paused, never if it is
    gone."""

    def __init__(self, server: DatabaseServer, run: Callable[[Action], None]) -> None:
        self._server = server
        self._is_cut = False
        self.cuts = 0
        self.database = ReachedDatabase(self, server)
        self.run = run

    @property
    def is_open(self) -> bool:
        return self._server.is_up and not self._is_cut

    def running(self, action: Action) -> Action:
        return lambda: self.run(action)

    def set_cut(self, is_cut: bool) -> None:
        self._is_cut = is_cut
        self.cuts += is_cut
