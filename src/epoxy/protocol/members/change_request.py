"""Turns what an operator asks for into the change request that is written to its register, or into an objection."""

from collections.abc import Container, Iterable

from msgspec import Struct
from msgspec.structs import replace

from epoxy.model.cluster import ClusterConfig
from epoxy.model.members import ChangeRequest, Member
from epoxy.model.node_urls import spelling
from epoxy.model.quorum import MAX_REPLICAS, quorums
from epoxy.protocol.members.changes import format_ids


class Amendment(Struct, frozen=True, kw_only=True):
    """Members to add, to remove and to move to other addresses, in one change. `force`: even if too few of those that
    stay can be reached now."""

    add: tuple[Member, ...] = ()
    remove: tuple[int, ...] = ()
    move: tuple[Member, ...] = ()
    force: bool = False


class Objection(Struct, frozen=True, kw_only=True):
    """Why an amendment is refused. Nothing was written."""

    code: str
    words: str


def apply_amendment(
    config: ClusterConfig, request: ChangeRequest | None, given: Amendment, reached: Container[int]
) -> ChangeRequest | Objection:
    """`reached`: the members that answer now."""
    before = requested_before(config, request)
    objection = first_objection(before, given)
    if objection is not None:
        return objection
    after = {i: member for i, member in before.items() if i not in given.remove}
    after |= {member.id: member for member in given.add}
    after |= {member.id: replace(before[member.id], url=member.url) for member in given.move}
    objection = size_objection(after, before, given, reached)
    return objection or ChangeRequest(members=tuple(after[i] for i in sorted(after)))


def requested_before(config: ClusterConfig, request: ChangeRequest | None) -> dict[int, Member]:
    """The members requested last, so that a request still waiting is kept; without one, the active members."""
    if request is not None:
        return {member.id: member for member in request.members}
    infos = [info for info in config.replicas if info.id in config.active]
    return {info.id: Member(id=info.id, url=info.url, datacenter=info.datacenter) for info in infos}


def first_objection(before: dict[int, Member], given: Amendment) -> Objection | None:
    if not given.add and not given.remove and not given.move:
        return Objection(code="nothing_to_do", words="no member to add, to remove or to move")
    moved = [member.id for member in given.move]
    for replica in (*given.remove, *moved):
        if replica not in before:
            return Objection(code="unknown_member", words=f"{replica} is none of the members: {format_ids(before)}")
    for member in given.add:
        if member.id in before:
            words = f"{member.id} is a member already, or on its way; a machine with another disk needs a new id"
            return Objection(code="already_member", words=words)
    for member in (*given.add, *given.move):
        if not member.url:
            return Objection(code="no_address", words=f"the address of {member.id} is missing")
    for member in given.move:
        if before[member.id].url == member.url:
            return Objection(code="nothing_to_do", words=f"{member.id} is at {member.url} already, or on its way there")
    return (
        duplicate_objection(member.id for member in given.add)
        or duplicate_objection((*given.remove, *moved))
        or address_objection(before, given)
    )


def duplicate_objection(ids: Iterable[int]) -> Objection | None:
    seen: set[int] = set()
    for i in ids:
        if i in seen:
            return Objection(code="named_twice", words=f"{i} is named twice")
        seen.add(i)
    return None


def address_objection(before: dict[int, Member], given: Amendment) -> Objection | None:
    """An address may be taken over from a member that leaves or moves."""
    gone = {*given.remove, *(member.id for member in given.move)}
    taken = {spelling(url): i for i, member in before.items() if i not in gone for url in member.urls}
    for member in (*given.move, *given.add):
        for url in member.urls:
            if spelling(url) in taken:
                return Objection(code="address_taken", words=f"{url} is the address of {taken[spelling(url)]}")
        taken |= {spelling(url): member.id for url in member.urls}
    return None


def size_objection(
    after: dict[int, Member], before: dict[int, Member], given: Amendment, reached: Container[int]
) -> Objection | None:
    if not after:
        return Objection(code="nobody_left", words="a cluster without members decides nothing")
    if len({*before, *after}) > MAX_REPLICAS:
        return Objection(code="too_many_members", words=f"at most {MAX_REPLICAS}, old and new together")
    there = [i for i in after if i not in before or i in reached]
    needed = quorums(len(after)).slow
    if len(there) < needed and not given.force:
        reachable = f"of {format_ids(after)} only {format_ids(there)} can be reached"
        words = f"{reachable}, and {needed} are needed to decide anything"
        return Objection(code="would_lose_quorum", words=words)
    return None
