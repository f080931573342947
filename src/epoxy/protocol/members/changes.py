"""From the configuration in force and the change request to the next configuration.

All a coordinator must know is in the configuration, so another replica can go on after a coordinator has crashed:

    stable             members requested and not listed    list them as joining, drop those not requested any more
    some are joining   one has reported its identity       it is learning
    all are learning   they, and a slow quorum of the
                       new members, have copied the bulk   the joint epoch
    joint              they are synced                     stable, with the new members alone
    joint              a newcomer is not requested         stable again, with the old members
                       any more

Why each of these is safe: docs/protocol/membership.md.
"""

from collections.abc import Container, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus
from epoxy.model.members import ChangeRequest, Member, MemberStatus
from epoxy.model.quorum import MAX_REPLICAS, quorums

Statuses = Mapping[int, MemberStatus]
"""By replica: its status, as of this poll."""

NEWCOMERS = (ReplicaStatus.JOINING, ReplicaStatus.LEARNING)


class ChangeWaiting(Struct, frozen=True):
    """Nothing to publish yet."""

    reason: str


class ChangeDone(Struct, frozen=True):
    """The members are those requested."""


Step = ClusterConfig | ChangeWaiting | ChangeDone


def next_step(config: ClusterConfig, request: ChangeRequest | None, statuses: Statuses, me: int) -> Step:
    """The next step of `me` as coordinator. Without a request, only identities of stores are recorded."""
    statuses = {i: status for i, status in statuses.items() if is_genuine(config, i, status)}
    if config.is_joint:
        return end_joint(config, request, statuses, me)
    if request is None:
        return identify(config, statuses, me)
    if len({*config.replica_ids, *requested(request)}) > MAX_REPLICAS:
        return ChangeWaiting(f"more than {MAX_REPLICAS} replicas, old and new together")
    listed = listed_members(config, request)
    if listed != config.replicas:
        return next_config(config, me, replicas=record_identities(listed, statuses))
    unknown = [replica.id for replica in config.replicas if replica.status is ReplicaStatus.JOINING]
    if any(i in statuses for i in unknown):
        return next_config(config, me, replicas=admit_joining(config.replicas, statuses))
    if unknown:
        return ChangeWaiting(f"no word from {format_ids(unknown)}")
    if set(config.active) == requested(request):
        return identify(config, statuses, me)
    return begin_joint(config, request, statuses, me)


def requested(request: ChangeRequest) -> set[int]:
    return {member.id for member in request.members}


def is_genuine(config: ClusterConfig, replica_id: int, status: MemberStatus) -> bool:
    """The status of a store other than the recorded one does not count."""
    info = config.info(replica_id)
    return info is None or info.identity in (0, status.identity)


def next_config(config: ClusterConfig, me: int, **changes: object) -> ClusterConfig:
    return replace(config, epoch=config.epoch + 1, coordinator_id=me, **changes)


# Stable


def listed_members(config: ClusterConfig, request: ChangeRequest) -> tuple[ReplicaInfo, ...]:
    """Voters stay as they are; newcomers are listed with their addresses, or dropped."""
    named = {member.id: member for member in request.members}
    kept = {
        replica.id: update_address(replica, named.get(replica.id))
        for replica in config.replicas
        if replica.id in named or replica.status is ReplicaStatus.ACTIVE
    }
    joining = {i: newcomer(member) for i, member in named.items() if i not in kept}
    return in_order(kept | joining)


def update_address(replica: ReplicaInfo, member: Member | None) -> ReplicaInfo:
    """A member may move. Fields that the request leaves empty stay."""
    if member is None:
        return replica
    return replace(replica, url=member.url or replica.url, datacenter=member.datacenter or replica.datacenter)


def newcomer(member: Member) -> ReplicaInfo:
    return ReplicaInfo(id=member.id, status=ReplicaStatus.JOINING, url=member.url, datacenter=member.datacenter)


def in_order(replicas: Mapping[int, ReplicaInfo]) -> tuple[ReplicaInfo, ...]:
    return tuple(replicas[i] for i in sorted(replicas))


def record_identities(replicas: tuple[ReplicaInfo, ...], statuses: Statuses) -> tuple[ReplicaInfo, ...]:
    """An identity is recorded once and never changed: another store under that id is another replica."""
    return tuple(
        replace(replica, identity=statuses[replica.id].identity)
        if replica.identity == 0 and replica.id in statuses and replica.status not in NEWCOMERS
        else replica
        for replica in replicas
    )


def admit_joining(replicas: tuple[ReplicaInfo, ...], statuses: Statuses) -> tuple[ReplicaInfo, ...]:
    return tuple(
        replace(replica, status=ReplicaStatus.LEARNING, identity=statuses[replica.id].identity)
        if replica.status is ReplicaStatus.JOINING and replica.id in statuses
        else replica
        for replica in record_identities(replicas, statuses)
    )


def identify(config: ClusterConfig, statuses: Statuses, me: int) -> Step:
    """As soon as all voters have reported, once in the life of a cluster."""
    if all(replica.identity for replica in config.replicas) or not all(i in statuses for i in config.voters):
        return ChangeDone()
    return next_config(config, me, replicas=record_identities(config.replicas, statuses))


def begin_joint(config: ClusterConfig, request: ChangeRequest, statuses: Statuses, me: int) -> Step:
    new = requested(request)
    unidentified = [i for i in config.active if i in new and not identity_of(config, i, statuses)]
    if unidentified:
        return ChangeWaiting(f"the identity of the store of {format_ids(unidentified)} is not recorded")
    ready = {i for i in new if i in statuses and is_ready(config, i, statuses[i])}
    if not is_enough(new, new - set(config.active), ready):
        return ChangeWaiting(f"{format_ids(ready)} of {format_ids(new)} have copied the bulk")
    members = {
        replica.id: replace(replica, status=ReplicaStatus.ACTIVE if replica.id in new else ReplicaStatus.LEAVING)
        for replica in record_identities(config.replicas, statuses)
    }
    return next_config(config, me, replicas=in_order(members), previous=config.active)


def identity_of(config: ClusterConfig, replica_id: int, statuses: Statuses) -> int:
    info = config.info(replica_id)
    if info is not None and info.identity:
        return info.identity
    return statuses[replica_id].identity if replica_id in statuses else 0


def is_ready(config: ClusterConfig, replica_id: int, status: MemberStatus) -> bool:
    """It has copied, up to some moment, all that a slow quorum of the voters held. This only makes the joint epoch
    short; safety does not depend on it."""
    held = {*status.sources, replica_id}
    return sum(voter in held for voter in config.electorate) >= config.quorums.slow


def is_enough(members: set[int], added: set[int], ready: Container[int]) -> bool:
    """All added members, and a slow quorum of the new members: one dead replica does not block a change."""
    count = sum(member in ready for member in members)
    return all(member in ready for member in added) and count >= quorums(len(members)).slow


# Joint


def end_joint(config: ClusterConfig, request: ChangeRequest | None, statuses: Statuses, me: int) -> Step:
    assert config.previous is not None
    added = set(config.active) - set(config.previous)
    if request is not None and is_abandoned(config, added, requested(request)):
        return undo(config, requested(request), me)
    synced = {i for i in config.active if i in statuses and is_synced(config, statuses[i])}
    if not is_enough(set(config.active), added, synced):
        return ChangeWaiting(f"{format_ids(synced)} of {format_ids(config.active)} are synced")
    return promote(config, me)


def is_abandoned(config: ClusterConfig, added: set[int], new: set[int]) -> bool:
    """A member that is being added is not requested any more, or the old members are requested again."""
    assert config.previous is not None
    return new != set(config.active) and (not added <= new or new == set(config.previous))


def is_synced(config: ClusterConfig, status: MemberStatus) -> bool:
    return status.synced and status.epoch == config.epoch


def promote(config: ClusterConfig, me: int) -> ClusterConfig:
    """The new members alone. What the epochs before the joint one chose is copied, so their votes no longer count."""
    voters = tuple(replica for replica in config.replicas if replica.status is ReplicaStatus.ACTIVE)
    term = config.term + 1
    return next_config(config, me, replicas=voters, previous=None, sealed=sealed_by(config), term=term, since=term)


def sealed_by(config: ClusterConfig) -> int:
    """All epochs before the joint one. Its own votes still count: a quorum of the new members gave them, too."""
    return config.epoch - 1


def undo(config: ClusterConfig, new: set[int], me: int) -> ClusterConfig:
    """Back to the old members. Safe at any time: every quorum of the joint epoch contains one of theirs. The ordered
    engine's term ends nevertheless, because some members may have ended it already."""
    assert config.previous is not None
    old = set(config.previous)
    members = {
        replica.id: replace(replica, status=ReplicaStatus.ACTIVE if replica.id in old else ReplicaStatus.LEARNING)
        for replica in config.replicas
        if replica.id in old | new
    }
    return next_config(config, me, replicas=in_order(members), previous=None, term=config.term + 1)


def format_ids(replicas: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(replicas))) or "none"
