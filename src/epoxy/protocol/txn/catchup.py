"""Decisions for a replica that missed them, in an order in which each can be executed as soon as it arrives.

There is one stream of decisions for each coordinator, by slot. Sent one stream after the other, nearly every decision
would have to wait at the receiver for one of a later stream, and be visited again with each that arrives.
"""

from collections.abc import Iterable, Iterator, Mapping

from epoxy.model.instances import MAX_PAGE, MAX_PAGE_BYTES, InstanceId, OrderedCommit

Floors = Mapping[int, int]
"""By replica: all slots up to this one."""


def dependencies_first(streams: Mapping[int, Iterator[OrderedCommit]], known: Floors) -> Iterator[OrderedCommit]:
    """Merge the streams: dependencies of a decision come before it, as far as each stream keeps its order. What the
    receiver knows counts as sent, and so does a stream that has ended. Decisions that depend on each other in a circle
    come one after the other."""
    heads = {replica: head for replica, stream in streams.items() if (head := next(stream, None)) is not None}
    sent = dict(known)
    while heads:
        replica = first_ready(heads, sent)
        commit = heads[replica]
        yield commit
        sent[replica] = max(sent.get(replica, 0), commit.id.slot)
        following = next(streams[replica], None)
        if following is None:
            del heads[replica]
        else:
            heads[replica] = following


def first_ready(heads: Mapping[int, OrderedCommit], sent: Floors) -> int:
    """A stream whose next decision waits for none of the others: begin with any, and follow what it waits for. A stream
    met twice is part of a circle, of which any may be sent."""
    replica, passed = next(iter(heads)), set[int]()
    while replica not in passed:
        passed.add(replica)
        waited = unsent(heads[replica], heads, sent)
        if waited is None or waited == replica:
            return replica
        replica = waited
    return replica


def unsent(commit: OrderedCommit, heads: Mapping[int, OrderedCommit], sent: Floors) -> int | None:
    """A stream that has something this decision depends on and that was not sent yet."""
    if commit.command is None:
        return None
    for each in (*commit.deps.upto, *commit.deps.also):
        if each.slot > sent.get(each.replica_id, 0) and each.replica_id in heads and each != commit.id:
            return each.replica_id
    return None


def page_of(commits: Iterable[OrderedCommit]) -> tuple[tuple[OrderedCommit, ...], bool]:
    """As many as fit, and whether there are more."""
    page: list[OrderedCommit] = []
    size = 0
    for commit in commits:
        if len(page) >= MAX_PAGE or size >= MAX_PAGE_BYTES:
            return tuple(page), True
        page.append(commit)
        size += commit.command.size if commit.command is not None else 0
    return tuple(page), False


def known_after(known: Iterable[InstanceId], commits: Iterable[OrderedCommit]) -> tuple[InstanceId, ...]:
    """What is known once these have been learned. A page holds every slot of a stream from the first unknown one on."""
    floors = {end.replica_id: end.slot for end in known}
    for commit in commits:
        floors[commit.id.replica_id] = max(floors.get(commit.id.replica_id, 0), commit.id.slot)
    return tuple([InstanceId(replica_id, slot) for replica_id, slot in sorted(floors.items())])
