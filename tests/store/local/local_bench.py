"""The database of several processes on a bench: the embedded store below it moves when a hand moves it."""

from collections.abc import Sequence

from epoxy.model.shards import ALL_SHARDS
from epoxy.store.local.local_database import LocalDatabase
from epoxy.store.shared.database import ExecutedBatch, GroupCommit, Reached, Verdict
from epoxy.store.shared.row_shards import LAST_ROW
from epoxy.store.shared.store import SharedStore
from tests.store.hand import EmbeddedBench
from tests.store.shared.shared_bench import LEASE_MS, REPLICA, SplitLayout


class AnyLayout(SplitLayout):
    """Rows of any name, wherever they are."""

    def ranges_of(self, shard: int) -> Sequence[tuple[bytes, bytes]]:  # noqa: ARG002
        return ((b"", LAST_ROW),)


class LocalDisk:
    """A data directory, and the database that its first process makes of it."""

    def __init__(self, kind: type[LocalDatabase] = LocalDatabase) -> None:
        self._kind = kind
        self.disk = EmbeddedBench()
        self.now_ms = 0.0
        self.open()

    def open(self) -> None:
        self.database = self._kind(
            self.disk.store, AnyLayout(), now_ms=lambda: self.now_ms, schedule=self.disk.ticks.append
        )

    def session(self, shards: Sequence[int] = ALL_SHARDS) -> int:
        """One that owns these shards."""
        session = self.database.table.open("http://here", "1", LEASE_MS)
        self.database.table.take(session, shards, ())
        return session

    def commit(
        self, session: int, number: int, key: bytes = b"k", value: bytes = b"v", epoch: int = 0
    ) -> list[ExecutedBatch]:
        """Where the answer will be."""
        heard: list[ExecutedBatch] = []
        self.database.commit(GroupCommit(session, number, epoch, [(key, value, 1)]), heard.append)
        return heard

    def flush(self, session: int, epoch: int = 0) -> list[Reached]:
        """Where the answer will be."""
        heard: list[Reached] = []
        self.database.flush(session, epoch, heard.append)
        return heard

    def tick(self) -> None:
        """Everything but the disk."""
        while self.disk.tick():
            pass

    def settle(self) -> None:
        self.disk.settle()

    def crash(self) -> None:
        self.disk.crash()
        self.open()


class LocalBench:
    """As the conformance suite needs it."""

    is_shared = True

    def __init__(self) -> None:
        self._place = LocalDisk()
        self.fenced: list[str] = []
        self._open()

    def _open(self) -> None:
        place = self._place
        session = place.session()
        sequence, position = place.database.position()
        schedule = place.disk.ticks.append
        self.store = SharedStore(
            place.database,
            session,
            REPLICA,
            schedule=schedule,
            pause=schedule,
            reached=Reached(verdict=Verdict.DONE, sequence=sequence, position=position),
            on_fenced=self.fenced.append,
            layout=AnyLayout(),
        )
        self.store.own(ALL_SHARDS, lambda: None)
        self.sync()

    def sync(self) -> None:
        self._place.settle()

    def reopen(self) -> None:
        self.sync()
        self.store.close()
        self._place.disk.reopen()
        self._place.open()
        self._open()

    def crash(self) -> None:
        self._place.crash()
        self._open()
