"""The actors of one datacenter, as rows of its store. Every function is a part of one transaction.

(4, ACTOR, id)                          the record
(4, NAME, namespace, name, key)         the id of the last actor of that name
(4, ON_ENVOY, namespace, envoy_key, id) the actors of an envoy
(4, PENDING, namespace, pool, id)       actors that wait for an envoy
(4, LOST, namespace, envoy_key)         an expired envoy whose actors have to move
(4, ALARM, time, id)                    when an alarm is looked at next
(4, DOOMED, id)                         the actor is destroyed and has ended, and its state is to be deleted
"""

from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from epoxy.actors import local_states
from epoxy.codec.tuple import pack, strinc, unpack
from epoxy.model.actors import ACTOR_ROWS, ActorEntry, ActorName, ActorState
from epoxy.model.errors import RottenRow
from epoxy.model.homes import HomeRecord, generation_of
from epoxy.ports import Snapshot, Transaction
from epoxy.protocol.placement import envoys
from epoxy.protocol.placement.allocator import Allocation
from epoxy.protocol.placement.records import EnvoyId, EnvoyPool

# The codes are part of the format: never renumber. Rows of 1 to 3 are replicas' and envoys', (4, 5) are states.
ROOT = ACTOR_ROWS
ACTOR, NAME, ON_ENVOY, PENDING, LOST = map(pack, ((ROOT, 0), (ROOT, 1), (ROOT, 2), (ROOT, 3), (ROOT, 4)))
ALARM, DOOMED = map(pack, ((ROOT, 6), (ROOT, 7)))

FORMAT = b"\x01"
"""The version of a record, in front of it."""

RELEASED = b"\x00"
"""In place of a lease: the actor was given up here, so that it can move. No incarnation is that short."""

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


def adopt(tx: Transaction, name: ActorName, record: HomeRecord, *, fresh: bool) -> ActorEntry:
    """The actor of a name that this datacenter has become the home of, by this record. `fresh`: the same record made
    the actor, so no generation of it was ever started. One that still runs here under an earlier lease has to end
    first, and is asked to (see `move`)."""
    known = load(tx, record.actor_id)
    if known is None:
        actor = ActorEntry(
            id=record.actor_id,
            name=name,
            pool=record.pool,
            state=ActorState.PENDING,
            generation=generation_of(record.epoch, 0),
            create_ts=record.create_ts,
            input=record.input,
            lease=record.lease,
            epoch=record.epoch,
            clean=fresh,
            saved=not fresh,
        )
        return succeed(tx, actor)
    if known.epoch > record.epoch or known.lease == record.lease:
        return known
    if not known.is_alive:
        # It was to be destroyed, and that was not decided before another datacenter took it over.
        ending = ActorState.PENDING if known.envoy_key is None else ActorState.MOVING
        known = replace(known, state=ending, input=record.input)
    actor = replace(known, lease=record.lease, epoch=record.epoch, clean=False, saved=True, not_before_ms=0)
    if actor.envoy_key is None:
        actor = replace(actor, state=ActorState.PENDING)
        tx.set(pending_row(actor), b"")
    elif actor.state is not ActorState.MOVING:
        actor = replace(actor, state=ActorState.MOVING)
    save(tx, actor)
    return actor


def succeed(tx: Transaction, actor: ActorEntry) -> ActorEntry:
    """A new actor takes the place of the last one of its name, and starts when that has ended."""
    last = tx.get(name_row(actor.name))
    known = load(tx, last) if last is not None else None
    after = still_ending(tx, known) if known is not None else None
    if last is not None and last != after:
        tx.clear(ACTOR + pack((last,)))
    actor = replace(actor, after=after)
    tx.set(name_row(actor.name), actor.id)
    tx.set(pending_row(actor), b"")
    save(tx, actor)
    return actor


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
        generation=max(actor.generation, generation_of(actor.epoch, 0)) + 1,
        counted=reserved,
        clean=False,
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


def sleep(tx: Transaction, actor: ActorEntry) -> ActorEntry:
    """On no envoy, and in no index: it costs its record until it is needed again."""
    if actor.envoy_key is not None:
        leave(tx, actor)
    else:
        tx.clear(pending_row(actor))
    actor = replace(actor, state=ActorState.ASLEEP, envoy_key=None, counted=False, not_before_ms=0, since_ms=0)
    save(tx, actor)
    return actor


def wake(tx: Transaction, actor: ActorEntry) -> ActorEntry:
    assert actor.state is ActorState.ASLEEP, actor
    actor = replace(actor, state=ActorState.PENDING)
    tx.set(pending_row(actor), b"")
    save(tx, actor)
    return actor


def set_alarm(tx: Transaction, actor: ActorEntry, alarm_ms: int, due_ms: int) -> ActorEntry:
    """`due_ms`: when it is looked at; at first, when it is due. 0 and 0: no alarm."""
    if actor.due_ms:
        tx.clear(alarm_row(actor.due_ms, actor.id))
    actor = replace(actor, alarm_ms=alarm_ms, due_ms=due_ms)
    if due_ms:
        tx.set(alarm_row(due_ms, actor.id), b"")
    save(tx, actor)
    return actor


def give_up(tx: Transaction, actor: ActorEntry) -> ActorEntry:
    """This datacenter is its home no longer. One on an envoy ends there first, and sleeps then."""
    actor = replace(actor, lease=RELEASED)
    if actor.envoy_key is None:
        return sleep(tx, actor)
    actor = replace(actor, state=ActorState.MOVING)
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
    """For ever. One that is on an envoy stays in its rows until it has ended there: the next of its name waits. It is
    given up: whether the name may be forgotten the home record tells."""
    if actor.due_ms:
        tx.clear(alarm_row(actor.due_ms, actor.id))
    if actor.envoy_key is None:
        tx.clear(pending_row(actor))
        delete_state(tx, actor)
    actor = replace(actor, state=ActorState.DESTROYED, input=b"", lease=RELEASED, alarm_ms=0, due_ms=0)
    save(tx, actor)
    return actor


def finish(tx: Transaction, actor: ActorEntry) -> ActorEntry:
    """A destroyed actor has ended on its envoy, or with it. Its record stays while it is the last one of its name."""
    assert not actor.is_alive, actor
    leave(tx, actor)
    delete_state(tx, actor)
    actor = replace(actor, envoy_key=None, counted=False)
    if tx.get(name_row(actor.name)) == actor.id:
        save(tx, actor)
    else:
        tx.clear(ACTOR + pack((actor.id,)))
    return actor


def delete_state(tx: Transaction, actor: ActorEntry) -> None:
    """When the actor has ended: a save of it could follow otherwise. The row has the version that it has left, if that
    is known."""
    if actor.saved and actor.local:
        tx.clear(local_states.row_of(actor.id))
    elif actor.saved:
        tx.set(doomed_row(actor.id), pack((actor.version if actor.clean else 0,)))


def mark_lost(tx: Transaction, envoy: EnvoyId) -> None:
    """In the transaction that expires the envoy. There may be more actors than one transaction should move."""
    prefix = envoy_rows(envoy)
    if tx.range(prefix, strinc(prefix), limit=1):
        tx.set(lost_row(envoy), b"")


def begin_saving(tx: Transaction, actor: ActorEntry, *, local: bool) -> ActorEntry:
    """Before its first save is written: from now on there may be a state, and it stays where the first one is."""
    actor = replace(actor, saved=True, local=local)
    save(tx, actor)
    return actor


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


def alarm_row(due_ms: int, actor_id: bytes) -> bytes:
    return ALARM + pack((due_ms, actor_id))


def doomed_row(actor_id: bytes) -> bytes:
    return DOOMED + pack((actor_id,))


def lost_row(envoy: EnvoyId) -> bytes:
    return LOST + pack((envoy.namespace, envoy.key))


def envoy_of(actor: ActorEntry) -> EnvoyId:
    assert actor.envoy_key is not None, actor
    return EnvoyId(actor.name.namespace, actor.envoy_key)


def last_id(row: bytes) -> bytes:
    actor_id = unpack(row)[-1]
    assert isinstance(actor_id, bytes)
    return actor_id
