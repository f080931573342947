"""Which envoys hold too many actors: draining ones hold all of theirs too many, the others what exceeds their share;
and which hold actors that a higher version of the code could have."""

from msgspec import Struct

from epoxy.ports import Snapshot
from epoxy.protocol.placement import rows
from epoxy.protocol.placement.records import Envoy, EnvoyPool

PAGE_ENVOYS = 1000
"""Read at a time. A whole pool is read, so call this rarely."""

DEFAULT_BOUND_PERCENT = 25
"""Without a load bound an envoy is hot above 1.25 times its share: less would move actors because of random
variation."""


class Excess(Struct, frozen=True, order=True):
    actors: int
    envoy_key: str


class EnvoyLoad(Struct, frozen=True):
    envoy: Envoy
    slots: int


def loads(view: Snapshot, pool: EnvoyPool) -> list[EnvoyLoad]:
    """Of all envoys of a pool that are not expired."""
    found: list[EnvoyLoad] = []
    after: bytes | None = None
    while True:
        page, after = rows.envoys_of(view, pool, after, PAGE_ENVOYS)
        for key in page:
            envoy = rows.load(view, pool.namespace, key)
            if envoy is not None:
                found.append(EnvoyLoad(envoy, rows.slots(view, envoy.id)))
        if after is None:
            return found


def excesses(view: Snapshot, pool: EnvoyPool, bound_percent: int, limit: int) -> list[Excess]:
    """How many actors should move, largest excess first, at most `limit` in all. A bound of 0 is the default one."""
    held = loads(view, pool)
    placed = [load for load in held if load.envoy.places]
    weights, total = sum(load.envoy.weight for load in placed), sum(load.slots for load in placed)
    percent = 100 + (bound_percent or DEFAULT_BOUND_PERCENT)
    found: list[Excess] = []
    for load in held:
        allowed = -(-percent * total * load.envoy.weight // (100 * weights)) if load.envoy.places else 0
        if weights and load.slots > allowed:
            found.append(Excess(load.slots - allowed, load.envoy.key))
    return limited(sorted(found, reverse=True), limit)


def outdated(view: Snapshot, pool: EnvoyPool, oldest_ms: int, limit: int) -> list[Excess]:
    """How many actors of each envoy could move to the highest version of the pool, at most `limit` of each and no more
    in all than that version has room for: an actor that finds none there would wait, while the old code could serve
    it. Envoys whose last ping is before `oldest_ms` offer no room."""
    held = loads(view, pool)
    fresh = [load for load in held if load.envoy.places and load.envoy.last_ping_ts >= oldest_ms]
    highest = max((load.envoy.version for load in fresh), default=0)
    targets = [load for load in fresh if load.envoy.version == highest]
    if any(load.envoy.capacity == 0 for load in targets):
        room = len(held) * limit
    else:
        room = sum(max(0, load.envoy.capacity - load.slots) for load in targets)
    found = [
        Excess(min(limit, load.slots), load.envoy.key)
        for load in held
        if load.envoy.version < highest and load.slots and load.envoy.draining_ts is None
    ]
    return limited(sorted(found, reverse=True), room)


def limited(found: list[Excess], limit: int) -> list[Excess]:
    kept: list[Excess] = []
    for excess in found:
        if limit <= 0:
            break
        kept.append(Excess(min(limit, excess.actors), excess.envoy_key))
        limit -= excess.actors
    return kept
