"""Loading ahead: the rows that rules are about to read. One query is under way at a time, and what is wanted meanwhile
shares the next: they would wait for each other on their connection anyway."""

from collections.abc import Callable, Sequence

from epoxy.store.shared.database import Database
from epoxy.store.shared.rows import SharedRows

Post = Callable[[Callable[[], None]], object]


class LoadAhead:
    """`schedule` calls at the end of the current tick, `pause` after a while."""

    def __init__(self, rows: SharedRows, database: Database, schedule: Post, pause: Post) -> None:
        self._rows = rows
        self._database = database
        self._schedule = schedule
        self._pause = pause
        self._is_alive = True
        self._wanted: list[bytes] = []
        """To be asked for at the end of this tick, or when the query under way has been answered."""
        self._is_asking = False
        # Both are bounded by the callers' requests in flight.
        self._loading: dict[bytes, list[Waiter]] = {}
        """Wanted or asked for."""
        self._overtaken: set[bytes] = set()
        """Asked for, and not to be kept: written here meanwhile, or not owned all the while."""

    def load(self, rows: Sequence[bytes], then: Callable[[], None]) -> None:
        missing = {row for row in rows if not self._rows.is_near(row)}
        if not missing:
            then()
            return
        waiter = Waiter(then, len(missing))
        for row in missing:
            if row in self._loading:
                self._loading[row].append(waiter)
                continue
            self._loading[row] = [waiter]
            if not self._rows.is_owned(row):
                self._overtaken.add(row)
            if not (self._wanted or self._is_asking):
                self._schedule(self._ask)
            self._wanted.append(row)

    def written(self, rows: dict[bytes, bytes | None]) -> None:
        """What is asked for was asked before these writes, and may be answered after they are durable and dropped."""
        if self._loading and not self._loading.keys().isdisjoint(rows):
            self._overtaken.update(self._loading.keys() & rows.keys())

    def disowned(self) -> None:
        """Another owner may write what is asked for."""
        self._overtaken.update([row for row in self._loading if not self._rows.is_owned(row)])

    def forget(self) -> None:
        self._is_alive = False
        self._wanted, self._loading, self._overtaken = [], {}, set()

    def _ask(self) -> None:
        wanted, self._wanted = self._wanted, []
        self._is_asking = bool(wanted)
        if wanted:
            self._query(wanted)

    def _query(self, wanted: list[bytes]) -> None:
        if self._is_alive:
            self._database.load(wanted, lambda found: self._answered(wanted, found))

    def _answered(self, wanted: list[bytes], found: dict[bytes, bytes] | None) -> None:
        if not self._is_alive:
            return
        if found is None:
            self._pause(lambda: self._query(wanted))
            return
        ready: list[Callable[[], None]] = []
        for row in wanted:
            if row in self._overtaken:
                self._overtaken.discard(row)
            else:
                self._rows.keep(row, found.get(row))
            for waiter in self._loading.pop(row):
                waiter.missing -= 1
                if not waiter.missing:
                    ready.append(waiter.then)
        self._ask()
        call_each(ready, self._schedule, lambda: self._is_alive)


class Waiter:
    """Called when so many more rows are there."""

    __slots__ = ("missing", "then")

    def __init__(self, then: Callable[[], None], missing: int) -> None:
        self.then = then
        self.missing = missing


def call_each(callbacks: list[Callable[[], None]], schedule: Post, is_alive: Callable[[], bool]) -> None:
    """In their order. One that raises does not stop the others."""
    waiting = iter(callbacks)
    try:
        for each in waiting:
            if is_alive():
                each()
    finally:
        if rest := list(waiting):
            schedule(lambda: call_each(rest, schedule, is_alive))
