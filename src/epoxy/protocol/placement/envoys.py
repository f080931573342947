"""The life of an envoy, each step in one transaction: it connects, pings, takes and returns slots, drains, expires.

No committed state has an expired envoy with rows on the ring. So everything that places an envoy or withdraws it is
here, and what must happen together is one function of one transaction.
"""

from msgspec import Struct

from epoxy.codec.tuple import strinc
from epoxy.ports import Snapshot, Transaction
from epoxy.protocol.placement import rows
from epoxy.protocol.placement.records import Envoy, EnvoyId, EnvoyPool, EnvoyRegistration
from epoxy.protocol.placement.ring import positions

FORGET_AFTER_MS = 3_600_000
"""The rows of an expired envoy are kept for an hour: for status queries, and until its slots are returned."""


class Connected(Struct, frozen=True, kw_only=True):
    """`created`: not known before, or expired since. `was`: its former record if version or pool differ, which should
    not change during an envoy's life."""

    created: bool
    was: Envoy | None
    highest_version: int


class InUse(Struct, frozen=True, kw_only=True):
    """The key belongs to another process until its lease ends."""

    holder: str
    last_ping_ts: int


def active(view: Snapshot, envoy: EnvoyId) -> Envoy | None:
    """None if it is unknown or expired."""
    known = rows.load(view, envoy.namespace, envoy.key)
    return known if known is not None and known.expired_ts is None else None


def holder_of(tx: Transaction, registration: EnvoyRegistration) -> InUse | None:
    """The other process that holds this envoy's key. An envoy that is not expired may run actors, connected or not; two
    processes with one key would run the same actors with the same generation. A process without an incarnation, as of
    older SDKs, holds nothing."""
    if (known := active(tx, registration.id)) is None:
        return None
    holder = rows.incarnation(tx, registration.id)
    if holder in ("", registration.incarnation):
        return None
    return InUse(holder=holder, last_ping_ts=known.last_ping_ts)


def connect(tx: Transaction, registration: EnvoyRegistration, now_ms: int, virtual_nodes: int) -> Connected:
    """Idempotent, and repairs missing rows. A draining envoy stays off the ring; but draining belongs to a process, and
    ends with it."""
    known = rows.load(tx, registration.namespace, registration.envoy_key)
    revived = known is not None and known.expired_ts is not None
    same_process = registration.incarnation != "" and rows.incarnation(tx, registration.id) == registration.incarnation
    if revived and not same_process:
        tx.clear(rows.envoy_rows(registration.namespace, registration.envoy_key) + rows.DRAINING_TS)
    if known is not None:
        withdraw(tx, known)
        tx.clear(rows.active_by_pool_row(known.pool_id, known.create_ts, known.key))
    create_ts = now_ms if known is None or revived else known.create_ts
    rows.describe(tx, registration, create_ts, now_ms)
    tx.set(rows.active_row(registration.id, create_ts), b"")
    pool = registration.pool_id
    tx.set(rows.active_by_pool_row(pool, create_ts, registration.envoy_key), b"")
    if known is not None and known.expired_ts is not None:
        tx.clear(rows.envoy_rows(registration.namespace, registration.envoy_key) + rows.EXPIRED_TS)
        tx.clear(rows.expired_row(registration.id, known.expired_ts))
    envoy = rows.load(tx, registration.namespace, registration.envoy_key)
    assert envoy is not None
    if envoy.draining_ts is None:
        place(tx, envoy, virtual_nodes * registration.weight)
    moved = known is not None and (known.version, known.pool) != (registration.version, registration.pool)
    return Connected(
        created=known is None or revived,
        was=known if moved else None,
        highest_version=highest_version(tx, pool) or registration.version,
    )


def place(tx: Transaction, envoy: Envoy, places: int) -> None:
    """Put it on the ring. Its earlier places have been withdrawn before, so none are left over."""
    pool, size = envoy.pool_id, rows.size_value(envoy.weight, envoy.capacity)
    for position in positions(envoy.key, 0, places):
        tx.set(rows.hash_row(pool, envoy.version, position, envoy.key), size)
    tx.set(rows.envoy_rows(envoy.namespace, envoy.key) + rows.VIRTUAL_NODES, rows.number(places))
    tx.set(rows.ping_row(pool, envoy.version, envoy.last_ping_ts, envoy.key), size)
    count(tx, envoy, 1)
    if (highest_version(tx, pool) or -1) < envoy.version:
        tx.set(rows.meta_row(pool), rows.number(envoy.version))


def withdraw(tx: Transaction, envoy: Envoy) -> None:
    """Take it off the ring, with every place it was given, whatever V is now."""
    pool = envoy.pool_id
    tx.clear(rows.ping_row(pool, envoy.version, envoy.last_ping_ts, envoy.key))
    if envoy.places == 0:
        return
    for position in positions(envoy.key, 0, envoy.places):
        tx.clear(rows.hash_row(pool, envoy.version, position, envoy.key))
    tx.clear(rows.envoy_rows(envoy.namespace, envoy.key) + rows.VIRTUAL_NODES)
    count(tx, envoy, -1)
    if highest_version(tx, pool) == envoy.version:
        lower_meta(tx, pool)


def lower_meta(tx: Transaction, pool: EnvoyPool) -> None:
    """Set the highest version that is left. Called only when an envoy of the highest one goes."""
    prefix = rows.pool_rows(rows.HASH, pool)
    first = tx.range(prefix, strinc(prefix), limit=1)
    if not first:
        tx.clear(rows.meta_row(pool))
    elif (version := rows.version_of(first[0][0], prefix)) != highest_version(tx, pool):
        tx.set(rows.meta_row(pool), rows.number(version))


def highest_version(view: Snapshot, pool: EnvoyPool) -> int | None:
    value = view.get(rows.meta_row(pool))
    return rows.as_number(value) if value is not None else None


def count(tx: Transaction, envoy: Envoy, sign: int) -> None:
    """Add it to the totals of its pool and version (sign 1), or subtract it (-1)."""
    totals = rows.total_rows(envoy.pool_id, envoy.version)
    tx.add(totals + rows.TOTAL_WEIGHT, sign * envoy.weight)
    held = rows.slots(tx, envoy.id)
    if held:
        tx.add(totals + rows.TOTAL_SLOTS, sign * held)


def ping(tx: Transaction, envoy: EnvoyId, now_ms: int, rtt_ms: int) -> bool:
    """False: unknown or expired, so it must connect again. Touches no row of the ring."""
    if (known := active(tx, envoy)) is None:
        return False
    prefix = rows.envoy_rows(envoy.namespace, envoy.key)
    tx.set(prefix + rows.LAST_RTT, rows.number(rtt_ms))
    if now_ms <= known.last_ping_ts:
        return True
    tx.set(prefix + rows.LAST_PING_TS, rows.number(now_ms))
    if known.draining_ts is None:
        tx.clear(rows.ping_row(known.pool_id, known.version, known.last_ping_ts, known.key))
        size = rows.size_value(known.weight, known.capacity)
        tx.set(rows.ping_row(known.pool_id, known.version, now_ms, known.key), size)
    return True


def expire(tx: Transaction, envoy: EnvoyId, now_ms: int, *, unless_fresh_for_ms: int | None = None) -> bool:
    """Whether this call expired it. With `unless_fresh_for_ms` (skip_if_fresh) an envoy that pinged within that time
    stays: the ping is read in this transaction, so a concurrent one conflicts."""
    if (known := active(tx, envoy)) is None:
        return False
    if unless_fresh_for_ms is not None and known.is_fresh(now_ms, unless_fresh_for_ms):
        return False
    withdraw(tx, known)
    tx.clear(rows.active_row(envoy, known.create_ts))
    tx.clear(rows.active_by_pool_row(known.pool_id, known.create_ts, known.key))
    tx.set(rows.envoy_rows(envoy.namespace, envoy.key) + rows.EXPIRED_TS, rows.number(now_ms))
    tx.set(rows.expired_row(envoy, now_ms), b"")
    return True


def drain(tx: Transaction, envoy: EnvoyId, now_ms: int) -> bool:
    """It keeps its actors and gets no new ones. False: unknown or expired."""
    if (known := active(tx, envoy)) is None:
        return False
    if known.draining_ts is None:
        withdraw(tx, known)
        tx.set(rows.envoy_rows(envoy.namespace, envoy.key) + rows.DRAINING_TS, rows.number(now_ms))
    return True


def resume(tx: Transaction, envoy: EnvoyId, virtual_nodes: int) -> bool:
    """End draining."""
    if (known := active(tx, envoy)) is None:
        return False
    if known.draining_ts is not None:
        tx.clear(rows.envoy_rows(envoy.namespace, envoy.key) + rows.DRAINING_TS)
        place(tx, known, virtual_nodes * known.weight)
    return True


def forget(tx: Transaction, envoy: EnvoyId) -> bool:
    """Delete the rows of an expired envoy whose slots are returned."""
    known = rows.load(tx, envoy.namespace, envoy.key)
    if known is None or known.expired_ts is None or rows.slots(tx, envoy) != 0:
        return False
    prefix = rows.envoy_rows(envoy.namespace, envoy.key)
    tx.clear_range(prefix, strinc(prefix))
    tx.clear(rows.expired_row(envoy, known.expired_ts))
    return True


def add_slots(tx: Transaction, envoy: EnvoyId, delta: int) -> None:
    """Actors that started or ended. Whether the pool's total changes too depends on whether the envoy is on the ring,
    so a concurrent drain or expiry conflicts."""
    prefix = rows.envoy_rows(envoy.namespace, envoy.key)
    tx.add(prefix + rows.SLOTS, delta)
    if tx.get(prefix + rows.VIRTUAL_NODES) is None:
        return
    pool = EnvoyPool(envoy.namespace, (tx.get(prefix + rows.POOL_NAME) or b"").decode())
    version = rows.as_number(tx.get(prefix + rows.VERSION))
    tx.add(rows.total_rows(pool, version) + rows.TOTAL_SLOTS, delta)
