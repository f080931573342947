"""The PostgreSQL store on a bench: ticks, pauses, and statements move when a hand moves them."""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import cycle

from epoxy.model.shards import ALL_SHARDS, SYSTEM_SHARD, shard_of
from epoxy.store.shared.database import Reached, Verdict
from epoxy.store.shared.row_shards import RowShards
from epoxy.store.shared.store import CACHE_BYTES, SharedStore
from epoxy_sim.datacenter.memory_database import DatabaseTables, MemoryDatabase, Statement

REPLICA = 1
LEASE_MS = 10_000.0
FIRST_KEY = b"b"
MAX_STEPS = 10_000
"""Until nothing is under way: far more than any story has statements."""


class SplitLayout(RowShards):
    """Rows of any name: those before `first` are of the system shard, the others of keys."""

    def __init__(self, first: bytes = FIRST_KEY) -> None:
        super().__init__(REPLICA)
        self._first = first

    def of(self, row: bytes) -> int:
        return SYSTEM_SHARD if row < self._first else shard_of(row)

    def within_system(self, begin: bytes, end: bytes) -> bool:  # noqa: ARG002
        return end <= self._first


class SharedServer:
    """A server with its clock."""

    def __init__(self, tables: type[DatabaseTables] = DatabaseTables) -> None:
        self.now_ms = 0.0
        self.tables = tables(lambda: self.now_ms)

    def crash(self) -> None:
        """Everything is undone that was not flushed. What is under way is up to the test."""
        self.tables.crash(len(self.tables.unflushed))

    def let_leases_end(self) -> None:
        self.now_ms += 2 * LEASE_MS


class Life:
    """One life of a node: its session, its store, and what is under way."""

    def __init__(
        self,
        server: SharedServer,
        kind: type[SharedStore] = SharedStore,
        *,
        layout: RowShards | None = None,
        cache_bytes: int = CACHE_BYTES,
        shards: Sequence[int] = ALL_SHARDS,
    ) -> None:
        self.server = server
        self.ticks: deque[Callable[[], None]] = deque()
        self.pauses: deque[Callable[[], None]] = deque()
        self.statements: deque[Statement] = deque()
        self.fenced: list[str] = []
        self.heard: list[str] = []
        self.database = MemoryDatabase(server.tables, self.statements.append)
        tables = server.tables
        self.session = tables.open_session("http://here", "1", LEASE_MS)
        tables.take(self.session, shards, tuple(tables.sessions))
        sequence, position = self.database.position()
        self.store = kind(
            self.database,
            self.session,
            REPLICA,
            schedule=self.ticks.append,
            pause=self.pauses.append,
            reached=Reached(verdict=Verdict.DONE, sequence=sequence, position=position),
            on_fenced=self.fenced.append,
            layout=layout or SplitLayout(),
            cache_bytes=cache_bytes,
        )
        self.store.own(shards, lambda: None)
        self.run()

    def tick(self) -> None:
        while self.ticks:
            self.ticks.popleft()()

    def statement(self) -> Statement:
        """The next one on its way."""
        self.tick()
        return self.statements.popleft()

    def step(self) -> None:
        """The next statement is run and answered, and a batch is flushed."""
        statement = self.statement()
        statement.run()
        statement.answer()
        if statement.name == "commit":
            self.flush()

    def flush(self) -> None:
        """The flush on its way is run and answered."""
        self.tick()
        for statement in [each for each in self.statements if each.name == "flush"]:
            self.statements.remove(statement)
            statement.run()
            statement.answer()

    def run(self) -> None:
        """Until nothing is under way."""
        self.tick()
        steps = 0
        while self.statements or self.pauses:
            steps += 1
            assert steps < MAX_STEPS, "it goes on for ever"
            if self.statements:
                self.step()
            else:
                self.pauses.popleft()()
            self.tick()

    def run_until(self, name: str) -> None:
        """Until a statement of this kind is on its way."""
        while name not in self.under_way():
            self.step()

    def rest(self) -> None:
        """The pauses are over."""
        for _ in range(len(self.pauses)):
            self.pauses.popleft()()
        self.tick()

    def ask(self, name: str) -> None:
        """`name` is heard when everything is durable."""
        self.store.when_durable(lambda: self.heard.append(name))

    def under_way(self) -> list[str]:
        self.tick()
        return [each.name for each in self.statements]


class SharedBench:
    """As the conformance suite needs it. A crash is a node that is gone: the next one takes its shards."""

    is_shared = True

    def __init__(
        self,
        kind: type[SharedStore] = SharedStore,
        *,
        first: bytes = FIRST_KEY,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._kind = kind
        self._first = first
        self._cache_bytes = cache_bytes
        self._server = SharedServer()
        self.life = self._open()

    def _open(self) -> Life:
        return Life(self._server, self._kind, layout=SplitLayout(self._first), cache_bytes=self._cache_bytes)

    @property
    def store(self) -> SharedStore:
        return self.life.store

    def sync(self) -> None:
        self.life.run()

    def reopen(self) -> None:
        self.sync()
        self.store.close()
        self.crash()

    def crash(self) -> None:
        self._server.let_leases_end()
        self.life = self._open()


class LossyBench(SharedBench):
    """Every statement is lost twice: before it is run, and after it. The third attempt is answered."""

    def _open(self) -> Life:
        life = super()._open()
        turns = cycle(("before", "after", "answered"))

        def carry(statement: Statement) -> None:
            life.statements.append(Fated(statement, next(turns)))

        life.database.carry = carry
        return life


class Fated:
    """A statement whose answer is decided."""

    def __init__(self, statement: Statement, fate: str) -> None:
        self._statement = statement
        self._fate = fate

    @property
    def name(self) -> str:
        return self._statement.name

    def run(self) -> None:
        if self._fate != "before":
            self._statement.run()

    def answer(self) -> None:
        if self._fate == "answered":
            self._statement.answer()
        else:
            self._statement.lose()

    def lose(self) -> None:
        self._statement.lose()
