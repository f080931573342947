"""Actors in another cluster. The id of an actor ends with the label of the datacenter that made it, and its home record
names the label of its home: ids of replicas, which may be others in a new cluster. So both are given the new labels, in
the keys of names, homes and states, and in the rows of the datacenter. No actor of the new cluster is on an envoy, and
no home is under a lease: each is taken when it is needed, and the state is raised then.

A name belongs to the label in its newest record. Reservations come first in a file, then homes, then states.

Rows of actors are read page by page while actors come and go: a record counts only if its name leads to it.
"""

from collections import Counter
from collections.abc import Mapping

from msgspec.structs import replace

from epoxy.actors import directory, local_states
from epoxy.codec import home_records, wire
from epoxy.codec.tuple import pack
from epoxy.model.actors import ID_BYTES, RESERVATION_KEYS, ActorEntry, ActorState, label_of
from epoxy.model.errors import BackupError, CodecError
from epoxy.model.homes import HOME_KEYS, STATE_KEYS, HomeRecord
from epoxy.model.records import CommittedRecord

Labels = Mapping[int, int | None]
"""The label in the new cluster of each in the old one; None: actors that are left out."""


class NameOwners:
    """Finds the labels that own names. `moved`: names whose home is another than the one that reserved them."""

    def __init__(self) -> None:
        self._reserved: dict[bytes, int] = {}
        self.moved: dict[bytes, int] = {}

    def take(self, key: bytes, record: bytes) -> None:
        """In the order of keys."""
        name, home = name_in(key), home_in(key, record)
        if name is None or home is None:
            return
        if key.startswith(RESERVATION_KEYS):
            self._reserved[name] = home.label
        elif self._reserved.get(name) != home.label:
            self.moved[name] = home.label

    def counts(self) -> dict[int, int]:
        """How many names each label owns."""
        return dict(Counter((self._reserved | self.moved).values()))


class ActorKeys:
    """The cluster's own keys in the new cluster, in the order of a file. `moved`: as `NameOwners` has found them."""

    def __init__(self, labels: Labels, moved: Mapping[bytes, int]) -> None:
        self._labels = labels
        self._moved = moved
        self._left_out: set[bytes] = set()
        """Ids: their states are left out, too."""
        self.names_left_out = 0

    def restored(self, key: bytes, record: bytes) -> tuple[bytes, bytes] | None:
        """None: left out."""
        if key.startswith(STATE_KEYS):
            actor_id = key[len(STATE_KEYS) :]
            return None if actor_id in self._left_out else (STATE_KEYS + relabelled(actor_id, self._labels), record)
        name, home = name_in(key), home_in(key, record)
        if name is None or home is None:
            return key, record
        label = self._labels[self._moved.get(name, home.label)]
        if label is None:
            self._left_out.add(home.actor_id)
            self.names_left_out += key.startswith(RESERVATION_KEYS)
            return None
        return key, self._relabelled_record(key, record, home, label)

    def _relabelled_record(self, key: bytes, record: bytes, home: HomeRecord, label: int) -> bytes:
        found = decoded(key, record)
        value = found.committed.value
        assert value is not None
        actor_id = relabelled(home.actor_id, self._labels)
        if len(value) == ID_BYTES:
            if value == actor_id:
                return record
            value = actor_id
        else:
            # Not an empty lease: with epoch 0 that is a reservation of an earlier version, which had no states.
            value = home_records.encode(replace(home, actor_id=actor_id, label=label, lease=directory.RELEASED))
        return wire.encode_committed_record(replace(found, committed=replace(found.committed, value=value)))


def name_in(key: bytes) -> bytes | None:
    """The packed name of an actor, in a key that reserves it or has its home; None: another key."""
    for prefix in (RESERVATION_KEYS, HOME_KEYS):
        if key.startswith(prefix):
            return key[len(prefix) :]
    return None


def home_in(key: bytes, record: bytes) -> HomeRecord | None:
    """None: the key has no home."""
    value = decoded(key, record).committed.value if name_in(key) is not None else None
    try:
        return home_records.decode_home(value) if value is not None else None
    except CodecError as error:
        raise BackupError(f"the home in key {key!r} cannot be read: {error}") from error


def relabelled(actor_id: bytes, labels: Labels) -> bytes:
    """An id that was made in a datacenter without a place, by an actor that has moved, stays: it is unique anyway."""
    label = labels.get(label_of(actor_id))
    return actor_id[:-2] + label.to_bytes(2, "big") if label is not None else actor_id


def restored_actor(row: bytes, value: bytes, labels: Labels) -> ActorEntry | None:
    """None: the row is no record of an actor."""
    return asleep(directory.decode(value), labels) if row.startswith(directory.ACTOR) else None


def restored_name(row: bytes, value: bytes, labels: Labels) -> bytes | None:
    """The id of the last actor of a name; None: the row is no name. Rows of envoys are left out."""
    return relabelled(value, labels) if row.startswith(directory.NAME) else None


def local_state_of(row: bytes, labels: Labels) -> bytes | None:
    """The id of the actor whose state, kept in this datacenter alone, is in the row; None: another row."""
    return relabelled(directory.last_id(row), labels) if row.startswith(local_states.STATE) else None


def doomed_of(row: bytes, labels: Labels) -> bytes | None:
    """The id of a destroyed actor whose state is to be deleted; None: another row."""
    return relabelled(directory.last_id(row), labels) if row.startswith(directory.DOOMED) else None


def record_row(actor_id: bytes) -> bytes:
    return directory.ACTOR + pack((actor_id,))


def at_home(actor: ActorEntry) -> bool:
    """Whether it lives where its row is, as far as the row tells: it was not given up there, for a move."""
    return actor.is_alive and actor.lease != directory.RELEASED


def asleep(actor: ActorEntry, labels: Labels) -> ActorEntry:
    return replace(
        actor,
        id=relabelled(actor.id, labels),
        state=ActorState.ASLEEP if actor.is_alive else actor.state,
        envoy_key=None,
        counted=False,
        failures=0,
        not_before_ms=0,
        since_ms=0,
        after=None,
        lease=b"" if at_home(actor) else directory.RELEASED,
        clean=False,
        alarm_ms=0,
        due_ms=0,
    )


def decoded(key: bytes, record: bytes) -> CommittedRecord:
    try:
        return wire.decode_committed_record(record)
    except Exception as error:
        raise BackupError(f"the record of key {key!r} cannot be read: {error}") from error
