"""Placement's rows, tuple-encoded. A datacenter's envoys are local to it: nothing here is replicated.

    (3, ENVOY, namespace, envoy_key, field)                                 what is known of an envoy
    (3, HASH, namespace, pool, -version, 16-byte position, envoy_key)       the ring
    (3, PINGS, namespace, pool, -version, last_ping_ts, envoy_key)          the same envoys by their last ping
    (3, ACTIVE, namespace, create_ts, envoy_key)                            envoys that are not expired
    (3, ACTIVE_BY_POOL, namespace, pool, create_ts, envoy_key)
    (3, EXPIRED, expired_ts, namespace, envoy_key)                          what is left of expired ones
    (3, POOL, namespace, pool, HIGHEST_VERSION)                             EnvoyPoolMeta
    (3, POOL, namespace, pool, -version, TOTAL_SLOTS | TOTAL_WEIGHT)        for the mean load
    (3, LEASE, name)                                                        the holder of a lease
    (3, CLOCK)                                                              a time that no timestamp here is beyond

The negative version brings the highest to the front. The value of a row on the ring is empty, or the envoy's weight and
capacity if they are not the defaults, so that no sample needs another read for them.
"""

from functools import lru_cache

from epoxy.codec.tuple import escape, pack, strinc, unpack
from epoxy.ports import Snapshot, Transaction
from epoxy.protocol.placement.records import Envoy, EnvoyId, EnvoyPool, EnvoyRegistration

# The codes are part of the format: never renumber. 1 and 2 are the layouts of a replica's own rows.
ROOT = 3
ENVOY, HASH, PINGS, ACTIVE, ACTIVE_BY_POOL, EXPIRED, POOL, LEASE, CLOCK = range(9)

FIELDS = tuple(pack((field,)) for field in range(13))
VERSION, PROTOCOL_VERSION, POOL_NAME, CREATE_TS, LAST_PING_TS, LAST_RTT, EXPIRED_TS = FIELDS[:7]
DRAINING_TS, VIRTUAL_NODES, WEIGHT, CAPACITY, SLOTS, INCARNATION = FIELDS[7:]
"""SLOTS comes after all fields that `load` reads, so that counting slots does not conflict with it. INCARNATION is read
only when an envoy connects."""

HIGHEST_VERSION, TOTAL_SLOTS, TOTAL_WEIGHT = FIELDS[:3]

CACHED = 4096
"""Pools whose prefixes are cached: a megabyte. Making one costs as much as a read."""

ACTIVE_ENVOYS = pack((ROOT, ACTIVE))
EXPIRED_ENVOYS = pack((ROOT, EXPIRED))
CLOCK_ROW = pack((ROOT, CLOCK))


def number(value: int) -> bytes:
    """In the encoding of the store's counters."""
    return value.to_bytes(8, "little", signed=True)


def as_number(value: bytes | None) -> int:
    return int.from_bytes(value or b"", "little", signed=True)


@lru_cache(CACHED)
def namespace_rows(namespace: str) -> bytes:
    return pack((ROOT, ENVOY, namespace))


def envoy_rows(namespace: str, envoy_key: str) -> bytes:
    """The bytes that `pack` would make. Not cached: there may be more envoys than a cache holds, and each allocation
    needs a few."""
    return b"%b\x02%b\x00" % (namespace_rows(namespace), escape(envoy_key.encode()))


@lru_cache(CACHED)
def pool_rows(index: int, pool: EnvoyPool) -> bytes:
    """The rows of a pool in one of the indexes."""
    return pack((ROOT, index, pool.namespace, pool.name))


@lru_cache(CACHED)
def version_rows(index: int, pool: EnvoyPool, version: int) -> bytes:
    return pack((ROOT, index, pool.namespace, pool.name, -version))


def meta_row(pool: EnvoyPool) -> bytes:
    return pool_rows(POOL, pool) + HIGHEST_VERSION


@lru_cache(CACHED)
def total_rows(pool: EnvoyPool, version: int) -> bytes:
    """Without the field. The nested tuple keeps them apart from the pool's own fields."""
    return pack((ROOT, POOL, pool.namespace, pool.name, (-version,)))


def hash_row(pool: EnvoyPool, version: int, position: bytes, envoy_key: str) -> bytes:
    return version_rows(HASH, pool, version) + pack((position, envoy_key))


def ping_row(pool: EnvoyPool, version: int, ping_ts: int, envoy_key: str) -> bytes:
    return version_rows(PINGS, pool, version) + pack((ping_ts, envoy_key))


def active_row(envoy: EnvoyId, create_ts: int) -> bytes:
    return pack((ROOT, ACTIVE, envoy.namespace, create_ts, envoy.key))


def active_by_pool_row(pool: EnvoyPool, create_ts: int, envoy_key: str) -> bytes:
    return pool_rows(ACTIVE_BY_POOL, pool) + pack((create_ts, envoy_key))


def expired_row(envoy: EnvoyId, expired_ts: int) -> bytes:
    return pack((ROOT, EXPIRED, expired_ts, envoy.namespace, envoy.key))


def lease_row(name: str) -> bytes:
    return pack((ROOT, LEASE, name))


def size_value(weight: int, capacity: int) -> bytes:
    return b"" if (weight, capacity) == (1, 0) else pack((weight, capacity))


def read_size(value: bytes) -> tuple[int, int]:
    """Weight and capacity."""
    if not value:
        return 1, 0
    weight, capacity = unpack(value)
    assert isinstance(weight, int)
    assert isinstance(capacity, int)
    return weight, capacity


def last_name(row: bytes, prefix: bytes) -> str:
    """The envoy's key, which every index ends with."""
    name = unpack(row[len(prefix) :])[-1]
    assert isinstance(name, str)
    return name


def owner(row: bytes, prefix: bytes) -> str:
    """The envoy's key in a row of the ring, after the position. Faster than `last_name`, because allocations call it
    most."""
    end = row.find(b"\x00", len(prefix) + 1)
    while row[end + 1] == 0xFF:
        end = row.find(b"\x00", end + 2)
    return row[end + 2 : -1].replace(b"\x00\xff", b"\x00").decode()


def first_number(row: bytes, prefix: bytes) -> int:
    """What follows the prefix in a row: the time of a ping, or a negative version."""
    number = unpack(row[len(prefix) :])[0]
    assert isinstance(number, int)
    return number


def version_of(row: bytes, prefix: bytes) -> int:
    return -first_number(row, prefix)


def load(view: Snapshot, namespace: str, envoy_key: str) -> Envoy | None:
    """Everything but the slots, in one read."""
    prefix = envoy_rows(namespace, envoy_key)
    found = {row[len(prefix) :]: value for row, value in view.range(prefix, prefix + SLOTS, limit=len(FIELDS))}
    if VERSION not in found:
        return None
    return Envoy(
        namespace=namespace,
        key=envoy_key,
        pool=found[POOL_NAME].decode(),
        version=as_number(found[VERSION]),
        protocol_version=as_number(found[PROTOCOL_VERSION]),
        weight=as_number(found[WEIGHT]),
        capacity=as_number(found[CAPACITY]),
        places=as_number(found.get(VIRTUAL_NODES)),
        create_ts=as_number(found[CREATE_TS]),
        last_ping_ts=as_number(found[LAST_PING_TS]),
        last_rtt_ms=as_number(found.get(LAST_RTT)),
        expired_ts=as_number(found[EXPIRED_TS]) if EXPIRED_TS in found else None,
        draining_ts=as_number(found[DRAINING_TS]) if DRAINING_TS in found else None,
    )


def describe(tx: Transaction, registration: EnvoyRegistration, create_ts: int, now_ms: int) -> None:
    """Write what an envoy says of itself."""
    prefix = envoy_rows(registration.namespace, registration.envoy_key)
    tx.set(prefix + POOL_NAME, registration.pool.encode())
    fields = (
        (VERSION, registration.version),
        (PROTOCOL_VERSION, registration.protocol_version),
        (CREATE_TS, create_ts),
        (LAST_PING_TS, now_ms),
        (WEIGHT, registration.weight),
        (CAPACITY, registration.capacity),
    )
    for field, value in fields:
        tx.set(prefix + field, number(value))
    tx.set(prefix + INCARNATION, registration.incarnation.encode())


def slots(view: Snapshot, envoy: EnvoyId) -> int:
    return as_number(view.get(envoy_rows(envoy.namespace, envoy.key) + SLOTS))


def incarnation(view: Snapshot, envoy: EnvoyId) -> str:
    """Which process the envoy is. Empty if its SDK sends none, or it connected before this row existed."""
    return (view.get(envoy_rows(envoy.namespace, envoy.key) + INCARNATION) or b"").decode()


def latest_time(view: Snapshot) -> int:
    """A time that no timestamp in this store is beyond."""
    return as_number(view.get(CLOCK_ROW))


def envoys_of(view: Snapshot, pool: EnvoyPool, after: bytes | None, limit: int) -> tuple[list[str], bytes | None]:
    """A page of a pool's active envoys, oldest first, and where the next page begins."""
    prefix = pool_rows(ACTIVE_BY_POOL, pool)
    found, more = page(view, prefix, after, limit)
    return [last_name(row, prefix) for row in found], more


def active_envoys(view: Snapshot, after: bytes | None, limit: int) -> tuple[list[EnvoyId], bytes | None]:
    """The same over all namespaces."""
    found, more = page(view, ACTIVE_ENVOYS, after, limit)
    return [envoy_of(row, 2) for row in found], more


def expired_before(view: Snapshot, before_ms: int, limit: int) -> list[EnvoyId]:
    found = view.range(EXPIRED_ENVOYS, EXPIRED_ENVOYS + pack((before_ms,)), limit=limit)
    return [envoy_of(row, 3) for row, _ in found]


def page(view: Snapshot, prefix: bytes, after: bytes | None, limit: int) -> tuple[list[bytes], bytes | None]:
    found = [row for row, _ in view.range(after or prefix, strinc(prefix), limit=limit)]
    return found, found[-1] + b"\x00" if len(found) == limit else None


def envoy_of(row: bytes, namespace_at: int) -> EnvoyId:
    """Of a row that ends with the envoy's key."""
    parts = unpack(row)
    namespace, envoy_key = parts[namespace_at], parts[-1]
    assert isinstance(namespace, str)
    assert isinstance(envoy_key, str)
    return EnvoyId(namespace, envoy_key)
