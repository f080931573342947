"""Planted faults of changing members, and all faults that a run on single keys may have."""

# Broken rules keep the signatures of the right ones, used or not.
# ruff: noqa: ARG001

from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from epoxy.codec import wire
from epoxy.model import cluster
from epoxy.model.ballot import Ballot
from epoxy.model.cluster import ClusterConfig, Side
from epoxy.model.errors import CodecError, RottenRow
from epoxy.model.members import ChangeRequest, MemberStatus, Progress, SnapshotPage
from epoxy.model.records import FRESH, ChangelogEntry, KeyState, Proposal, Vote
from epoxy.model.writes import ReadOutcome, ReadResult, Source
from epoxy.node.keys import changelog_gc
from epoxy.node.keys.changelog_gc import ChangelogGc
from epoxy.node.keys.replica import Replica
from epoxy.node.members import member
from epoxy.node.members.key_sync import KeySync
from epoxy.ports import KeyValue, Snapshot, Transaction
from epoxy.protocol.effects import Context
from epoxy.protocol.keys import acceptor, local, recovery, restoring
from epoxy.protocol.keys.effects import Flow as KeysFlow
from epoxy.protocol.keys.reader import newest_of, read_oks, read_request
from epoxy.protocol.keys.recovery import Promises
from epoxy.protocol.keys.rounds import gather
from epoxy.protocol.members import changes, digest, identity, learner, retention
from epoxy.protocol.members.effects import Flow, Keep, Repair
from epoxy.protocol.members.identity import Recognition
from epoxy.protocol.members.retention import LAST_STAMP, Reader, Removal, removable
from epoxy.runtime.flow import Done
from epoxy.store import member_rows
from epoxy.store.row_kinds import REMEDIES, Remedy, Row, RowKind
from epoxy_sim.disk import rot
from epoxy_sim.disk.rot import CheckedTransaction
from epoxy_sim.keys import early_mutants
from epoxy_sim.keys.generate import HOT
from epoxy_sim.keys.mutants import AMBIGUOUS, KeysMutant
from epoxy_sim.patching import Mutants, Patch, always, constant, never, nothing

choose = recovery.choose
adopt = Replica._adopt
begin_joint = changes.begin_joint

MEMBERSHIP = "membership"
"""The workload in which members change."""

ROT = "rot"
"""The workload in which rows of the disks rot, while members change."""

MUTANTS = Mutants(KeysMutant, early_mutants.MUTANTS)
mutant = partial(MUTANTS.mutant, workload=MEMBERSHIP)


def both_sides(sides: tuple[Side, ...], replicas: Container[int]) -> bool:
    return all(sum(member in replicas for member in side.members) >= side.need for side in sides)


mutant(acceptor, "wrong_epoch", "no-epoch-check", "requests of any epoch are served")(nothing)


@mutant(learner, "is_enough", "one-source-only", "a member is synced with one old member")
def one_source(config: ClusterConfig, done: set[int]) -> bool:
    return bool(done)


@mutant(learner, "settle", "votes-not-settled", "only what is committed is copied")
def settle_nothing(config: ClusterConfig, source: int) -> Flow[bool | None]:
    yield from ()
    return True


mutant(
    local,
    "may_be_fast",
    "fast-round-while-joint",
    "the fast round goes on in a joint epoch",
    AMBIGUOUS,
    exhaustive=True,
)(always)


@mutant(recovery, "still_counts", "old-fast-votes-forgotten", "fast votes end with their epoch")
def forget_old_fast_votes(vote: Vote, config: ClusterConfig) -> bool:
    return vote.epoch > config.sealed and (vote.ballot.is_classic or vote.epoch == config.epoch)


mutant(member, "not_adopted", "no-seal", "an old member tells its votes and goes on voting", exhaustive=True)(nothing)


@mutant(
    recovery,
    "choose",
    "old-votes-by-new-size",
    "while joint, fast votes are counted among the new members",
    exhaustive=True,
)
def count_by_new_size(promises: Promises, config: ClusterConfig) -> Proposal | None:
    return choose(promises, replace(config, previous=None))


@mutant(
    recovery,
    "still_counts",
    "sealed-classic-votes-count",
    "classic votes of sealed epochs still count",
    exhaustive=True,
)
def count_sealed_classic_votes(vote: Vote, config: ClusterConfig) -> bool:
    return vote.epoch > config.sealed or vote.ballot.is_classic


@mutant(changes, "sealed_by", "joint-epoch-sealed", "votes of the joint epoch do not count after it")
def seal_the_joint_epoch_too(config: ClusterConfig) -> int:
    return config.epoch


@mutant(changes, "is_synced", "early-promotion", "the new members take over before they are synced")
def synced_at_once(config: ClusterConfig, status: MemberStatus) -> bool:
    return status.epoch == config.epoch


@mutant(cluster, "both_sides", "new-side-only", "while joint, the new members decide alone", exhaustive=True)
def new_side_only(sides: tuple[Side, ...], replicas: Container[int]) -> bool:
    return both_sides((sides[1],), replicas)


@mutant(cluster, "both_sides", "old-side-only", "while joint, the old members decide alone", exhaustive=True)
def old_side_only(sides: tuple[Side, ...], replicas: Container[int]) -> bool:
    return both_sides((sides[0],), replicas)


@mutant(Replica, "_adopt", "adopt-downwards", "an older configuration is adopted")
def adopt_anything(replica: Replica, config: ClusterConfig) -> ClusterConfig:
    adopt(replica, config)
    replica.config = config
    return config


@mutant(learner, "first_cursor", "late-cursor", "the changelog is followed from the end of the snapshot")
def newest_cursor(progress: Progress | None, page: SnapshotPage) -> bytes:
    return page.cursor


@mutant(KeySync, "_learn", "progress-first", "a learner notes its progress before what it learned")
def progress_first(sync: KeySync, effect: Keep | Repair, beside: Callable[[Transaction], None], done: Done) -> int:
    sync._store.transact(beside)
    done(len(effect.entries))
    return sync._replica.learn_all(effect.entries, lambda _: None)


mutant(member_rows, "is_gone", "truncation-untold", "rows that are gone are passed over")(never)


mutant(retention, "wanted_by_learners", "learners-not-waited-for", "rows go although a newcomer has not read them")(
    constant(LAST_STAMP)
)


mutant(
    ChangelogGc,
    "_has_place",
    "late-beginning-counts",
    "a learner's place moves on when the beginning of its copy arrives again",
    workload=HOT,
    since=5_060,
)(never)


mutant(retention, "surplus", "changelog-unbounded", "rows of the changelog take any space")(constant(0))


@mutant(changelog_gc, "removable", "learners-crowded-out", "rows go because they are many, although a newcomer reads")
def crowd_out(
    config: ClusterConfig, readers: Mapping[int, Reader], now_ms: float, *, newest: bytes, kept: int, **floor: Any
) -> tuple[Removal, ...]:
    spare, surplus, rest = removable(config, readers, now_ms, newest=newest, kept=kept, **floor)
    return spare, replace(surplus, through=newest), rest


@mutant(digest, "fingerprint", "digest-of-names", "two replicas compare which keys they hold, and not what")
def names_only(entry: ChangelogEntry) -> bytes:
    return b"%d %b" % (len(entry.key), entry.key)


@mutant(Replica, "_learn_all", "page-overwrites", "what another replica holds replaces what is newer here")
def page_is_right(
    replica: Replica, entries: Sequence[ChangelogEntry], beside: Callable[[Transaction], None], tx: Transaction
) -> tuple[list[tuple[bytes, KeyState, KeyState]], list[ChangelogEntry]]:
    """Whatever another replica holds goes here, too."""
    changes: list[tuple[bytes, KeyState, KeyState]] = []
    for entry in entries:
        before = replica.keyspace.load(tx, entry.key)
        if entry.committed != before.committed:
            after = KeyState(committed=entry.committed)
            replica.keyspace.save(tx, entry.key, KeyState(promised=before.promised, vote=before.vote), after)
            changes.append((entry.key, before, after))
    beside(tx)
    return changes, []


@mutant(learner, "compare", "nothing-repaired", "in quiet times no replica looks for what it has missed")
def repair_nothing(me: int, source: int) -> Flow[bool]:
    yield from ()
    return True


mutant(
    identity,
    "recognise",
    "empty-disk-welcome",
    "a replica that lost its disk goes on under its old id",
    Patch(identity, "may_vote", always),
)(constant(Recognition.KNOWN))


@mutant(
    changes,
    "begin_joint",
    "members-as-described",
    "new members are broadcast and copy from one source",
    Patch(acceptor, "wrong_epoch", nothing),
)
def straight_to_the_new(
    config: ClusterConfig, request: ChangeRequest, statuses: changes.Statuses, me: int
) -> changes.Step:
    """Without a joint epoch: broadcast the new members, and every replica uses whichever it has."""
    step = begin_joint(config, request, statuses, me)
    if not isinstance(step, ClusterConfig):
        return step
    return replace(changes.promote(step, me), epoch=step.epoch, sealed=config.sealed)


# Rot

rotten = partial(MUTANTS.mutant, workload=ROT)
state_of = Replica._state
remedy_of = REMEDIES.__getitem__


@rotten(rot, "read_rotten", "rot-served", "what is on the disk is believed, whatever its checksum")
def believe(key: bytes, value: bytes) -> bytes:
    """Only committed values are changed, and still decoded: other rows are as they were."""
    try:
        record = wire.decode_committed_record(value)
    except CodecError:
        return value
    changed = replace(record.committed, value=b"rotten") if record.committed.value is not None else record.committed
    return wire.encode_committed_record(replace(record, committed=changed))


@rotten(CheckedTransaction, "snapshot", "rot-copied", "a page has rows as they are on the disk")
def pages_unchecked(transaction: CheckedTransaction) -> Snapshot:
    return Believed(transaction._transaction.snapshot, transaction._rot.unwritten)


class Believed:
    """A view in which rotten rows are read as any other."""

    def __init__(self, view: Snapshot, rotten: set[bytes]) -> None:
        self._view = view
        self._rotten = rotten

    def get(self, key: bytes) -> bytes | None:
        value = self._view.get(key)
        return believe(key, value) if value is not None and key in self._rotten else value

    def range(self, begin: bytes, end: bytes, *, limit: int, reverse: bool = False) -> Sequence[KeyValue]:
        found = self._view.range(begin, end, limit=limit, reverse=reverse)
        return [(key, believe(key, value) if key in self._rotten else value) for key, value in found]


@rotten(Replica, "_state", "rot-forgotten", "a replica answers for a rotten key as if it had nothing")
def nothing_here(replica: Replica, key: bytes) -> KeyState:
    try:
        return state_of(replica, key)
    except RottenRow:
        return FRESH


@rotten(restoring, "ask_others", "repaired-from-one", "the first of the others to answer is believed")
def ask_one(key: bytes, above: Ballot, ctx: Context) -> KeysFlow[ReadOutcome]:
    got = yield from gather(ctx, read_request(key, ctx), ctx.others(), need=1, own={}, base=None)
    committed = newest_of(read_oks(got.oks).values())
    return ReadResult(committed=committed, source=Source.QUORUM) if got.oks else restoring.NO_QUORUM


@rotten(Row, "remedy", "rotten-vote-forgiven", "a replica drops votes and promises that it cannot read, and goes on")
def forgive(row: Row) -> Remedy:
    return Remedy.DROP if row.kind in (RowKind.VOTE, RowKind.BALLOT) else remedy_of(row.kind)


@rotten(Replica, "restore", "repair-overwrites", "a repair writes what it read, also over what was committed meanwhile")
def restore_anyway(replica: Replica, key: bytes, found: Proposal) -> bool:
    before = replica._states.get(key) or FRESH
    view, state = replica._store.newest(), KeyState(committed=found)
    replica._store.put(*replica.keyspace.restored(view, key, state))
    replica._states.put(key, state)
    short = [watcher for watcher, _ in replica.short_watchers]
    for watcher in (*replica.watchers, *replica.commit_watchers, *short):
        watcher(key, KeyState(committed=before.committed or found), state)
    return True
