"""Lists of the actors of one datacenter, by the indexes of its directory."""

from collections.abc import Iterator

from epoxy.actors.directory import (
    ALARM,
    DOOMED,
    LOST,
    NAME,
    PENDING,
    envoy_rows,
    last_id,
    load,
    name_row,
    readable,
)
from epoxy.codec.tuple import pack, strinc, unpack
from epoxy.model.actors import ActorEntry
from epoxy.ports import Snapshot
from epoxy.protocol.placement.records import EnvoyId

PAGE_ROWS = 256


def page(
    view: Snapshot, namespace: str, name: str | None, after: bytes | None, limit: int, key_prefix: str = ""
) -> list[ActorEntry]:
    """Living actors in the order of their names, from the first one beyond `after`, which is one's id. `key_prefix`:
    how the keys of those with this name begin."""
    prefix = NAME + pack((namespace,) if name is None else (namespace, name))
    if key_prefix:
        assert name is not None, "keys are ordered within a name"
        prefix += pack((key_prefix,))[:-1]
    begin = prefix
    if after is not None and (last := load(view, after)) is not None:
        begin = max(prefix, name_row(last.name) + b"\x00")
    found: list[ActorEntry] = []
    while len(found) < limit:
        rows = view.range(begin, strinc(prefix), limit=limit)
        found += [actor for _, actor_id in rows if (actor := readable(view, actor_id)) is not None and actor.is_alive]
        if len(rows) < limit:
            break
        begin = rows[-1][0] + b"\x00"
    return found[:limit]


def on_envoy(view: Snapshot, envoy: EnvoyId, limit: int) -> list[ActorEntry]:
    prefix = envoy_rows(envoy)
    found = [readable(view, last_id(row)) for row, _ in view.range(prefix, strinc(prefix), limit=limit)]
    return [actor for actor in found if actor is not None]


def all_on_envoy(view: Snapshot, envoy: EnvoyId) -> list[ActorEntry]:
    """As many as its slots, which are limited when it connects."""
    rows = scan(view, envoy_rows(envoy), strinc(envoy_rows(envoy)))
    found = [readable(view, last_id(row)) for row in rows]
    return [actor for actor in found if actor is not None]


def scan(view: Snapshot, begin: bytes, end: bytes) -> Iterator[bytes]:
    while rows := view.range(begin, end, limit=PAGE_ROWS):
        for row, _ in rows:
            yield row
        begin = rows[-1][0] + b"\x00"


def pending_pools(view: Snapshot, after: bytes, limit: int) -> list[bytes]:
    """Where the rows of pools begin in which actors wait, from `after` on."""
    found: list[bytes] = []
    while len(found) < limit and (first := view.range(after, strinc(PENDING), limit=1)):
        _, _, namespace, pool, _ = unpack(first[0][0])
        found.append(PENDING + pack((namespace, pool)))
        after = strinc(found[-1])
    return found


def waiting(
    view: Snapshot, now_ms: int, limit: int, pool: bytes = PENDING, after: bytes = b""
) -> tuple[list[ActorEntry], bytes | None]:
    """Actors of a pool that may be given an envoy now, of the next `limit`, and the row to go on from."""
    rows = view.range(after or pool, strinc(pool), limit=limit)
    found = [readable(view, last_id(row)) for row, _ in rows]
    due = [actor for actor in found if actor is not None and actor.not_before_ms <= now_ms]
    return due, rows[-1][0] + b"\x00" if len(rows) == limit else None


def lost(view: Snapshot, limit: int) -> list[EnvoyId]:
    found = []
    for row, _ in view.range(LOST, strinc(LOST), limit=limit):
        _, _, namespace, envoy_key = unpack(row)
        assert isinstance(namespace, str)
        assert isinstance(envoy_key, str)
        found.append(EnvoyId(namespace, envoy_key))
    return found


def due_alarms(view: Snapshot, now_ms: int, limit: int) -> list[tuple[int, bytes]]:
    """Times and ids of actors whose alarm is to be looked at, the oldest first."""
    return [alarm_of(row) for row, _ in view.range(ALARM, ALARM + pack((now_ms + 1,)), limit=limit)]


def next_alarm(view: Snapshot) -> int | None:
    first = view.range(ALARM, strinc(ALARM), limit=1)
    return alarm_of(first[0][0])[0] if first else None


def alarm_of(row: bytes) -> tuple[int, bytes]:
    _, _, due_ms, actor_id = unpack(row)
    assert isinstance(due_ms, int)
    assert isinstance(actor_id, bytes)
    return due_ms, actor_id


def doomed(view: Snapshot, limit: int) -> list[tuple[bytes, int]]:
    """Destroyed actors whose state is to be deleted, and its version; 0: not known."""
    found: list[tuple[bytes, int]] = []
    for row, value in view.range(DOOMED, strinc(DOOMED), limit=limit):
        (version,) = unpack(value)
        assert isinstance(version, int)
        found.append((last_id(row), version))
    return found
