"""The PostgreSQL store on a bench: ticks, pauses, and statements move when a hand moves them."""

from collections import deque
from collections.abc import Callable, Sequence

from epoxy.model.shards import ALL_SHARDS, SYSTEM_SHARD, shard_of
from epoxy.store.postgres.database import Reached, Verdict
from epoxy.store.postgres.row_shards import RowShards
from epoxy.store.postgres.store import CACHE_BYTES, PostgresStore
from epoxy_sim.datacenter.memory_database import DatabaseTables, MemoryDatabase, Statement

REPLICA = 1
LEASE_MS = 10_000.0
FIRST_KEY = b"b"


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

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.tables = DatabaseTables(lambda: self.now_ms)


class Life:
    """One life of a node: its session, its store, and what is under way."""

    def __init__(
        self,
        server: SharedServer,
        kind: type[PostgresStore] = PostgresStore,
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
        statement = self.statement()
        statement.run()
        statement.answer()

    def run(self) -> None:
        """Until nothing is under way."""
        self.tick()
        while self.statements or self.pauses:
            if self.statements:
                self.step()
            else:
                self.pauses.popleft()()
            self.tick()

    def under_way(self) -> list[str]:
        self.tick()
        return [each.name for each in self.statements]


class SharedBench:
    """As the conformance suite needs it. A crash is a node that is gone: the next one takes its shards."""

    is_shared = True

    def __init__(
        self,
        kind: type[PostgresStore] = PostgresStore,
        *,
        first: bytes = FIRST_KEY,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._open = lambda: Life(self._server, kind, layout=SplitLayout(first), cache_bytes=cache_bytes)
        self._server = SharedServer()
        self.life = self._open()

    @property
    def store(self) -> PostgresStore:
        return self.life.store

    def sync(self) -> None:
        self.life.run()

    def reopen(self) -> None:
        self.sync()
        self.store.close()
        self.crash()

    def crash(self) -> None:
        self._server.now_ms += 2 * LEASE_MS
        self.life = self._open()
