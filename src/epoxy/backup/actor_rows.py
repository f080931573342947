"""Actors in another cluster. The id of an actor ends with the label of the datacenter that owns its name: the id of a
replica, which may be another one in a new cluster. So ids are given the new label, in the keys that reserve names and
in the rows of the datacenter. No actor of the new cluster is on an envoy: all wait for one.

Rows of actors are read page by page while actors come and go: a record counts only if its name leads to it.
"""

from collections.abc import Mapping

from msgspec.structs import replace

from epoxy.actors import directory
from epoxy.codec import wire
from epoxy.codec.tuple import pack
from epoxy.model.actors import ID_BYTES, RESERVATION_KEYS, ActorEntry, ActorState, label_of
from epoxy.model.errors import BackupError
from epoxy.model.records import CommittedRecord

Labels = Mapping[int, int | None]
"""The label in the new cluster of each in the old one; None: actors that are left out."""


def owner_of(key: bytes, record: bytes) -> int | None:
    """The label of the datacenter that owns a reserved name; None: the key reserves none."""
    if not key.startswith(RESERVATION_KEYS):
        return None
    value = decoded(key, record).committed.value
    return label_of(value) if value is not None and len(value) == ID_BYTES else None


def relabelled_record(key: bytes, record: bytes, labels: Labels) -> bytes | None:
    """The record of a reserved name in the new cluster; None: left out."""
    label = owner_of(key, record)
    if label is None or labels[label] == label:
        return record
    found = decoded(key, record)
    value = found.committed.value
    assert value is not None
    actor_id = relabelled(value, labels)
    if actor_id is None:
        return None
    return wire.encode_committed_record(replace(found, committed=replace(found.committed, value=actor_id)))


def relabelled(actor_id: bytes, labels: Labels) -> bytes | None:
    label = labels.get(label_of(actor_id))
    return actor_id[:-2] + label.to_bytes(2, "big") if label is not None else None


def restored_actor(row: bytes, value: bytes, labels: Labels) -> ActorEntry | None:
    """None: the row is no record of an actor, or the actor is left out."""
    return waiting(directory.decode(value), labels) if row.startswith(directory.ACTOR) else None


def restored_name(row: bytes, value: bytes, labels: Labels) -> bytes | None:
    """The id of the last actor of a name; None: the row is no name, or left out. Rows of envoys are left out."""
    return relabelled(value, labels) if row.startswith(directory.NAME) else None


def record_row(actor_id: bytes) -> bytes:
    return directory.ACTOR + pack((actor_id,))


def waiting(actor: ActorEntry, labels: Labels) -> ActorEntry | None:
    actor_id = relabelled(actor.id, labels)
    if actor_id is None:
        return None
    return replace(
        actor,
        id=actor_id,
        state=ActorState.PENDING if actor.is_alive else actor.state,
        envoy_key=None,
        counted=False,
        failures=0,
        not_before_ms=0,
        since_ms=0,
        after=None,
    )


def decoded(key: bytes, record: bytes) -> CommittedRecord:
    try:
        return wire.decode_committed_record(record)
    except Exception as error:
        raise BackupError(f"the record of key {key!r} cannot be read: {error}") from error
