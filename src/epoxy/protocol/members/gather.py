"""What the node that makes a backup does first, so that everything acknowledged before is in its own store.

An acknowledged write was voted for by a quorum, and is committed at its home. The replicas asked here are so many, this
one among them, that every quorum has one of them: that one has the vote, or the decision.

1. Its open votes, of every epoch that counts, are settled with a quorum, and the decisions are learned here.
2. Then, not before, what it has committed is compared with what is held here, and learned. In the other order a vote
   could become a commit between the two, and be in neither.
3. A transaction's command is known to a quorum, too, before it is acknowledged: this replica executes everything up to
   the last slots that the asked ones know.

Rows of actors come before all this: the names they belong to were reserved earlier, and are gathered with the keys.
"""

from collections.abc import Collection, Iterable

from msgspec import Struct

from epoxy.model.cluster import ClusterConfig
from epoxy.model.instances import InstanceId
from epoxy.model.members import (
    ActorsPage,
    ActorsRead,
    Frontier,
    FrontierRead,
    HeldPage,
    HeldRead,
    MemberReply,
    MemberRequest,
    Stretch,
    UnsettledPage,
    VotesRead,
)
from epoxy.model.messages import EpochAhead, StaleEpoch
from epoxy.protocol.members.effects import (
    AskAll,
    CollectActors,
    CurrentConfig,
    Execute,
    Flow,
    Repair,
    Rest,
    Settle,
    SummariseRows,
    adopt,
    tell,
)
from epoxy.protocol.members.learner import is_current, sources_in_order

ATTEMPTS = 4
AGAIN_MS = 1_000.0
"""Between attempts: a change of members ends in a second or two, and so does a short break of a link."""

ASKED_AGAIN = 3
"""How often one page is asked for: a busy replica may answer late."""

STRETCHES = 32
"""In one request: eight thousand keys, which a busy source compares well within the time-out of a page."""

GRACE_MS = 100.0
"""Before open votes are settled: most belong to writes that their proposers finish within a round trip, and to settle
them would only disturb those."""

CHANGING = "the members are changing; try again when that is done"


class GatherOutcome(Struct, frozen=True, kw_only=True):
    """`asked`: the replicas whose votes and commits are here, this one included. `reason`: why these are too few; empty
    if they are enough."""

    asked: tuple[int, ...] = ()
    missing: tuple[int, ...] = ()
    reason: str = ""


def covers(config: ClusterConfig, asked: Collection[int]) -> bool:
    """Whether every quorum has one of these."""
    left = set(config.electorate) - set(asked)
    return len(left) < config.quorums.slow


# Keys


def gather_keys(me: int) -> Flow[GatherOutcome]:
    """Everything acknowledged before this began is committed here, durably, unless the result has a reason."""
    outcome = GatherOutcome(reason=CHANGING)
    for attempt in range(ATTEMPTS):
        if attempt:
            yield Rest(delay_ms=AGAIN_MS)
        config: ClusterConfig = yield CurrentConfig()
        if config.is_joint:
            outcome = GatherOutcome(reason=CHANGING)
            continue
        outcome = yield from gather_once(config, me)
        if not (yield from is_current(config)):
            outcome = GatherOutcome(reason=CHANGING)
        elif not outcome.reason:
            return outcome
    return outcome


def gather_once(config: ClusterConfig, me: int) -> Flow[GatherOutcome]:
    settled: list[int] = []
    for source in sources_in_order(config.electorate, me):
        settled += [source] if (yield from settle_votes(config, source)) else []
    if not covers(config, settled):
        return too_few(config, settled, "do not answer, or their open votes could not be settled with a quorum")
    held = yield from learn_held([source for source in settled if source != me])
    asked = {me, *held} if me in settled else held
    if not covers(config, asked):
        return too_few(config, asked, "did not answer to the end")
    return GatherOutcome(asked=tuple(sorted(asked)), missing=without(config, asked))


def settle_votes(config: ClusterConfig, source: int) -> Flow[bool]:
    """Get every open vote of the source decided that counts, whatever its epoch."""
    after: bytes | None = None
    while True:
        replies = yield from ask_each((source,), VotesRead(epoch=config.epoch, after=after))
        page = replies.get(source)
        if isinstance(page, StaleEpoch):
            yield adopt(page.config)
            return False
        if isinstance(page, EpochAhead):
            yield tell((source,), config)
            return False
        if not isinstance(page, UnsettledPage):
            return False
        if page.keys:
            yield Rest(delay_ms=GRACE_MS)
            if not (yield Settle(keys=page.keys)):
                return False
        if not page.more:
            return True
        after = page.keys[-1].key


def learn_held(sources: Iterable[int]) -> Flow[set[int]]:
    """Learn what these replicas have committed, all at a time, in the order of keys. Returns those that answered to the
    end."""
    left = set(sources)
    after: bytes | None = None
    while left:
        held: tuple[Stretch, ...] = yield SummariseRows(after=after, stretches=STRETCHES)
        replies = yield from ask_each(sorted(left), HeldRead(after=after, held=held))
        pages = {source: page for source, page in replies.items() if isinstance(page, HeldPage)}
        left &= pages.keys()
        for page in pages.values():
            if page.entries:
                yield Repair(entries=page.entries)
        ends = [page.through for page in pages.values() if page.through is not None]
        if not ends:
            break
        after = min(ends)
    return left


# Transactions


def gather_transactions(config: ClusterConfig, me: int) -> Flow[str]:
    """Execute here all that was acknowledged before this began; returns why that failed, or an empty text."""
    others = [each for each in config.electorate if each != me]
    replies = yield from ask_each(others, FrontierRead())
    heard = {source: reply for source, reply in replies.items() if isinstance(reply, Frontier)}
    if not covers(config, {me, *heard}):
        return too_few(config, {me, *heard}, "do not answer").reason
    term = max((reply.term for reply in heard.values()), default=0)
    slots = furthest(reply.slots for reply in heard.values() if reply.term == term)
    done: bool = yield Execute(term=term, slots=slots)
    return "" if done else "transactions that others have decided could not be executed here in time"


def furthest(reports: Iterable[tuple[InstanceId, ...]]) -> tuple[InstanceId, ...]:
    slots: dict[int, int] = {}
    for report in reports:
        for each in report:
            slots[each.replica_id] = max(slots.get(each.replica_id, 0), each.slot)
    return tuple([InstanceId(replica, slot) for replica, slot in sorted(slots.items())])


# Actors


def gather_actors(me: int) -> Flow[tuple[int, ...]]:
    """The rows of all other members; returns those that did not answer to the end."""
    config: ClusterConfig = yield CurrentConfig()
    missing: list[int] = []
    for source in config.replica_ids:
        missing += [source] if source != me and not (yield from actors_of(source)) else []
    return tuple(missing)


def actors_of(source: int) -> Flow[bool]:
    after: bytes | None = None
    while True:
        replies = yield from ask_each((source,), ActorsRead(after=after))
        page = replies.get(source)
        if not isinstance(page, ActorsPage):
            return False
        yield CollectActors(source=source, rows=page.rows, begins=after is None)
        if not page.more:
            return True
        after = page.rows[-1].row


# Asking


def ask_each(to: Collection[int], request: MemberRequest) -> Flow[dict[int, MemberReply]]:
    """The replies by replica; those that stay silent are asked again."""
    found: dict[int, MemberReply] = {}
    for _ in range(ASKED_AGAIN):
        silent = tuple(each for each in to if each not in found)
        if silent:
            found |= yield AskAll(to=silent, request=request)
    return found


def without(config: ClusterConfig, asked: Collection[int]) -> tuple[int, ...]:
    return tuple(each for each in config.electorate if each not in asked)


def too_few(config: ClusterConfig, asked: Collection[int], words: str) -> GatherOutcome:
    missing = without(config, asked)
    names = " and ".join(named(config, each) for each in missing)
    need = config.quorums.n - config.quorums.slow + 1
    reason = f"{names} {words}; a backup needs {need} of {config.quorums.n} members"
    return GatherOutcome(asked=tuple(sorted(asked)), missing=missing, reason=reason)


def named(config: ClusterConfig, replica: int) -> str:
    info = config.info(replica)
    return f"{info.datacenter} (replica {replica})" if info is not None and info.datacenter else f"replica {replica}"
