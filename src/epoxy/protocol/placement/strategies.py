"""The three strategies for choosing an envoy. `hash` is for production; the other two are what it replaced, for
comparison and for pools whose ring is being rebuilt."""

from typing import assert_never

from epoxy.codec.tuple import pack, strinc
from epoxy.ports import Dice, Transaction
from epoxy.protocol.placement import allocator, rows
from epoxy.protocol.placement.allocator import Allocation, Candidate, Search
from epoxy.protocol.placement.config import PlacementConfig, Strategy
from epoxy.protocol.placement.records import EnvoyPool

PAGE_ROWS = 1000
"""Rows of a pool read at a time by `random_full_range`."""


def allocate(
    tx: Transaction, pool: EnvoyPool, config: PlacementConfig, now_ms: int, dice: Dice, version: int | None = None
) -> Allocation:
    match config.strategy:
        case Strategy.HASH:
            return allocator.allocate(tx, pool, config, now_ms, dice, version)
        case Strategy.RANDOM_PING_TIMESTAMP | Strategy.RANDOM_FULL_RANGE:
            if version is None and (version := allocator.discover(tx, pool, config)) is None:
                return Allocation(envoy_key=None)
            search = Search(tx, pool, version, config, now_ms)
            note_stale(search)
            by_ping = config.strategy is Strategy.RANDOM_PING_TIMESTAMP
            found = at_random_time(search, now_ms, dice) if by_ping else of_all(search, dice)
            return allocator.conclude(tx, search, () if found is None else (found,), 0, dice)
        case _:
            assert_never(config.strategy)


def note_stale(search: Search) -> None:
    """Collect the envoys whose last ping is too old: they come first in this index."""
    prefix = rows.version_rows(rows.PINGS, search.pool, search.version)
    for row, _ in search.view.range(prefix, prefix + pack((search.oldest_ms,)), limit=search.config.max_scan):
        search.scanned += 1
        search.stale[rows.last_name(row, prefix)] = None


def at_random_time(search: Search, now_ms: int, dice: Dice) -> Candidate | None:
    """The first row at or after a random time between the oldest fresh row (the head) and now; else the head."""
    prefix = rows.version_rows(rows.PINGS, search.pool, search.version)
    fresh, end = prefix + pack((search.oldest_ms,)), strinc(prefix)
    head = search.first(prefix, fresh, end, rows.last_name)
    if head is None:
        return None
    oldest_ms = rows.first_number(head.row, prefix)
    moment_ms = oldest_ms + int(dice.uniform() * (now_ms - oldest_ms + 1))
    found = search.first(prefix, prefix + pack((moment_ms,)), end, rows.last_name)
    if found is None:
        search.wraps += 1
    return found or head


def of_all(search: Search, dice: Dice) -> Candidate | None:
    """Uniform over the fresh rows. Reads all pages of them."""
    prefix = rows.version_rows(rows.PINGS, search.pool, search.version)
    begin, end = prefix + pack((search.oldest_ms,)), strinc(prefix)
    fresh: list[bytes] = []
    while True:
        page = search.view.range(begin, end, limit=PAGE_ROWS)
        fresh += [row for row, _ in page]
        if len(page) < PAGE_ROWS:
            break
        begin = page[-1][0] + b"\x00"
    search.scanned += len(fresh)
    while fresh and search.budget > 0:
        row = fresh.pop(int(dice.uniform() * len(fresh)))
        if (found := search.first(prefix, row, row + b"\x00", rows.last_name)) is not None:
            return found
    return None
