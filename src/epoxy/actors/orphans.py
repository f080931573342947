"""Names with an alarm whose home is gone. Other names are taken over when they are asked for; an alarm does not ask.

When the lease of a datacenter is gone, or this one has got a lease or workers of another pool, all names that this
replica knows are looked through, a page in a turn of the event loop. States are held by every replica, so whether one
has an alarm is known here. Of the datacenters with workers of its pool the next in a circle after the old home takes a
name over; the one after that a look later, if the name is still without a home.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import cast

from msgspec import Struct

from epoxy.actors.home_changes import HomeChanges, is_legacy
from epoxy.codec import home_records
from epoxy.codec.tuple import unpack
from epoxy.model.actors import RESERVATION_KEYS, ActorName
from epoxy.model.errors import CodecError
from epoxy.model.homes import HOME_KEYS, HomeRecord, state_key
from epoxy.model.records import Proposal
from epoxy.ports import Clock, KeyEngine, Timer

PAGE = 256
"""Names in a turn: some milliseconds."""

AT_ONCE = 64
"""Names that are taken over at a time."""

MAX_SHOWN = 10
"""Names without a home that are told by name: enough to see which datacenter and which pools it is about."""

LOOKS = 3
"""Within the time to live of a lease."""

Names = Callable[[bytes, bytes | None, int], Sequence[tuple[bytes, Proposal]]]
"""Keys of this replica that begin with a prefix, from the first one beyond a key, at most so many."""

Settle = Callable[[ActorName, Callable[[], None]], None]
"""Find out who is home, and become it if no datacenter is; then call back."""


class HomelessNames(Struct):
    """Those whose home is gone and that no datacenter has taken over, by what this replica knows; the first of them
    with their records."""

    count: int = 0
    first: list[tuple[ActorName, HomeRecord]] = []


class Orphans:
    def __init__(self, changes: HomeChanges, keys: KeyEngine, clock: Clock, names: Names, settle: Settle) -> None:
        self._changes = changes
        self._keys = keys
        self._clock = clock
        self._names = names
        self._settle = settle
        self._timer: Timer | None = None
        self._seen: object = None
        self._rank = 0
        """Of those that are taken over now: all below it have had their turn."""
        self._scanning = False
        self._waiting: list[ActorName] = []
        self._asking: list[Callable[[HomelessNames], None]] = []
        self._under_way = 0

    def start(self) -> None:
        self._look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer = self._clock.call_later(self._changes.lease.ttl_ms / LOOKS, self._look)
        lease = self._changes.lease.held()
        if lease is None or self._scanning:
            return
        members = sorted(self._changes.members())
        known = [self._changes.leases.known(label) for label in members]
        held = [each.incarnation if each is not None else None for each in known]
        seen = (lease, members, held, self._changes.hosting.pools())
        self._rank = self._rank + 1 if seen == self._seen else 0
        self._seen = seen
        if self._rank <= len(members):
            self._scanning = True
            self._scan(self._take_if_mine, self._scanned)

    def _scanned(self) -> None:
        self._scanning = False

    def _take_if_mine(self, name: ActorName, record: HomeRecord) -> None:
        if self._is_homeless(record) and self._has_alarm(record) and self._is_mine(name, record):
            self._waiting.append(name)
            self._take()

    def homeless(self, told: Callable[[HomelessNames], None]) -> None:
        """For people: those that wait to be asked for, with an alarm or without. Questions at the same time share one
        look through all names."""
        self._asking.append(told)
        if len(self._asking) > 1:
            return
        found = HomelessNames()

        def look(name: ActorName, record: HomeRecord) -> None:
            if self._is_gone(record):
                found.count += 1
                found.first += [(name, record)] if len(found.first) < MAX_SHOWN else []

        def tell() -> None:
            asking, self._asking = self._asking, []
            for each in asking:
                each(found)

        self._scan(look, tell)

    def _is_gone(self, record: HomeRecord) -> bool:
        """Whether no datacenter would answer for it unless it takes it over. One that is back takes its own again, and
        one of an earlier version has no lease."""
        if record.label == self._changes.label:
            return self._changes.lease.held() is None
        is_older_member = is_legacy(record) and record.label in self._changes.members()
        return not is_older_member and self._changes.leases.known(record.label) is None

    def _scan(
        self,
        look: Callable[[ActorName, HomeRecord], None],
        done: Callable[[], None],
        prefix: bytes = RESERVATION_KEYS,
        after: bytes | None = None,
    ) -> None:
        """All names that have an actor, a page in a turn."""
        page = self._names(prefix, after, PAGE)
        for name, record in self._records(prefix, page):
            look(name, record)
        if len(page) == PAGE:
            self._clock.call_later(0, lambda: self._scan(look, done, prefix, page[-1][0]))
        elif prefix == RESERVATION_KEYS:
            self._clock.call_later(0, lambda: self._scan(look, done, HOME_KEYS, None))
        else:
            done()

    def _records(self, prefix: bytes, page: Sequence[tuple[bytes, Proposal]]) -> Iterator[tuple[ActorName, HomeRecord]]:
        for key, committed in page:
            name = name_in(key, prefix)
            if committed.value is None or (prefix == RESERVATION_KEYS and self._has_moved(name)):
                continue
            try:
                record = home_records.decode_home(committed.value)
            except CodecError:
                continue
            if record.alive:
                yield name, record

    def _has_moved(self, name: ActorName) -> bool:
        return self._keys.peek(home_records.home_key(name)) is not None

    def _is_homeless(self, record: HomeRecord) -> bool:
        """A datacenter that is back takes its own names again."""
        if record.label == self._changes.label:
            return record.lease != self._changes.lease.held()
        return self._changes.leases.known(record.label) is None

    def _has_alarm(self, record: HomeRecord) -> bool:
        here = self._keys.peek(state_key(record.actor_id))
        if here is None or here.value is None:
            return False
        try:
            return home_records.decode_state(here.value).alarm_ms != 0
        except CodecError:
            return False

    def _is_mine(self, name: ActorName, record: HomeRecord) -> bool:
        places = self._changes.places_with_workers(name.namespace, record.pool)
        in_turn = sorted(places, key=lambda label: (label < record.label, label))
        return self._changes.label in in_turn[: self._rank + 1]

    def _take(self) -> None:
        while self._waiting and self._under_way < AT_ONCE:
            self._under_way += 1
            self._settle(self._waiting.pop(), self._taken)

    def _taken(self) -> None:
        self._under_way -= 1
        self._take()


def name_in(key: bytes, prefix: bytes) -> ActorName:
    return ActorName(*cast(tuple[str, str, str], unpack(key[len(prefix) :])))
