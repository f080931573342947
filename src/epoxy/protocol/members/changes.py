"""From the configuration in force and the members somebody wants to the next configuration.

Everything a coordinator must know stands in the configuration, so whoever comes after one that died goes on from there:

    stable             members wanted and unknown          list them as joining, drop who is no longer wanted
    some are joining   one has told its identity           it is learning
    all are learning   they, and a slow quorum of the
                       new members, have copied the bulk   the joint epoch
    joint              they are synced                     stable, with the new members alone
    joint              a newcomer is no longer wanted      stable again, with the old members

Why each of these is safe: docs/protocol/membership.md.
"""

from collections.abc import Container, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus
from epoxy.model.members import ChangeRequest, Member, MemberStatus
from epoxy.model.quorum import MAX_REPLICAS, quorums

Heard = Mapping[int, MemberStatus]
"""What members said of themselves, each just now."""

NEWCOMERS = (ReplicaStatus.JOINING, ReplicaStatus.LEARNING)


class ChangeWaiting(Struct, frozen=True):
    """Nothing to publish before somebody has come further."""

    reason: str


class ChangeDone(Struct, frozen=True):
    """The members are those wanted."""


Step = ClusterConfig | ChangeWaiting | ChangeDone


def next_step(config: ClusterConfig, wish: ChangeRequest | None, heard: Heard, me: int) -> Step:
    """What `me`, as coordinator, does now. Without a wish it only writes down whose stores the members are."""
    heard = {i: status for i, status in heard.items() if is_genuine(config, i, status)}
    if config.is_joint:
        return end_joint(config, wish, heard, me)
    if wish is None:
        return identify(config, heard, me)
    if len({*config.replica_ids, *wanted(wish)}) > MAX_REPLICAS:
        return ChangeWaiting(f"more than {MAX_REPLICAS} replicas, old and new together")
    listed = listed_members(config, wish)
    if listed != config.replicas:
        return next_config(config, me, replicas=record_identities(listed, heard))
    unknown = [replica.id for replica in config.replicas if replica.status is ReplicaStatus.JOINING]
    if any(i in heard for i in unknown):
        return next_config(config, me, replicas=admit_joining(config.replicas, heard))
    if unknown:
        return ChangeWaiting(f"no word from {format_ids(unknown)}")
    if set(config.active) == wanted(wish):
        return identify(config, heard, me)
    return begin_joint(config, wish, heard, me)


def wanted(wish: ChangeRequest) -> set[int]:
    return {member.id for member in wish.members}


def is_genuine(config: ClusterConfig, replica_id: int, status: MemberStatus) -> bool:
    """A store that is not the one written down speaks for nobody."""
    info = config.info(replica_id)
    return info is None or info.identity in (0, status.identity)


def next_config(config: ClusterConfig, me: int, **changes: object) -> ClusterConfig:
    return replace(config, epoch=config.epoch + 1, coordinator_id=me, **changes)


# Stable


def listed_members(config: ClusterConfig, wish: ChangeRequest) -> tuple[ReplicaInfo, ...]:
    """Voters stay as they are; newcomers are listed, with the address everybody needs to reach them, or dropped."""
    named = {member.id: member for member in wish.members}
    kept = {
        replica.id: update_address(replica, named.get(replica.id))
        for replica in config.replicas
        if replica.id in named or replica.status is ReplicaStatus.ACTIVE
    }
    joining = {i: newcomer(member) for i, member in named.items() if i not in kept}
    return in_order(kept | joining)


def update_address(replica: ReplicaInfo, member: Member | None) -> ReplicaInfo:
    """A member may move. What the wish does not say stays."""
    if member is None:
        return replica
    return replace(replica, url=member.url or replica.url, datacenter=member.datacenter or replica.datacenter)


def newcomer(member: Member) -> ReplicaInfo:
    return ReplicaInfo(id=member.id, status=ReplicaStatus.JOINING, url=member.url, datacenter=member.datacenter)


def in_order(replicas: Mapping[int, ReplicaInfo]) -> tuple[ReplicaInfo, ...]:
    return tuple(replicas[i] for i in sorted(replicas))


def record_identities(replicas: tuple[ReplicaInfo, ...], heard: Heard) -> tuple[ReplicaInfo, ...]:
    """An identity is written down once, and never changed: another store under that id is another replica."""
    return tuple(
        replace(replica, identity=heard[replica.id].identity)
        if replica.identity == 0 and replica.id in heard and replica.status not in NEWCOMERS
        else replica
        for replica in replicas
    )


def admit_joining(replicas: tuple[ReplicaInfo, ...], heard: Heard) -> tuple[ReplicaInfo, ...]:
    return tuple(
        replace(replica, status=ReplicaStatus.LEARNING, identity=heard[replica.id].identity)
        if replica.status is ReplicaStatus.JOINING and replica.id in heard
        else replica
        for replica in record_identities(replicas, heard)
    )


def identify(config: ClusterConfig, heard: Heard, me: int) -> Step:
    """As soon as all voters have been heard, once in the life of a cluster."""
    if all(replica.identity for replica in config.replicas) or not all(i in heard for i in config.voters):
        return ChangeDone()
    return next_config(config, me, replicas=record_identities(config.replicas, heard))


def begin_joint(config: ClusterConfig, wish: ChangeRequest, heard: Heard, me: int) -> Step:
    new = wanted(wish)
    nameless = [i for i in config.active if i in new and not identity_of(config, i, heard)]
    if nameless:
        return ChangeWaiting(f"the store of {format_ids(nameless)} was never written down")
    ready = {i for i in new if i in heard and is_ready(config, i, heard[i])}
    if not is_enough(new, new - set(config.active), ready):
        return ChangeWaiting(f"{format_ids(ready)} of {format_ids(new)} have copied the bulk")
    members = {
        replica.id: replace(replica, status=ReplicaStatus.ACTIVE if replica.id in new else ReplicaStatus.LEAVING)
        for replica in record_identities(config.replicas, heard)
    }
    return next_config(config, me, replicas=in_order(members), previous=config.active)


def identity_of(config: ClusterConfig, replica_id: int, heard: Heard) -> int:
    info = config.info(replica_id)
    if info is not None and info.identity:
        return info.identity
    return heard[replica_id].identity if replica_id in heard else 0


def is_ready(config: ClusterConfig, replica_id: int, status: MemberStatus) -> bool:
    """It has copied, up to some moment, all that a slow quorum of the voters held. Then little is left to do in the
    joint epoch; safety does not rest on this."""
    held = {*status.sources, replica_id}
    return sum(voter in held for voter in config.electorate) >= config.quorums.slow


def is_enough(members: set[int], added: set[int], who: Container[int]) -> bool:
    """All who are added, and a slow quorum of the new members: one dead replica does not block a change."""
    count = sum(member in who for member in members)
    return all(member in who for member in added) and count >= quorums(len(members)).slow


# Joint


def end_joint(config: ClusterConfig, wish: ChangeRequest | None, heard: Heard, me: int) -> Step:
    assert config.previous is not None
    added = set(config.active) - set(config.previous)
    if wish is not None and is_abandoned(config, added, wanted(wish)):
        return undo(config, wanted(wish), me)
    synced = {i for i in config.active if i in heard and is_synced(config, heard[i])}
    if not is_enough(set(config.active), added, synced):
        return ChangeWaiting(f"{format_ids(synced)} of {format_ids(config.active)} are synced")
    return promote(config, me)


def is_abandoned(config: ClusterConfig, added: set[int], new: set[int]) -> bool:
    """Somebody who is being added is no longer wanted, or the old members are wanted back."""
    assert config.previous is not None
    return new != set(config.active) and (not added <= new or new == set(config.previous))


def is_synced(config: ClusterConfig, status: MemberStatus) -> bool:
    return status.synced and status.epoch == config.epoch


def promote(config: ClusterConfig, me: int) -> ClusterConfig:
    """The new members alone. What the epochs before the joint one chose is copied, so their votes end here."""
    voters = tuple(replica for replica in config.replicas if replica.status is ReplicaStatus.ACTIVE)
    term = config.term + 1
    return next_config(config, me, replicas=voters, previous=None, sealed=sealed_by(config), term=term, since=term)


def sealed_by(config: ClusterConfig) -> int:
    """All before the joint epoch. Not the joint one: its votes were given by a quorum of the new members, too."""
    return config.epoch - 1


def undo(config: ClusterConfig, new: set[int], me: int) -> ClusterConfig:
    """Back to the old members, at any time: every quorum of the joint epoch had one of theirs in it. The ordered
    engine's term has ended nevertheless: some members may have said so already."""
    assert config.previous is not None
    old = set(config.previous)
    members = {
        replica.id: replace(replica, status=ReplicaStatus.ACTIVE if replica.id in old else ReplicaStatus.LEARNING)
        for replica in config.replicas
        if replica.id in old | new
    }
    return next_config(config, me, replicas=in_order(members), previous=None, term=config.term + 1)


def format_ids(replicas: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(replicas))) or "nobody"
