"""One session of a node: its lease, its shards, and the table of all owners.

The database is asked one question at a time, so that a table that arrives was read after every hand-over before it.
A table is the only news of shards that came: taken here, handed over by another session, or taken by a question whose
answer was lost. A shard that is being handed over goes, if not to the session it was meant for, then to another or to
none: a hand-over without an answer may take effect at any time as long as the shard has its epoch, and with the epoch
that the next hand-over gives it no more.
"""

from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from epoxy.model.shards import ALL_SHARDS, SYSTEM_SHARD
from epoxy.ports import Clock
from epoxy.store.shared.database import Database, SessionRow, ShardTable
from epoxy.store.shared.shares import AWAKE, awake, heir, heirs, next_step

TICK_MS = 250.0
"""How often the table is looked at: the longest that a shard handed over waits for its next owner. Four small
transactions a second for each node."""

RENEWED = 5
"""A lease is renewed so many times before it is over: one that is lost with its connection does not matter."""

STEADY = 0.5
"""For this part of a lease the database must have answered, time after time, before sessions are fenced. After it was
away, or this node was paused, the leases of all others may be over too, and they renew them in a moment."""

NO_TABLE = ShardTable((), [0] * len(ALL_SHARDS), [0] * len(ALL_SHARDS))
"""Until the database has shown one: no shard has an owner."""


class Departure(Struct, frozen=True):
    """A shard of which everything is durable and forgotten: it goes, with this epoch."""

    shard: int
    epoch: int
    to: int


class Ownership:
    """`owned`: shards that are served here. `leaving`: shards that are served no more, and are still this session's in
    the database or may be. `changed` is called when the table or `owned` is another one; `taken` when shards came: they
    are owned when it calls back; `quiesce` when a shard is to go: it calls back with True when all of the shard is
    durable and forgotten, with False if that does not end: the shard is owned again then; `farewell` before
    the session is closed: it calls back when nothing is served any more, with the session that gets the system shard
    (0: the one that takes it first); `fenced` once, when the session is over."""

    def __init__(self, database: Database, clock: Clock, *, url: str, version: str, lease_ms: float) -> None:
        self.session = 0
        self.table = NO_TABLE
        self.owned: set[int] = set()
        self.leaving: set[int] = set()
        self.changed: Callable[[], None] = _nothing
        self.taken: Callable[[Sequence[int], Callable[[], None]], None] = _at_once
        self.quiesce: Callable[[int, Callable[[bool], None]], None] = _rested
        self.farewell: Callable[[Callable[[int], None]], None] = _to_none
        self.fenced: Callable[[str], None] = _nothing
        self.takes_system: Callable[[], bool] = _always
        """Whether this node may become the gateway: peers must find it."""
        self.reaches: Callable[[int], bool] = _always
        """Whether this node has a connection to another session's: only then shards are handed over to that."""
        self._database = database
        self._clock = clock
        self._url = url
        self._version = version
        self._lease_ms = lease_ms
        self._preparing: set[int] = set()
        self._departures: list[Departure] = []
        self._began = False
        self._asking = False
        self._must_look = False
        self._over = False
        self._handed_over: Callable[[], None] | None = None
        self._closing = False
        self._looked_ms = 0.0
        self._steady_since_ms: float | None = None

    def open(self, then: Callable[[], None]) -> None:
        """A session, and the first table; asked for until the database is there."""
        if self._over:
            return

        def opened(session: int | None) -> None:
            if session is None:
                self._clock.call_later(TICK_MS, partial(self.open, then))
            else:
                self.session = session
                self._look(then)

        self._database.open_session(self._url, self._version, AWAKE * self._lease_ms, opened)

    def start(self) -> None:
        self._began = True
        self._tick()

    def stop(self) -> None:
        """Ask and change nothing more, without a word."""
        self._over = True

    def end(self, why: str) -> None:
        """This session is over, as the table says or as the store was told: everything in memory is void."""
        if self._over:
            return
        self.stop()
        if self._handed_over is not None:
            self._handed_over()
        else:
            self.fenced(why)

    def look(self) -> None:
        """Ask for the table now: another node says that it is not as this one believes."""
        self._must_look = True
        self._act()

    @property
    def table_age_ms(self) -> float:
        """Since the database showed the table last."""
        return self._clock.now_ms() - self._looked_ms

    def owner_of(self, shard: int) -> SessionRow | None:
        owner = self.table.owners[shard]
        return next((row for row in self.table.sessions if row.id == owner), None)

    def hand_all_over(self, done: Callable[[], None]) -> None:
        """Hand every key shard over, one after the other, and close the session with what no other session is there
        for, and with the system shard. Nothing is taken any more."""
        self._handed_over = done
        self.look()

    def heirs(self) -> list[int]:
        """The sessions that a session which ends may hand the system shard over to, those with the fewest shards
        first."""
        return heirs(self.table, self.session, self._lease_ms, self.reaches)

    def let_go(self) -> None:
        """The system shard is not served here any more; it goes when `farewell` calls back."""
        if SYSTEM_SHARD in self.owned:
            self.owned.discard(SYSTEM_SHARD)
            self.leaving.add(SYSTEM_SHARD)
            self.changed()

    def _tick(self) -> None:
        if not self._over:
            self._clock.call_later(min(TICK_MS, self._lease_ms / RENEWED), self._tick)
            self.look()

    def _act(self) -> None:
        """The next question, or the next hand-over."""
        if self._asking or self._over or not self._began:
            return
        if self._must_look:
            self._look(self._act)
        elif self._departures:
            self._give(self._departures[0])
        elif self._handed_over is not None:
            self._leave()
        else:
            self._spread()

    def _look(self, then: Callable[[], None]) -> None:
        """Renew the lease and adopt the table."""
        self._asking, self._must_look = True, False
        stays = self._began and self._handed_over is None
        self._database.renew(self.session, self._lease_ms * (1 if stays else AWAKE), partial(self._looked, then))

    def _looked(self, then: Callable[[], None], table: ShardTable | None) -> None:
        self._asking = False
        if self._over:
            return
        if table is None:
            self._steady_since_ms = None
            if not self._began:
                self._clock.call_later(TICK_MS, partial(self._look, then))
            return
        lost = [shard for shard in sorted(self.owned | self._preparing) if table.owners[shard] != self.session]
        if all(row.id != self.session for row in table.sessions):
            self.end("another session has taken the shards of this one")
            return
        if lost:
            self.end(f"shards were given to others and not by this session: {lost}")
            return
        now_ms = self._clock.now_ms()
        if self._steady_since_ms is None or now_ms - self._looked_ms > STEADY * self._lease_ms:
            self._steady_since_ms = now_ms
        self._looked_ms = now_ms
        self._departures = [each for each in self._departures if not self._is_gone(each, table)]
        self._adopt(table)
        self._welcome()
        then()

    def _is_gone(self, departure: Departure, table: ShardTable) -> bool:
        """Whether a hand-over took effect whose answer was lost. With another epoch the shard has even come back."""
        shard = departure.shard
        gone = table.owners[shard] != self.session or table.epochs[shard] != departure.epoch
        if gone:
            self.leaving.discard(shard)
        return gone

    def _adopt(self, table: ShardTable) -> None:
        is_new = _shape(table) != _shape(self.table)
        self.table = table
        if is_new:
            self.changed()

    def _welcome(self) -> None:
        """Prepare to serve the shards that came. The system shard by itself: it is loaded as a whole. A session that
        leaves serves none, and hands them on."""
        known = self.owned | self._preparing | self.leaving
        came = [shard for shard, owner in enumerate(self.table.owners) if owner == self.session and shard not in known]
        if self._handed_over is not None:
            for shard in came:
                self.leaving.add(shard)
                self._quiesced(shard, 0, True)
            return
        for shards in ([s for s in came if s == SYSTEM_SHARD], [s for s in came if s != SYSTEM_SHARD]):
            if shards:
                self._preparing.update(shards)
                self.taken(shards, partial(self._prepared, shards))

    def _prepared(self, shards: Sequence[int]) -> None:
        if not self._over:
            self._preparing.difference_update(shards)
            self.owned.update(shards)
            self.changed()
            self._act()

    def _spread(self) -> None:
        """Take shards that have no owner, or hand one over."""
        since_ms = self._steady_since_ms
        fences = since_ms is not None and self._looked_ms - since_ms >= STEADY * self._lease_ms
        may = self.takes_system()
        step = next_step(
            self.table, self.session, self._lease_ms, fences=fences, takes_system=may, reaches=self.reaches
        )
        if step.take:
            self._asking = True
            self._database.take(self.session, step.take, step.dead, self._took)
        elif step.give is not None and not self.leaving and step.give.shard in self.owned:
            self._hand_over(step.give.shard, step.give.to)

    def _took(self, shards: Sequence[int] | None) -> None:
        self._asking = False
        if shards:
            self.look()

    def _hand_over(self, shard: int, to: int) -> None:
        self.owned.discard(shard)
        self.leaving.add(shard)
        self.changed()
        self.quiesce(shard, partial(self._quiesced, shard, to))

    def _quiesced(self, shard: int, to: int, is_at_rest: bool) -> None:
        """A shard that does not come to rest is served here again, and goes another time."""
        if self._over:
            return
        if is_at_rest:
            self._departures.append(Departure(shard, self.table.epochs[shard], to))
            self._act()
        else:
            self.leaving.discard(shard)
            self.owned.add(shard)
            self.changed()

    def _give(self, departure: Departure) -> None:
        self._asking = True
        is_there = departure.to in awake(self.table, self._lease_ms, self.session) and self.reaches(departure.to)
        to = departure.to if is_there else heir(self.table, self.session, self._lease_ms, self.reaches)
        self._database.give(self.session, departure.shard, departure.epoch, to, partial(self._gave, departure, to))

    def _gave(self, departure: Departure, to: int, is_done: bool | None) -> None:
        """Without a clear yes the next table says what became of it, and if the shard is still here it goes again."""
        self._asking = False
        if not is_done or self._over:
            return
        self._departures.remove(departure)
        self.leaving.discard(departure.shard)
        owners, epochs = list(self.table.owners), list(self.table.epochs)
        owners[departure.shard] = to
        epochs[departure.shard] += 1
        self._adopt(replace(self.table, owners=owners, epochs=epochs))
        self._act()

    def _leave(self) -> None:
        """The next key shard of a session that ends. When none is left, or no other session to have them, what is left
        ends with the session. So do shards that came and are not served yet: what would serve them may come no more."""
        if self.leaving or self._closing:
            return
        to = heir(self.table, self.session, self._lease_ms, self.reaches)
        keys = self.owned - {SYSTEM_SHARD}
        if keys and to:
            self._hand_over(max(keys), to)
        else:
            self._closing = True
            self.farewell(self._closed)

    def _closed(self, heir: int) -> None:
        """A hand-over of the system shard without an answer ends with the session: then the shard is free."""
        if self._over:
            return
        self.stop()
        if heir and SYSTEM_SHARD in self.leaving:
            self._database.give(self.session, SYSTEM_SHARD, self.table.epochs[SYSTEM_SHARD], heir, self._close)
        else:
            self._close()

    def _close(self, _: bool | None = None) -> None:
        assert self._handed_over is not None
        self._database.close_session(self.session, self._handed_over)


def _shape(table: ShardTable) -> object:
    """What is different when the table is another one: leases that are renewed are not."""
    return sorted((row.id, row.url) for row in table.sessions), list(table.owners), list(table.epochs)


def _nothing(*_: object) -> None:
    """Nothing listens yet."""


def _always(*_: object) -> bool:
    return True


def _at_once(_: object, then: Callable[[], None]) -> None:
    then()


def _to_none(then: Callable[[int], None]) -> None:
    then(0)


def _rested(_: int, then: Callable[[bool], None]) -> None:
    then(True)
