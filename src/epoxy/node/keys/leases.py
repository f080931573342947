"""Leases: values that end, and the decisions that end them.

Each replica counts for itself, from the moment at which it held the expiry durably, on a clock that goes on in suspend.
A count that has run out changes nothing by itself: it allows this replica to propose a tombstone on top of exactly that
version. So all replicas agree whether a value ended before or after a renewal, and a stale timer cannot undo one.

The holder counts from before it sent its write, so it stops believing in its lease before any replica's count runs out,
as long as their clocks run within one percent of each other (docs/protocol/leases.md).

All replicas count. The home of the version proposes first; another one only if the home has been silent, so that many
leases that end at once are not proposed several times.
"""

import heapq
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.errors import StoreUnavailable
from epoxy.model.marks import is_owned
from epoxy.model.records import Expiry, ExpiryEntry, KeyState, Proposal
from epoxy.model.sessions import SESSION_KEYS, session_key, session_of
from epoxy.model.writes import (
    Committed,
    Consistency,
    ImmutableKey,
    Outcome,
    ReadOutcome,
    ReadResult,
    VersionMismatch,
    Write,
)
from epoxy.ports import Timer

if TYPE_CHECKING:
    from epoxy.node.keys.driver import Driver

DRIFT, GRACE_MS = 0.01, 50.0
"""How much longer than its time to live a replica waits: clocks may differ by one percent in their speed, and by so
much in the moments at which they are read."""

MAX_ENDING = 64
"""Expiries that a node proposes at a time. Clients' writes go on beside them."""

RANK_MS = 250.0
"""How much later than the home of a value the next replica proposes its end, and the one after that."""

BUSY_MS = 500.0
"""A home that ended another value within this time is at work, and its turn lasts."""

AGAIN_MS = 1_000.0
"""After an expiry that was not decided."""

LOOK_MS = 1_000.0
"""The longest time between two looks: timers stand still while a machine is suspended, the count does not."""

GRAIN_MS = 1.0
"""The shortest: a timer that rings a little early must not be set anew for nothing."""

UNHEARD_MS = 5_000.0
"""How long a replica waits for news of a session that it does not know, before it asks."""

LOADED_AT_ONCE = 1_000
"""Rows that a start reads at a time: some milliseconds."""

LOADED_AGAIN_MS = 250.0
"""Between two tries to read rows of a database that does not answer."""

SLACK = 1_000
"""Looks ahead that are kept for counts that are no more."""


Expiring = Callable[[bytes | None, int], list[tuple[bytes, ExpiryEntry]]]


class LeaseCount:
    """Of one expiry of a key. `ends_ms`: when it has run out here, None before it is durable, and while its session
    lasts. `version`, `home`: of the newest version that has this expiry."""

    __slots__ = ("began_ms", "ends_ms", "expiry", "home", "version")

    def __init__(self, expiry: Expiry, version: int, home: int) -> None:
        self.expiry = expiry
        self.version = version
        self.home = home
        self.began_ms: float | None = None
        self.ends_ms: float | None = None


class Leases:
    def __init__(self, driver: "Driver") -> None:
        self._driver = driver
        self._clock = driver.clock
        self._counts: dict[bytes, LeaseCount] = {}
        self._attached: dict[bytes, set[bytes]] = {}
        """By session, the keys that end with it."""
        self._due: list[tuple[float, int, bytes, LeaseCount]] = []
        self._order = count()
        self._ending: dict[bytes, int] = {}
        """Versions whose end is proposed here now, by key."""
        self._ended_ms: dict[int, float] = {}
        """When a home ended a value last."""
        self._timer: Timer | None = None
        self._rings_ms = 0.0
        self.ended = 0
        """Expiries that this replica proposed and that were decided."""
        self.of_clients = self.sessions = 0
        """Counts of clients' keys, and of sessions. The rest are keys of the cluster's own."""
        self.end_elsewhere: Callable[[bytes, int, Callable[[Outcome], None]], bool] = not_elsewhere
        """Ends a value of another engine. False: the key is of this one."""
        self.held_elsewhere: Callable[[bytes, Proposal], Proposal] = lambda _, mark: mark
        """What a key holds that was handed over to another engine with this mark, durable or not."""
        self.indexes: list[Expiring] = [driver.replica.expiring]
        """Pages of the keys whose values end, beyond a key."""

    def __len__(self) -> int:
        return len(self._counts)

    def counts(self, key: bytes) -> bool:
        return key in self._counts

    def counted(self, key: bytes) -> LeaseCount | None:
        return self._counts.get(key)

    def left_ms(self, key: bytes) -> int | None:
        """Of the time to live of a key that is counted here; None: it is not, or it has none."""
        found = self._counts.get(key)
        if found is None or not found.expiry.ttl_ms:
            return None
        spent_ms = self._clock.now_ms() - found.began_ms if found.began_ms is not None else 0.0
        return max(0, int(found.expiry.ttl_ms - spent_ms))

    @property
    def late_ms(self) -> float:
        """How long ago this replica should have ended the value that waits longest for it."""
        while self._due and self._counts.get(self._due[0][2]) is not self._due[0][3]:
            heapq.heappop(self._due)
        return max(0.0, self._clock.now_ms() - self._due[0][0]) if self._due else 0.0

    # What clients see

    def remaining_ms(self, key: bytes, committed: Proposal) -> int | None:
        """Of its time to live, by this replica's count. None: it has none."""
        expiry = committed.expiry
        if expiry is None or not expiry.ttl_ms:
            return None
        found = self._counts.get(key)
        if found is None or found.expiry != expiry:
            return 0 if self._has_ended(key, committed) else expiry.ttl_ms
        if found.began_ms is None:
            return expiry.ttl_ms
        return max(0, int(expiry.ttl_ms - (self._clock.now_ms() - found.began_ms)))

    def is_over(self, key: bytes, committed: Proposal | None) -> bool:
        """Whether the count of this value has run out here. It is still there until that is decided."""
        if committed is None or committed.expiry is None:
            return False
        found = self._counts.get(key)
        if found is None:
            return self._has_ended(key, committed)
        return found.expiry == committed.expiry and self.has_run_out(found)

    def _has_ended(self, key: bytes, committed: Proposal) -> bool:
        """The count goes with the commit of the tombstone. Until that is durable, local reads find the row before: a
        value that was hidden as over must not be shown again."""
        newest = self._newest(key)
        return newest is not None and newest.is_tombstone and newest.version > committed.version

    def seen(self, key: bytes, here: ReadResult) -> ReadResult:
        """What an optimistic read shows: a value that is over by this replica's count is absent."""
        committed = here.committed
        if committed is None or (shown := self.shown(key, committed)) is committed:
            return here
        return ReadResult(committed=shown, source=here.source)

    def shown(self, key: bytes, committed: Proposal) -> Proposal:
        if committed.expiry is None or not self.is_over(key, committed):
            return committed
        return Proposal(value=None, version=committed.version, mutable=True, proposal_id=committed.proposal_id)

    def over_version(self, key: bytes) -> int:
        """The version of a key whose count has run out here, unless its end is proposed already; 0: there is none."""
        found = self._counts.get(key)
        if found is None or self._ending.get(key) == found.version or not self.has_run_out(found):
            return 0
        return found.version

    def has_run_out(self, found: LeaseCount) -> bool:
        return found.ends_ms is not None and found.ends_ms <= self._clock.now_ms()

    # Counting

    def learned(self, key: bytes, _before: KeyState, after: KeyState) -> None:
        """A watcher of the replica's commits."""
        committed = after.committed
        assert committed is not None, "of a commit"
        if is_owned(committed):
            committed = self.held_elsewhere(key, committed)
        if committed.expiry is not None or key in self._counts:
            self.follow(key, committed)
        if committed.value is None and (session := session_of(key)):
            self.session_over(session)

    def follow(self, key: bytes, committed: Proposal) -> None:
        """A version with the same expiry as the one before does not begin the count anew."""
        expiry, known = committed.expiry, self._counts.get(key)
        if known is not None and known.expiry == expiry:
            known.version, known.home = committed.version, committed.home
            return
        if known is not None:
            self._drop(key, known, ended_by=committed.home if committed.is_tombstone else 0)
        if expiry is not None:
            self._count(key, expiry, committed.version, committed.home)

    def _count(self, key: bytes, expiry: Expiry, version: int, home: int) -> None:
        found = self._counts[key] = LeaseCount(expiry, version, home)
        self._tally(key, 1)
        if expiry.session:
            self._attached.setdefault(expiry.session, set()).add(key)
        self._driver.replica.when_durable(partial(self._begin, key, found))

    def _drop(self, key: bytes, known: LeaseCount, ended_by: int) -> None:
        del self._counts[key]
        self._tally(key, -1)
        session = known.expiry.session
        if session and (keys := self._attached.get(session)) is not None:
            keys.discard(key)
            if not keys:
                del self._attached[session]
        if ended_by and known.ends_ms is not None:
            self._ended_ms[ended_by] = self._clock.now_ms()

    def _tally(self, key: bytes, change: int) -> None:
        if key < FIRST_SYSTEM_KEY:
            self.of_clients += change
        elif key.startswith(SESSION_KEYS):
            self.sessions += change

    def _begin(self, key: bytes, found: LeaseCount) -> None:
        """Its version is durable here."""
        if self._counts.get(key) is not found:
            return
        now_ms = found.began_ms = self._clock.now_ms()
        if found.expiry.session:
            self._look_at_session(key, found)
        else:
            found.ends_ms = now_ms + wait_ms(found.expiry.ttl_ms)
            self._push(key, found, found.ends_ms)

    def load(self, after: bytes | None = None) -> None:
        """The counts of a process that begins, some at a time: a restart counts anew, at this replica alone."""
        for index in self.indexes:
            self._load(index, after)

    def _load(self, expiring: Expiring, after: bytes | None) -> None:
        """A database that is away is asked again: a lease that is not counted would never end."""
        try:
            rows = expiring(after, LOADED_AT_ONCE)
            for key, entry in rows:
                if key not in self._counts and self._driver.serves(key):
                    self._found(key, entry)
        except StoreUnavailable:
            self._clock.call_later(LOADED_AGAIN_MS, partial(self._load, expiring, after))
            return
        if len(rows) == LOADED_AT_ONCE:
            self._clock.call_later(0, partial(self._load, expiring, rows[-1][0]))

    def _found(self, key: bytes, entry: ExpiryEntry) -> None:
        """The index names what a key had when it was handed over; it may hold something else by now."""
        mark = self._driver.replica.newest(key) if not entry.home else None
        if not is_owned(mark) or self.held_elsewhere(key, mark).version == entry.version:
            self._count(key, entry.expiry, entry.version, entry.home)

    def _newest(self, key: bytes) -> Proposal | None:
        newest = self._driver.replica.newest(key)
        return self.held_elsewhere(key, newest) if is_owned(newest) else newest

    # Sessions

    def _look_at_session(self, key: bytes, found: LeaseCount) -> None:
        """A session that is not known here may be on its way, or be over since long."""
        if not self._driver.serves(session_key(found.expiry.session)):
            self._ask_about(key, found)
            return
        session = self._driver.replica.newest(session_key(found.expiry.session))
        if session is None:
            self._push(key, found, self._clock.now_ms() + UNHEARD_MS)
        elif session.is_tombstone:
            self._end_now(key, found)

    def session_over(self, session: bytes) -> None:
        for key in sorted(self._attached.get(session, ())):
            self._end_now(key, self._counts[key])

    def look_again(self) -> None:
        """At all sessions: news of their ends may have been lost."""
        for keys in list(self._attached.values()):
            for key in keys:
                self._look_at_session(key, self._counts[key])

    def forget_others(self) -> None:
        """Stop counting for keys whose rules run elsewhere from here on: their new owner counts anew."""
        for key in [key for key in self._counts if not self._driver.serves(key)]:
            self._drop(key, self._counts[key], ended_by=0)

    def _end_now(self, key: bytes, found: LeaseCount) -> None:
        found.ends_ms = self._clock.now_ms()
        self._push(key, found, found.ends_ms)

    def _ask_about(self, key: bytes, found: LeaseCount) -> None:
        """Whether the session of a key is over, of which nothing was heard here."""

        def heard(outcome: ReadOutcome) -> None:
            if self._counts.get(key) is not found:
                return
            if isinstance(outcome, ReadResult) and outcome.value is None:
                self._end_now(key, found)
            elif not isinstance(outcome, ReadResult):
                self._push(key, found, self._clock.now_ms() + UNHEARD_MS)

        self._driver.read(session_key(found.expiry.session), Consistency.LINEARIZABLE, heard)

    # Ending

    def _push(self, key: bytes, found: LeaseCount, at_ms: float) -> None:
        """Look at it then, later by its rank."""
        at_ms += self._rank(found.home) * (RANK_MS + self._driver.timing.hedge_ms)
        heapq.heappush(self._due, (at_ms, next(self._order), key, found))
        if len(self._due) > 4 * len(self._counts) + SLACK:
            self._due = [each for each in self._due if self._counts.get(each[2]) is each[3]]
            heapq.heapify(self._due)
        self._set_timer()

    def _rank(self, home: int) -> float:
        """0: the home; then the others in a circle, with a little chance."""
        me, voters = self._driver.replica.me, sorted(self._driver.replica.config.voters)
        if me == home:
            return 0.0
        if me not in voters:
            return float(len(voters))
        first = voters.index(home) if home in voters else -1
        return (voters.index(me) - first) % len(voters) + self._driver.uniform() / 2

    def _set_timer(self) -> None:
        if not self._due or len(self._ending) >= MAX_ENDING:
            return
        now_ms = self._clock.now_ms()
        rings_ms = min(self._due[0][0], now_ms + LOOK_MS)
        if self._timer is not None and self._rings_ms <= rings_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._rings_ms = rings_ms
        self._timer = self._clock.call_later(max(GRAIN_MS, rings_ms - now_ms), self._ring)

    def _ring(self) -> None:
        self._timer = None
        now_ms = self._clock.now_ms()
        while self._due and self._due[0][0] <= now_ms and len(self._ending) < MAX_ENDING:
            _, _, key, found = heapq.heappop(self._due)
            if self._counts.get(key) is not found:
                continue
            if key in self._ending:
                self._push(key, found, now_ms + AGAIN_MS)
            else:
                self._end(key, found, now_ms)
        self._set_timer()

    def _end(self, key: bytes, found: LeaseCount, now_ms: float) -> None:
        me = self._driver.replica.me
        if not self.has_run_out(found):
            self._ask_about(key, found)
        elif found.home != me and now_ms - self._ended_ms.get(found.home, -BUSY_MS) < BUSY_MS:
            self._push(key, found, now_ms)
        elif me in self._driver.replica.config.voters:
            self.propose_end(key, found.version)
        else:
            self._push(key, found, now_ms + AGAIN_MS)

    def propose_end(self, key: bytes, version: int, done: Callable[[Outcome], None] | None = None) -> None:
        """On condition that this is still the version."""
        self._ending[key] = version
        self._driver.write(end_of(key, version), partial(self._decided, key, version, done))

    def _decided(self, key: bytes, version: int, done: Callable[[Outcome], None] | None, outcome: Outcome) -> None:
        if isinstance(outcome, ImmutableKey) and self.end_elsewhere(
            key, version, partial(self._decided, key, version, done)
        ):
            return
        if self._ending.get(key) == version:
            del self._ending[key]
        if isinstance(outcome, Committed):
            self.ended += 1
        found = self._counts.get(key)
        if found is not None and self.has_run_out(found):
            self._not_ended(key, found, version, outcome)
        self._set_timer()
        if done is not None:
            done(outcome)

    def _not_ended(self, key: bytes, found: LeaseCount, version: int, outcome: Outcome) -> None:
        """A later version may have kept the expiry: then that is to end. What was loaded at a start may be behind what
        is held."""
        newest = self._newest(key)
        if isinstance(outcome, VersionMismatch) and newest is not None and newest.version != found.version:
            self.follow(key, newest)
        if self._counts.get(key) is found:
            later_ms = AGAIN_MS if found.version == version else 0.0
            self._push(key, found, self._clock.now_ms() + later_ms)

    def put_in_front(self, key: bytes, version: int) -> Callable[[Outcome], None]:
        """Of a client's write, which is folded on top of it. Returns what takes the answer."""
        self._ending[key] = version
        return partial(self._decided, key, version, None)


def wait_ms(ttl_ms: int) -> float:
    """How long a replica waits before it may end a value."""
    return ttl_ms * (1 + DRIFT) + GRACE_MS


def end_of(key: bytes, version: int) -> Write:
    """The decision that a value is over: a tombstone on top of exactly this version."""
    return Write(key=key, value=None, mutable=True, if_version=version)


def not_elsewhere(_key: bytes, _version: int, _done: Callable[[Outcome], None]) -> bool:
    """The default of `Leases.end_elsewhere`."""
    return False
