"""Chooses an envoy: a random place on the ring and the first live envoy after it; with K samples, the one of K with the
fewest actors.

Reads when nothing is stale and no two samples hit the same envoy: the highest version (none if the caller knows it)
and, for each sample, one row of the ring, one ping and, if there is something to compare, one number of slots: 3 with
one sample, 7 with two; 2 and 6 with a known version.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct

from epoxy.codec.tuple import pack_bytes, strinc
from epoxy.ports import Dice, KeyValue, Snapshot, Transaction
from epoxy.protocol.placement import rows
from epoxy.protocol.placement.config import PlacementConfig
from epoxy.protocol.placement.records import EnvoyPool

Name = Callable[[bytes, bytes], str]


class Allocation(Struct, frozen=True, kw_only=True):
    """The result of one search. `envoy_key` None: no envoy can take the actor. `stale`: envoys that were passed over;
    the caller passes them to the expiry scheduler, which does not change this result.

    `scanned`: rows read in all; `wraps`: around the end of the ring; `candidates`: different envoys compared;
    `repeated`: samples that hit one of them again; `tied`: several had the fewest slots.
    """

    envoy_key: str | None
    version: int = 0
    stale: tuple[str, ...] = ()
    scanned: int = 0
    wraps: int = 0
    candidates: int = 0
    repeated: int = 0
    tied: bool = False


class Candidate(Struct, frozen=True):
    envoy_key: str
    row: bytes
    weight: int
    slots: int


class Search:
    """One allocation: what it reads, and the budget it has left. The budget is shared by all samples and by the wrap
    around the end of the ring, so a drained pool costs at most `max_scan` rows."""

    def __init__(self, tx: Transaction, pool: EnvoyPool, version: int, config: PlacementConfig, now_ms: int) -> None:
        self.view: Snapshot = tx.snapshot if config.use_snapshot_read else tx
        self.pool = pool
        self.version = version
        self.config = config
        self.oldest_ms = now_ms - config.eligible_threshold_ms
        self.budget = config.max_scan
        self.scanned = 0
        self.wraps = 0
        self.stale: dict[str, None] = {}
        self._judged: dict[str, Candidate | None] = {}
        self._share = self._mean() if config.load_bound_percent else None

    def first(self, prefix: bytes, begin: bytes, end: bytes, name: Name = rows.owner) -> Candidate | None:
        """The first envoy of a range that may take an actor. `name` reads its key out of a row."""
        for row, value in self._walk(begin, end):
            self.scanned += 1
            envoy_key = name(row, prefix)
            if envoy_key not in self._judged:
                self._judged[envoy_key] = self._judge(envoy_key, row, value)
            if (found := self._judged[envoy_key]) is not None:
                return found
            self.budget -= 1
            if self.budget <= 0:
                return None
        return None

    def around(self, prefix: bytes, pivot: bytes) -> Candidate | None:
        """From the pivot to the end of the ring, then from its beginning."""
        found = self.first(prefix, pivot, strinc(prefix))
        if found is None and self.budget > 0:
            self.wraps += 1
            found = self.first(prefix, prefix, pivot)
        return found

    def _walk(self, begin: bytes, end: bytes) -> Iterator[KeyValue]:
        """One row first, which is usually enough; then more at a time, never more than the budget."""
        page = 1
        while begin < end:
            found = self.view.range(begin, end, limit=page)
            yield from found
            if len(found) < page or self.budget <= 0:
                return
            begin = found[-1][0] + b"\x00"
            page = min(2 * page, self.budget)

    def _judge(self, envoy_key: str, row: bytes, value: bytes) -> Candidate | None:
        prefix = rows.envoy_rows(self.pool.namespace, envoy_key)
        ping = self.view.get(prefix + rows.LAST_PING_TS)
        if ping is None or rows.as_number(ping) < self.oldest_ms:
            self.stale[envoy_key] = None
            return None
        weight, capacity = rows.read_size(value)
        if not (self.config.compares_slots or capacity):
            return Candidate(envoy_key, row, weight, 0)
        slots = rows.as_number(self.view.get(prefix + rows.SLOTS))
        if (capacity and slots >= capacity) or (self._share is not None and slots >= self._share(weight)):
            return None
        return Candidate(envoy_key, row, weight, slots)

    def _mean(self) -> Callable[[int], int]:
        """The most that an envoy of some weight may hold: (1 + epsilon) times its share of all actors including the new
        one, rounded up, so that there is always an envoy below it."""
        totals = rows.total_rows(self.pool, self.version)
        total = rows.as_number(self.view.get(totals + rows.TOTAL_SLOTS)) + 1
        weights = max(1, rows.as_number(self.view.get(totals + rows.TOTAL_WEIGHT)))
        percent = 100 + self.config.load_bound_percent
        return lambda weight: -(-percent * total * weight // (100 * weights))


def allocate(
    tx: Transaction, pool: EnvoyPool, config: PlacementConfig, now_ms: int, dice: Dice, version: int | None = None
) -> Allocation:
    """By hash. `version`: the highest one, if the caller knows it."""
    if version is None and (version := discover(tx, pool, config)) is None:
        return Allocation(envoy_key=None)
    search = Search(tx, pool, version, config, now_ms)
    prefix = rows.version_rows(rows.HASH, pool, version)
    found: dict[str, Candidate] = {}
    repeated = 0
    for _ in range(config.samples):
        if search.budget <= 0:
            break
        candidate = search.around(prefix, prefix + pack_bytes(pivot(dice)))
        if candidate is None:
            break
        repeated += candidate.envoy_key in found
        found[candidate.envoy_key] = candidate
    return conclude(tx, search, tuple(found.values()), repeated, dice)


def pivot(dice: Dice) -> bytes:
    return (dice.nonce() << 64 | dice.nonce()).to_bytes(16, "big")


def discover(tx: Transaction, pool: EnvoyPool, config: PlacementConfig) -> int | None:
    """The highest version: that of the first row by pings."""
    prefix = rows.pool_rows(rows.PINGS, pool)
    view = tx.snapshot if config.use_snapshot_read else tx
    first = view.range(prefix, strinc(prefix), limit=1)
    return rows.version_of(first[0][0], prefix) if first else None


def conclude(
    tx: Transaction, search: Search, candidates: tuple[Candidate, ...], repeated: int, dice: Dice
) -> Allocation:
    chosen, tied = choose(candidates, search.config.slot_jitter, dice)
    if chosen is not None:
        if search.config.use_snapshot_read:
            # The only read conflict: if this envoy leaves before the commit, the allocation is tried again.
            tx.add_read_conflict(chosen.row, chosen.row + b"\x00")
        if search.config.reserve_slots:
            reserve(tx, search, chosen)
    return Allocation(
        envoy_key=chosen.envoy_key if chosen is not None else None,
        version=search.version,
        stale=tuple(search.stale),
        scanned=search.scanned,
        wraps=search.wraps,
        candidates=len(candidates),
        repeated=repeated,
        tied=tied,
    )


def choose(candidates: tuple[Candidate, ...], jitter: int, dice: Dice) -> tuple[Candidate | None, bool]:
    """The fewest slots for its weight. Jitter keeps allocations that read the same old counts from choosing the same
    envoy; ties are broken at random, or an empty pool would fill up in the order of the ring."""
    if len(candidates) < 2:
        return (candidates[0] if candidates else None), False
    scores = [(each.slots + int(jitter * dice.uniform())) / each.weight for each in candidates]
    least = min(scores)
    tied = [each for each, score in zip(candidates, scores, strict=True) if score == least]
    return tied[int(len(tied) * dice.uniform())], len(tied) > 1


def reserve(tx: Transaction, search: Search, chosen: Candidate) -> None:
    """Counted in the transaction that chose, so that the next one sees it. With a load bound the count must not have
    changed since it was read."""
    slots = rows.envoy_rows(search.pool.namespace, chosen.envoy_key) + rows.SLOTS
    if search.config.load_bound_percent:
        tx.add_read_conflict(slots, slots + b"\x00")
    tx.add(slots, 1)
    tx.add(rows.total_rows(search.pool, search.version) + rows.TOTAL_SLOTS, 1)
