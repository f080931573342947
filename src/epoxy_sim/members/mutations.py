"""Broken rules of changing members, to be planted in place of the right ones: see mutants.py."""

from collections.abc import Callable, Container, Mapping, Sequence

from msgspec.structs import replace

from epoxy.model import cluster
from epoxy.model.cluster import ClusterConfig, Side
from epoxy.model.members import ChangeRequest, MemberStatus, Progress, SnapshotPage
from epoxy.model.records import ChangelogEntry, KeyState, Proposal, Vote
from epoxy.node.keys.replica import Replica
from epoxy.node.members.key_sync import Copier
from epoxy.ports import Transaction
from epoxy.protocol.keys import recovery
from epoxy.protocol.keys.recovery import Promises
from epoxy.protocol.members import changes, digest, identity, learner, retention
from epoxy.protocol.members.effects import Flow, Keep, Repair
from epoxy.protocol.members.identity import Noted, Recognition
from epoxy.protocol.members.retention import LAST_STAMP, Reader
from epoxy.runtime.flow import Done
from epoxy_sim.patching import replaces

# Broken rules keep the signature of the right ones, used or not.
# ruff: noqa: ARG001


# Recovery


@replaces(recovery, "choose")
def count_by_new_size(promises: Promises, config: ClusterConfig) -> Proposal | None:
    return choose(promises, replace(config, previous=None))


choose = recovery.choose


@replaces(recovery, "still_counts")
def forget_old_fast_votes(vote: Vote, config: ClusterConfig) -> bool:
    return vote.epoch > config.sealed and (vote.ballot.is_classic or vote.epoch == config.epoch)


@replaces(recovery, "still_counts")
def count_sealed_classic_votes(vote: Vote, config: ClusterConfig) -> bool:
    return vote.epoch > config.sealed or vote.ballot.is_classic


# Quorums


@replaces(cluster, "both_sides")
def new_side_only(sides: tuple[Side, ...], replicas: Container[int]) -> bool:
    return both_sides((sides[1],), replicas)


@replaces(cluster, "both_sides")
def old_side_only(sides: tuple[Side, ...], replicas: Container[int]) -> bool:
    return both_sides((sides[0],), replicas)


def both_sides(sides: tuple[Side, ...], replicas: Container[int]) -> bool:
    return all(sum(member in replicas for member in side.members) >= side.need for side in sides)


# Configurations


@replaces(Replica, "_adopt")
def adopt_anything(replica: Replica, config: ClusterConfig) -> ClusterConfig:
    adopt(replica, config)
    replica.config = config
    return config


adopt = Replica._adopt


@replaces(changes, "is_synced")
def synced_at_once(config: ClusterConfig, status: MemberStatus) -> bool:
    return status.epoch == config.epoch


@replaces(changes, "sealed_by")
def seal_the_joint_epoch_too(config: ClusterConfig) -> int:
    return config.epoch


@replaces(changes, "begin_joint")
def straight_to_the_new(
    config: ClusterConfig, request: ChangeRequest, statuses: changes.Statuses, me: int
) -> changes.Step:
    """Without a joint epoch: broadcast the new members, and every replica uses whichever it has."""
    step = begin_joint(config, request, statuses, me)
    if not isinstance(step, ClusterConfig):
        return step
    return replace(changes.promote(step, me), epoch=step.epoch, sealed=config.sealed)


begin_joint = changes.begin_joint


# Learning


@replaces(learner, "is_enough")
def one_source(config: ClusterConfig, done: set[int]) -> bool:
    return bool(done)


@replaces(learner, "settle")
def settle_nothing(config: ClusterConfig, source: int) -> Flow[bool | None]:
    yield from ()
    return True


@replaces(learner, "first_cursor")
def newest_cursor(progress: Progress | None, page: SnapshotPage) -> bytes:
    return page.cursor


@replaces(Copier, "_learn")
def progress_first(copier: Copier, effect: Keep | Repair, beside: Callable[[Transaction], None], done: Done) -> int:
    copier._store.transact(beside)
    done(len(effect.entries))
    return copier._replica.learn_all(effect.entries, lambda _: None)


@replaces(digest, "fingerprint")
def names_only(entry: ChangelogEntry) -> bytes:
    return b"%d %b" % (len(entry.key), entry.key)


@replaces(Replica, "_learn_all")
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


@replaces(learner, "compare")
def repair_nothing(me: int, source: int) -> Flow[bool]:
    yield from ()
    return True


# The changelog


@replaces(retention, "wanted_by_learners")
def learners_forgotten(config: ClusterConfig, readers: Mapping[int, Reader]) -> bytes:
    return LAST_STAMP


# Identities


@replaces(identity, "recognise")
def known_at_sight(config: ClusterConfig, noted: Noted, replica_id: int, identity: int) -> Recognition:
    return Recognition.KNOWN
