"""Terms: periods with fixed members, each with slots of its own. How one ends, and when the next begins.

The rules, and why they are safe: docs/protocol/ordered.md, "Members".
"""

import enum
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from epoxy.model.cluster import ClusterConfig
from epoxy.model.instances import Ended, InstanceId, Seal, Sealed, Term
from epoxy.model.quorum import Quorums
from epoxy.protocol.effects import Also, Context, Expired, Local, Next, Open
from epoxy.protocol.txn.effects import Flow
from epoxy.protocol.txn.log import InstanceLog

Ends = dict[int, int]
"""The last slot of each replica in a term."""

SENDS = 3
"""How often members that do not answer are asked for the last slots of a term, before `close` gives up for now."""


class Part(enum.Enum):
    """A replica's part in its term."""

    OUT = "out"
    """Not a member: it answers nothing and executes nothing, so that what is copied to it stays as it is."""
    WAITING = "waiting"
    """Its term has not begun as far as it knows. It executes nothing: newcomers copy from it."""
    LEARNING = "learning"
    """It does not know the voters of its term: it only learns decisions."""
    OPEN = "open"
    CLOSING = "closing"
    """The term ends, and its last slots are not known: it does not vote."""
    ENDING = "ending"
    """The last slots are known: it finishes instances up to them, and no others."""


def part_of(term: Term | None, ends: Ends | None, config: ClusterConfig | None, me: int) -> Part:
    if term is None or (config is not None and me not in config.electorate):
        return Part.OUT
    if config is not None and term.number > config.term:
        return Part.WAITING
    if term.voters is None:
        return Part.LEARNING
    if not term.ending:
        return Part.OPEN
    return Part.CLOSING if ends is None else Part.ENDING


def votes_on(part: Part, ends: Ends | None, instance_id: InstanceId) -> bool:
    return part is Part.OPEN or (part is Part.ENDING and not is_beyond(ends, instance_id))


def is_beyond(ends: Ends | None, instance_id: InstanceId) -> bool:
    """Whether it is known to be a Nop, because its term ended before it."""
    return ends is not None and instance_id.slot > ends.get(instance_id.replica_id, 0)


def adopted(term: Term, config: ClusterConfig, me: int) -> Term:
    """A replica's term under a newly adopted configuration. The joint epoch ends the term, and so does a later epoch if
    the replica has missed the joint one."""
    if term.voters is None and config.since <= term.number <= config.term and me in config.electorate:
        term = replace(term, voters=config.electorate, policy=config.quorum_policy)
    if term.number < config.term or (term.number == config.term and config.is_joint):
        term = replace(term, ending=True)
    return term


def is_over(ends: Ends | None, log: InstanceLog) -> bool:
    """Whether all instances of the term, up to its last slots, were executed here."""
    return ends is not None and all(log.executed.get(replica, 0) >= slot for replica, slot in ends.items())


def last_slots(log: InstanceLog) -> tuple[InstanceId, ...]:
    return tuple([InstanceId(replica, slot) for replica, slot in sorted(log.highest.items()) if slot])


# How it ends


def close(ctx: Context) -> Flow[Ended | Sealed | None]:
    """The decided end of the term (`Ended`), if a member knows it; or a proposal for it (`Sealed`), by a slow quorum of
    members that vote on nothing until it is decided. Members that do not answer are asked again, and an answer to any
    of these requests counts: that of a sealed member stays true. None: too few answer."""
    own: object = yield Local(Seal())
    if isinstance(own, Ended):
        return own
    sealed: dict[int, tuple[InstanceId, ...]] = {}
    counts = isinstance(own, Sealed)
    if isinstance(own, Sealed):
        sealed[ctx.me] = own.ends
    yield Open(envelopes=ctx.to_others(Seal()), timer_ms=ctx.timing.round_timeout_ms)
    sends = 1
    while not enough(sealed, ctx.config.quorums):
        event = yield Next()
        if isinstance(event, Expired):
            if sends == SENDS:
                return None
            yield Also(envelopes=ctx.to_rest(Seal(), sealed), timer_ms=ctx.patient(sends).timing.round_timeout_ms)
            sends += 1
            continue
        match event.reply:
            case Ended():
                return event.reply
            case Sealed(ends=ends) if counts:
                sealed[event.sender] = ends
            case _:
                pass
    return Sealed(ends=furthest(sealed.values()))


def enough(sealed: Mapping[int, object], quorums: Quorums) -> bool:
    return len(sealed) >= quorums.slow


def furthest(reports: Iterable[tuple[InstanceId, ...]]) -> tuple[InstanceId, ...]:
    slots: Ends = {}
    for ends in reports:
        for end in ends:
            slots[end.replica_id] = max(slots.get(end.replica_id, 0), end.slot)
    return tuple([InstanceId(replica, slot) for replica, slot in sorted(slots.items())])
