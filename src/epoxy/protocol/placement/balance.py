"""Which envoys hold too many actors: draining ones hold all of theirs too many, the others what exceeds their share."""

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


def limited(found: list[Excess], limit: int) -> list[Excess]:
    kept: list[Excess] = []
    for excess in found:
        if limit <= 0:
            break
        kept.append(Excess(min(limit, excess.actors), excess.envoy_key))
        limit -= excess.actors
    return kept
