"""The actors of one datacenter, as rows of its store. Every function is a part of one transaction.

(4, ACTOR, id)                          the record
(4, NAME, namespace, name, key)         the id of the last actor of that name
(4, ON_ENVOY, namespace, envoy_key, id) the actors of an envoy
(4, PENDING, namespace, pool, id)       actors that wait for an envoy
(4, LOST, namespace, envoy_key)         an expired envoy whose actors have to move
"""

from collections.abc import Callable, Iterator

import msgspec
from msgspec.structs import replace

from epoxy.codec.tuple import pack, strinc, unpack
from epoxy.model.actors import ACTOR_ROWS, ActorEntry, ActorName, ActorState
from epoxy.model.errors import RottenRow
from epoxy.ports import Snapshot, Transaction
from epoxy.protocol.placement import envoys
from epoxy.protocol.placement.allocator import Allocation
from epoxy.protocol.placement.records import EnvoyId, EnvoyPool

# The codes are part of the format: never renumber. 1 to 3 are replicas' and envoys' rows.
ROOT = ACTOR_ROWS
ACTOR, NAME, ON_ENVOY, PENDING, LOST = map(pack, ((ROOT, 0), (ROOT, 1), (ROOT, 2), (ROOT, 3), (ROOT, 4)))

FORMAT = b"\x01"
"""The version of a record, in front of it."""

PAGE_ROWS = 256

RETRY_MS = 1_000
MAX_RETRY_MS = 60_000
"""An actor that fails is started again after a second, then two, then four, up to a minute."""

STEADY_MS = 60_000
"""An actor that ran for so long before it failed begins with the first pause again. As long as the longest pause: one
that fails sooner each time would run more often than it waits."""

encoder = msgspec.msgpack.Encoder()
decoder = msgspec.msgpack.Decoder(ActorEntry)

Choose = Callable[[Transaction, EnvoyPool], Allocation]
"""An envoy with room, in this transaction."""


def load(view: Snapshot, actor_id: bytes) -> ActorEntry | None:
    value = view.get(ACTOR + pack((actor_id,)))
    return decode(value) if value is not None else None


def decode(value: bytes) -> ActorEntry:
    assert value.startswith(FORMAT), value[:1]
    return decoder.decode(value[1:])


def encode(actor: ActorEntry) -> bytes:
    return FORMAT + encoder.encode(actor)


def readable(view: Snapshot, actor_id: bytes) -> ActorEntry | None:
    """For work on many actors: one whose record is rotten is left as it is. Requests that name it are refused."""
    try:
        return load(view, actor_id)
    except RottenRow:
        return None


def named(view: Snapshot, name: ActorName) -> ActorEntry | None:
    """The last actor of a name, perhaps destroyed."""
    actor_id = view.get(name_row(name))
    return load(view, actor_id) if actor_id is not None else None


def page(view: Snapshot, namespace: str, name: str | None, after: bytes | None, limit: int) -> list[ActorEntry]:
    """Living actors in the order of their names, from the first one beyond `after`, which is one's id."""
    prefix = NAME + pack((namespace,) if name is None else (namespace, name))
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


def waiting(view: Snapshot, now_ms: int, limit: int, after: bytes = PENDING) -> tuple[list[ActorEntry], bytes | None]:
    """Actors that may be given an envoy now, and the row to go on from."""
    rows = view.range(after, strinc(PENDING), limit=limit)
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


def ensure(
    tx: Transaction, reserved: bytes, fresh: bytes, name: ActorName, pool: str, given: bytes, now_ms: int
) -> tuple[ActorEntry, bool]:
    """The living actor of a name, and whether it is new. The first one has the id that was reserved, so two requests
    that finish the same reservation make the same actor; later ones get a `fresh` id, and start when the one before
    has ended."""
    last = tx.get(name_row(name))
    known = load(tx, last) if last is not None else None
    if known is not None and known.is_alive:
        return known, False
    after = still_ending(tx, known) if known is not None else None
    if last is not None and last != after:
        tx.clear(ACTOR + pack((last,)))
    actor = ActorEntry(
        id=reserved if last is None else fresh,
        name=name,
        pool=pool,
        state=ActorState.PENDING,
        generation=0,
        create_ts=now_ms,
        input=given,
        after=after,
    )
    tx.set(name_row(name), actor.id)
    tx.set(pending_row(actor), b"")
    save(tx, actor)
    return actor, True


def still_ending(view: Snapshot, destroyed: ActorEntry) -> bytes | None:
    """The actor of the name that an envoy has not ended yet: this one, or the one it waited for itself."""
    if destroyed.envoy_key is not None:
        return destroyed.id
    before = load(view, destroyed.after) if destroyed.after is not None else None
    return before.id if before is not None and before.envoy_key is not None else None


def must_wait(view: Snapshot, actor: ActorEntry) -> bool:
    """For the last actor of its name to end."""
    before = load(view, actor.after) if actor.after is not None else None
    return before is not None and before.envoy_key is not None


def assign(tx: Transaction, actor: ActorEntry, choose: Choose, *, reserved: bool) -> tuple[ActorEntry, Allocation]:
    """Give a waiting actor to an envoy, if there is one. `reserved`: choosing has counted it."""
    assert actor.state is ActorState.PENDING, actor
    allocation = choose(tx, EnvoyPool(actor.name.namespace, actor.pool))
    if allocation.envoy_key is None:
        return actor, allocation
    tx.clear(pending_row(actor))
    actor = replace(
        actor,
        state=ActorState.STARTING,
        envoy_key=allocation.envoy_key,
        generation=actor.generation + 1,
        counted=reserved,
    )
    tx.set(envoy_row(actor), b"")
    save(tx, actor)
    return actor, allocation


def release(tx: Transaction, actor: ActorEntry, *, failed: bool, now_ms: int) -> ActorEntry:
    """Its envoy does not have it any more, and it waits for another. The pauses after failures begin anew only if it
    ran for STEADY_MS: to have started is no proof that its code works."""
    leave(tx, actor)
    ran_ms = now_ms - actor.since_ms if actor.since_ms else 0
    failures = (0 if ran_ms >= STEADY_MS else actor.failures) + failed
    pause_ms = min(MAX_RETRY_MS, RETRY_MS << min(failures - 1, 16)) if failed else 0
    actor = replace(
        actor,
        state=ActorState.PENDING,
        envoy_key=None,
        counted=False,
        failures=failures,
        not_before_ms=now_ms + pause_ms,
        since_ms=0,
    )
    tx.set(pending_row(actor), b"")
    save(tx, actor)
    return actor


def leave(tx: Transaction, actor: ActorEntry) -> None:
    tx.clear(envoy_row(actor))
    if actor.counted:
        envoys.add_slots(tx, envoy_of(actor), -1)


def started(tx: Transaction, actor: ActorEntry, now_ms: int) -> ActorEntry:
    """Its envoy reports that it runs. It is counted in the envoy's slots, unless choosing did that."""
    if not actor.counted:
        envoys.add_slots(tx, envoy_of(actor), 1)
    if actor.state is ActorState.STARTING:
        actor = replace(actor, state=ActorState.RUNNING, since_ms=now_ms)
    actor = replace(actor, counted=True)
    save(tx, actor)
    return actor


def move(tx: Transaction, actor: ActorEntry) -> ActorEntry:
    """Its envoy is to stop it; when that has happened it is released."""
    actor = replace(actor, state=ActorState.MOVING)
    save(tx, actor)
    return actor


def destroy(tx: Transaction, actor: ActorEntry) -> ActorEntry:
    """For ever. One that is on an envoy stays in its rows until it has ended there: the next of its name waits."""
    if actor.envoy_key is None:
        tx.clear(pending_row(actor))
    actor = replace(actor, state=ActorState.DESTROYED, input=b"")
    save(tx, actor)
    return actor


def finish(tx: Transaction, actor: ActorEntry) -> ActorEntry:
    """A destroyed actor has ended on its envoy, or with it. Its record stays while it is the last one of its name."""
    assert not actor.is_alive, actor
    leave(tx, actor)
    actor = replace(actor, envoy_key=None, counted=False)
    if tx.get(name_row(actor.name)) == actor.id:
        save(tx, actor)
    else:
        tx.clear(ACTOR + pack((actor.id,)))
    return actor


def mark_lost(tx: Transaction, envoy: EnvoyId) -> None:
    """In the transaction that expires the envoy. There may be more actors than one transaction should move."""
    prefix = envoy_rows(envoy)
    if tx.range(prefix, strinc(prefix), limit=1):
        tx.set(lost_row(envoy), b"")


def clear_lost(tx: Transaction, envoy: EnvoyId) -> None:
    tx.clear(lost_row(envoy))


def speaks_of(actor: ActorEntry, envoy: EnvoyId, generation: int) -> bool:
    """Whether a message of an envoy is about the actor as it is now, and not about an earlier generation."""
    return actor.envoy_key is not None and (envoy_of(actor), actor.generation) == (envoy, generation)


def save(tx: Transaction, actor: ActorEntry) -> None:
    tx.set(ACTOR + pack((actor.id,)), encode(actor))


def name_row(name: ActorName) -> bytes:
    return NAME + pack((name.namespace, name.name, name.key))


def envoy_rows(envoy: EnvoyId) -> bytes:
    return ON_ENVOY + pack((envoy.namespace, envoy.key))


def envoy_row(actor: ActorEntry) -> bytes:
    return envoy_rows(envoy_of(actor)) + pack((actor.id,))


def pending_row(actor: ActorEntry) -> bytes:
    return PENDING + pack((actor.name.namespace, actor.pool, actor.id))


def lost_row(envoy: EnvoyId) -> bytes:
    return LOST + pack((envoy.namespace, envoy.key))


def envoy_of(actor: ActorEntry) -> EnvoyId:
    assert actor.envoy_key is not None, actor
    return EnvoyId(actor.name.namespace, actor.envoy_key)


def last_id(row: bytes) -> bytes:
    actor_id = unpack(row)[-1]
    assert isinstance(actor_id, bytes)
    return actor_id
