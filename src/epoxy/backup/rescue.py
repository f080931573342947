"""A backup from the data directories of nodes that do not run: after the loss of a majority, or to make another cluster
of copies. Nothing is changed in them.

Of each key the newest committed version counts, whichever survivor has it, and what is made of open votes is in
`open_writes.py`. The values of transactions are those of the survivor that has executed most, as one cut, with what the
others have decided executed on top (`open_transactions.py`).
"""

import enum
import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from msgspec import Struct

from epoxy import __version__
from epoxy.actors import directory
from epoxy.backup import open_transactions
from epoxy.backup.files import BackupWriter
from epoxy.backup.format import BackupEnd, BackupHeader, BackupMember, Kind, Record, blocks, is_carried
from epoxy.backup.open_writes import Doubt, HeldKey, OpenWrite, Survivors, settle
from epoxy.codec import wire
from epoxy.codec.tuple import pack, strinc
from epoxy.model.cluster import CONFIG_KEY, ClusterConfig, both_sides
from epoxy.model.errors import StoreRefused
from epoxy.model.records import CommittedRecord
from epoxy.node.members.config_record import from_proposal
from epoxy.store.embedded.offline import StoppedStore
from epoxy.store.keyspace import CACHE, VALUE_OF_A_KEY, Keyspace, key_of, legacy_proposal
from epoxy.store.member_rows import MemberSpace

CACHE_OF_A_KEY = b"\x00" + CACHE
ACTOR_ROWS = pack((directory.ROOT,))


class HeldPart(enum.IntEnum):
    """What a row holds of a key. A value that was found elsewhere is committed, too."""

    RECORD = 0
    LEGACY = 1
    CACHED = 2
    PROMISE = 3
    VOTE = 4


Held = tuple[bytes, int, HeldPart, bytes | None]
"""Key, replica, part and value; a value of None is rotten."""


class Survivor:
    """One directory."""

    def __init__(self, store: StoppedStore) -> None:
        self.store = store
        self.id = store.description.replica
        self.keyspace = Keyspace(self.id)
        self.members = MemberSpace(self.keyspace, self.id)
        self.identity = self.members.own_identity(store.rows)
        self.refused = self.members.refusal(store.rows)
        committed = self.keyspace.committed(store.rows, CONFIG_KEY)
        if committed is None:
            raise StoreRefused(f"data directory {store.path}: its node has never served; leave it out")
        self.config = from_proposal(committed)

    def rows(self) -> Iterator[Held]:
        """Of all keys that a backup has, in order."""
        keys, votes, legacy = self.keyspace.rows()
        streams = (
            self._under(keys, part_of),
            self._under(legacy, legacy_part),
            self._under(votes, lambda _: HeldPart.VOTE),
        )
        return heapq.merge(*streams, key=itemgetter(0))

    def _under(self, root: bytes, part: Callable[[bytes], HeldPart]) -> Iterator[Held]:
        for row, value in self.store.scan(root, strinc(root)):
            key = key_of(row, root)
            if is_carried(key):
                yield key, self.id, part(row), value


def part_of(row: bytes) -> HeldPart:
    if row.endswith(VALUE_OF_A_KEY):
        return HeldPart.RECORD
    return HeldPart.CACHED if row.endswith(CACHE_OF_A_KEY) else HeldPart.PROMISE


def legacy_part(_row: bytes) -> HeldPart:
    return HeldPart.LEGACY


class RescueSurvey(Struct, frozen=True, kw_only=True):
    """`lost`: members whose directories are not given. `behind`: given ones that are not what they were, and why."""

    survivors: Survivors
    stores: tuple[Survivor, ...]
    lost: tuple[int, ...]
    behind: dict[int, str]

    @property
    def config(self) -> ClusterConfig:
        return self.survivors.config

    def datacenter(self, replica: int) -> str:
        info = self.config.info(replica)
        return info.datacenter if info is not None and info.datacenter else f"replica-{replica}"


def survey(stores: Sequence[StoppedStore], *, take: bool) -> RescueSurvey:
    """Raises StoreRefused if these are not directories of one cluster."""
    found = sorted((Survivor(store) for store in stores), key=lambda each: each.id)
    config = max((each.config for each in found), key=lambda each: each.epoch)
    check(found, config)
    behind = {each.id: reason for each in found if (reason := behind_of(each, found))}
    present = tuple(each.id for each in found if each.id in config.voters)
    whole = is_quorum(config, present) and not behind
    return RescueSurvey(
        survivors=Survivors(config=config, voters=present, quorum=whole, take=take),
        stores=tuple(found),
        lost=tuple(replica for replica in config.replica_ids if replica not in {each.id for each in found}),
        behind=behind,
    )


def is_quorum(config: ClusterConfig, present: tuple[int, ...]) -> bool:
    if config.sides is not None:
        return both_sides(config.sides, present)
    return len(present) >= config.quorums.slow


def check(found: Sequence[Survivor], config: ClusterConfig) -> None:
    names = {each.store.description.cluster for each in found}
    if len(names) > 1:
        raise StoreRefused("the directories belong to different clusters: one of them was restored from a backup")
    for each in found:
        path = each.store.path
        if [other.id for other in found].count(each.id) > 1:
            raise StoreRefused(f"two directories are of replica {each.id}; give one of them")
        info = config.info(each.id)
        if info is None:
            raise StoreRefused(f"data directory {path}: replica {each.id} is no member in epoch {config.epoch}")
        known = {info.identity, *(other.members.noted(other.store.rows).get(each.id, 0) for other in found)} - {0}
        if known - {each.identity}:
            raise StoreRefused(
                f"data directory {path}: another store is on record for replica {each.id}: it was replaced, or is one "
                "of another cluster"
            )


def behind_of(one: Survivor, all_of_them: Sequence[Survivor]) -> str:
    """Why a directory is not what it was; empty: as far as the others know, it is."""
    if one.refused:
        return one.refused
    counter, _ = one.members.last_start(one.store.rows)
    for other in all_of_them:
        seen = other.members.sightings(other.store.rows).get(one.id)
        if seen is not None and seen.store == one.identity:
            if seen.counter > counter:
                return f"replica {other.id} has seen a later start of it: this is an older copy"
            if seen.position > one.store.frame:
                return f"replica {other.id} knows that it had written more: this is an older copy, or it was shortened"
    return ""


def header_of(rescue: RescueSurvey) -> BackupHeader:
    config = rescue.config
    first = rescue.stores[0]
    return BackupHeader(
        made_at=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        replica=first.id,
        datacenter=rescue.datacenter(first.id),
        epoch=config.epoch,
        members=tuple(
            BackupMember(id=info.id, datacenter=rescue.datacenter(info.id), url=info.url) for info in config.replicas
        ),
        quorum_policy=config.quorum_policy.value,
        version=__version__,
        cluster=first.store.description.cluster,
        method="rescue",
        versioned=True,
    )


class RescueWriter:
    """Writes the backup, and collects what is in doubt."""

    def __init__(self, rescue: RescueSurvey) -> None:
        self._rescue = rescue
        self.doubts: list[OpenWrite] = []
        self.keys = 0

    def write(
        self, path: Path, listed: Callable[[list[OpenWrite]], None], progress: Callable[[int], None]
    ) -> BackupEnd:
        """`listed` is called with what is in doubt before the backup gets its name: there is never one without the
        list. `progress` is told the number of keys so far."""
        with BackupWriter(path, header_of(self._rescue)) as writer:
            streams = {Kind.KEYS: self._keys(), Kind.VALUES: self._values(), Kind.ACTORS: self._actors()}
            for kind, records in streams.items():
                for block in blocks(kind, records):
                    writer.write(block)
                    progress(self.keys)
            listed(self.doubts)
            missing = sorted({self._rescue.datacenter(replica) for replica in self._rescue.lost})
            return writer.finish(tuple(missing))

    def _keys(self) -> Iterator[Record]:
        streams = [each.rows() for each in self._rescue.stores]
        for key, rows in groupby(heapq.merge(*streams, key=itemgetter(0)), key=itemgetter(0)):
            settled = settle(held_of(key, rows), self._rescue.survivors)
            self.doubts += settled.doubts
            if settled.record is not None:
                self.keys += 1
                yield key, settled.record

    def _values(self) -> Iterator[Record]:
        """If no member is lost, a transaction that none of them has decided was not acknowledged."""
        values, doubts = open_transactions.values_of([(each.id, each.store) for each in self._rescue.stores])
        yield from values
        whole = not self._rescue.lost and not self._rescue.behind
        self.doubts += [each for each in doubts if not whole or each.doubt is not Doubt.TRANSACTION]

    def _actors(self) -> Iterator[Record]:
        for each in sorted(self._rescue.stores, key=lambda store: self._rescue.datacenter(store.id)):
            name = self._rescue.datacenter(each.id).encode()
            for row, value in each.store.scan(ACTOR_ROWS, strinc(ACTOR_ROWS)):
                if value is not None:
                    yield name, row, value


def held_of(key: bytes, rows: Iterable[Held]) -> HeldKey:
    held = HeldKey(key)
    for _, replica, part, value in rows:
        if value is None:
            held.rotten.add(replica)
        elif part is HeldPart.VOTE:
            held.votes[replica] = wire.decode_vote(value)
        elif part is HeldPart.PROMISE:
            held.promised.add(replica)
        elif part is HeldPart.RECORD:
            held.records[replica] = value
        else:
            proposal = wire.decode_cached(value) if part is HeldPart.CACHED else legacy_proposal(value)
            record = wire.encode_committed_record(CommittedRecord(committed=proposal))
            held.records.setdefault(replica, record)
    return held
