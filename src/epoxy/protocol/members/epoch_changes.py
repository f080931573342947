"""What is different from one configuration to the next, in words for people."""

from collections.abc import Callable, Iterable, Iterator

from epoxy.model.api_members import EpochChange
from epoxy.model.cluster import ClusterConfig, ReplicaStatus

NameOf = Callable[[int], str]
"""Of a replica: what people call it."""

TOGETHER = "old and new members decide together until all is copied"


def changes_between(before: ClusterConfig | None, after: ClusterConfig, name_of: NameOf) -> tuple[EpochChange, ...]:
    """`before` None: nothing earlier is known."""
    if before is None:
        words = f"{names(after.active, name_of)} decide{ending(after.active)}"
        return (EpochChange(what="first", members=after.active, words=words),)
    if after.is_joint and not before.is_joint:
        changes = [began_together(after, name_of)]
    elif before.is_joint and not after.is_joint:
        changes = list(ended_together(before, after, name_of))
    else:
        changes = list(listed(before, after, name_of))
    return (*changes, *moved(before, after, name_of))


def began_together(after: ClusterConfig, name_of: NameOf) -> EpochChange:
    added, gone = sides_apart(after)
    if added and gone:
        words = (
            f"{names(gone, name_of)} {verb(gone, 'is', 'are')} being replaced by {names(added, name_of)}: {TOGETHER}"
        )
    elif added:
        words = f"{names(added, name_of)} begin{ending(added)} to vote: {TOGETHER}"
    else:
        words = f"{names(gone, name_of)} {verb(gone, 'is', 'are')} being removed: {TOGETHER}"
    return EpochChange(what="together", members=added, instead_of=gone, words=words)


def ended_together(before: ClusterConfig, after: ClusterConfig, name_of: NameOf) -> Iterator[EpochChange]:
    added, gone = sides_apart(before)
    if set(after.active) != set(before.active):
        words = "the change was given up: the old members decide alone again"
        yield EpochChange(what="undone", members=added, instead_of=gone, words=words)
    elif added and gone:
        words = f"{names(added, name_of)} {verb(added, 'has', 'have')} replaced {names(gone, name_of)}"
        yield EpochChange(what="replaced", members=added, instead_of=gone, words=words)
    elif added:
        words = f"{names(added, name_of)} vote{ending(added)} now"
        yield EpochChange(what="votes", members=added, words=words)
    elif gone:
        words = f"{names(gone, name_of)} {verb(gone, 'was', 'were')} removed"
        yield EpochChange(what="removed", members=gone, words=words)


def listed(before: ClusterConfig, after: ClusterConfig, name_of: NameOf) -> Iterator[EpochChange]:
    """Newcomers are listed, copy, or are dropped again. Voters change in joint epochs alone; a node that missed those
    sees members that are simply there, or gone."""
    new = apart(after.replica_ids, before.replica_ids)
    coming = tuple([i for i in new if status_of(after, i) is not ReplicaStatus.ACTIVE])
    there = apart(new, coming)
    copying = tuple([i for i in after.replica_ids if is_new_learner(before, after, i)])
    gone = apart(before.replica_ids, after.replica_ids)
    voted = tuple([i for i in gone if status_of(before, i) is ReplicaStatus.ACTIVE])
    if coming:
        words = f"{names(coming, name_of)} join{ending(coming)}"
        yield EpochChange(what="joins", members=coming, words=words)
    if copying:
        words = f"{names(copying, name_of)} cop{verb(copying, 'ies', 'y')} what the others hold"
        yield EpochChange(what="copies", members=copying, words=words)
    if there:
        yield EpochChange(what="votes", members=there, words=f"{names(there, name_of)} vote{ending(there)} now")
    if voted:
        words = f"{names(voted, name_of)} {verb(voted, 'was', 'were')} removed"
        yield EpochChange(what="removed", members=voted, words=words)
    if dropped := apart(gone, voted):
        words = f"{names(dropped, name_of)} {verb(dropped, 'is', 'are')} not asked for any more"
        yield EpochChange(what="given_up", members=dropped, words=words)
    known = tuple([i for i in after.replica_ids if is_recorded(before, after, i) and i not in copying])
    if known:
        words = (
            f"the disk{'s' if len(known) > 1 else ''} of {names(known, name_of)} {verb(known, 'is', 'are')} on record"
        )
        yield EpochChange(what="recorded", members=known, words=words)


def moved(before: ClusterConfig, after: ClusterConfig, name_of: NameOf) -> Iterator[EpochChange]:
    for info in after.replicas:
        was = before.info(info.id)
        if was is not None and was.url != info.url:
            words = f"{name_of(info.id)} moved to {' and '.join(info.urls)}"
            yield EpochChange(what="moved", members=(info.id,), words=words)


def sides_apart(joint: ClusterConfig) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of a joint epoch: those who come, and those who go."""
    assert joint.previous is not None
    return apart(joint.active, joint.previous), apart(joint.previous, joint.active)


def apart(some: Iterable[int], others: Iterable[int]) -> tuple[int, ...]:
    return tuple(sorted(set(some) - set(others)))


def status_of(config: ClusterConfig, replica: int) -> ReplicaStatus | None:
    info = config.info(replica)
    return info.status if info is not None else None


def is_new_learner(before: ClusterConfig, after: ClusterConfig, replica: int) -> bool:
    learning = ReplicaStatus.LEARNING
    return status_of(after, replica) is learning and status_of(before, replica) is ReplicaStatus.JOINING


def is_recorded(before: ClusterConfig, after: ClusterConfig, replica: int) -> bool:
    """Whether the identity of its store is new in the configuration."""
    was, now = before.info(replica), after.info(replica)
    return was is not None and now is not None and not was.identity and bool(now.identity)


def names(replicas: tuple[int, ...], name_of: NameOf) -> str:
    called = [name_of(replica) for replica in replicas]
    return " and ".join([*([", ".join(called[:-1])] if len(called) > 1 else []), called[-1]]) if called else "none"


def ending(replicas: tuple[int, ...]) -> str:
    return verb(replicas, "s", "")


def verb(replicas: tuple[int, ...], one: str, many: str) -> str:
    return one if len(replicas) == 1 else many
