"""Reads: from the local replica if possible, from the others if not, with a quorum if asked for."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeGuard, TypeVar

from epoxy.model.cluster import ClusterConfig, both_sides
from epoxy.model.messages import AlreadyCommitted, Read, ReadOk, Reply, StaleEpoch
from epoxy.model.records import Proposal, Vote
from epoxy.model.writes import Consistency, Path, ReadFailed, ReadOutcome, ReadResult, Source
from epoxy.protocol.effects import Also, Answer, Context, Expired, Next, Open, Pause
from epoxy.protocol.keys.effects import EpochChanged, Flow
from epoxy.protocol.keys.local import run_local
from epoxy.protocol.keys.operations import Cache, Peek
from epoxy.protocol.keys.recovery import fast_winners, still_counts
from epoxy.protocol.keys.rounds import adopt, classic_rounds, gather, learn_locally
from epoxy.protocol.keys.terms import Decision, Free, GaveUp, KeyInstance

T = TypeVar("T")

Replies = Mapping[int, ReadOk]
"""Of a quorum, by replica."""


def read(key: bytes, consistency: Consistency, ctx: Context) -> Flow[ReadOutcome]:
    if consistency is Consistency.LINEARIZABLE:
        return (yield from linearizable(key, ctx))
    use_cache = consistency is Consistency.OPTIMISTIC
    here: ReadResult | None = yield from run_local(Peek(key=key, use_cache=use_cache))
    if here is not None:
        return here
    found = yield from across_epochs(ctx, lambda ctx: read_any_value(key, ctx))
    if use_cache and isinstance(found, ReadResult) and is_value(found.committed):
        yield from run_local(Cache(key=key, proposal=found.committed))
    return found


def across_epochs(ctx: Context, flow: Callable[[Context], Flow[T]]) -> Flow[T]:
    """Run the flow again under each new configuration. Epochs only rise, and members change rarely."""
    while True:
        try:
            return (yield from flow(ctx))
        except EpochChanged as change:
            ctx = yield from adopt(ctx, change)


def read_any_value(key: bytes, ctx: Context) -> Flow[ReadOutcome]:
    """Ask all voters; the first *value* found is the answer. "Not found" needs the empty answers of every voter that
    can be reached, and of at least a slow quorum: one empty answer proves nothing."""
    request, voters = read_request(key, ctx), ctx.config.voters
    answered, failed, found = {ctx.me} if ctx.votes else set[int](), 0, None
    yield Open(envelopes=dict.fromkeys(ctx.others(), (request,)), timer_ms=ctx.timing.round_timeout_ms)
    while len(answered) + failed < len(voters):
        event: Answer | Expired = yield Next()
        if isinstance(event, Expired):
            break
        if isinstance(event.reply, StaleEpoch):
            raise EpochChanged(event.reply.config)
        if not isinstance(event.reply, ReadOk):
            failed += 1
            continue
        answered.add(event.sender)
        found = newest(found, event.reply.committed)
        if is_value(found):
            break
    sides = ctx.config.sides
    is_quorum = len(answered) >= ctx.config.quorums.slow if sides is None else both_sides(sides, answered)
    if not is_value(found) and not is_quorum:
        return ReadFailed(reason=f"only {len(answered)} of {len(voters)} replicas answered")
    return ReadResult(committed=found, source=Source.REMOTE)


def linearizable(key: bytes, ctx: Context, writer: int | None = None) -> Flow[ReadOutcome]:
    """Ask a slow quorum for the committed value and the vote. A vote above what is committed may belong to an
    acknowledged write, so it is found out whether it does. A key without writes in flight costs one round trip.
    `writer`: the proposer whose votes were seen of late, which would be asked next, and is asked at once."""
    return (yield from across_epochs(ctx, lambda ctx: ask_quorum(key, ctx, writer)))


def ask_quorum(key: bytes, ctx: Context, writer: int | None) -> Flow[ReadOutcome]:
    nearest, slow = nearest_quorum(ctx), ctx.config.quorums.slow
    if nearest is None:
        return (yield from ask_voters(key, ctx, asked_already=0))
    spare = rest(ctx, nearest)
    if writer in spare:
        nearest, spare = (*nearest, writer), tuple([voter for voter in spare if voter != writer])
    got = yield from gather(ctx, read_request(key, ctx), nearest, need=slow, own={}, base=None, spare=spare)
    if got.reached:
        return (yield from finish_in_flight(key, read_oks(got.oks), ctx, asked=nearest))
    return (yield from ask_voters(key, ctx, asked_already=1))


def ask_voters(key: bytes, ctx: Context, *, asked_already: int) -> Flow[ReadOutcome]:
    """Ask all voters, with retries."""
    request, slow = read_request(key, ctx), ctx.config.quorums.slow
    for attempt in range(asked_already, ctx.timing.retries + 1):
        if attempt:
            yield Pause(delay_ms=ctx.backoff_ms(attempt - 1), key=key, version=0)
        got = yield from gather(ctx, request, ctx.config.voters, need=slow, own={}, base=None)
        if got.reached:
            return (yield from finish_in_flight(key, read_oks(got.oks), ctx, asked=ctx.config.voters))
    return ReadFailed(reason=f"no quorum after {ctx.timing.retries} retries")


def read_request(key: bytes, ctx: Context) -> Read:
    return Read(key=key, epoch=ctx.config.epoch)


def resume_linearizable(
    key: bytes, ctx: Context, replies: Replies | None, news: StaleEpoch | None
) -> Flow[ReadOutcome]:
    """Go on with a linearizable read whose first round was run by `node.keys.quiet_read`. `replies`: the answers of a
    quorum; `news`: a newer epoch; neither: too few answered."""
    try:
        if news is not None:
            raise EpochChanged(news.config)
        if replies is not None:
            return (yield from finish_in_flight(key, replies, ctx))
        return (yield from ask_voters(key, ctx, asked_already=1))
    except EpochChanged as change:
        ctx = yield from adopt(ctx, change)
    return (yield from linearizable(key, ctx))


def nearest_quorum(ctx: Context) -> tuple[int, ...] | None:
    """The nearest replicas that make a slow quorum, if latencies are known. Asking more would only cost them work."""
    slow, voters = ctx.config.quorums.slow, ctx.config.voters
    near, me = ctx.timing.near, ctx.me
    near = tuple([voter for voter in (near if me in near else (me, *near)) if voter in voters])[:slow]
    return near if not ctx.config.is_joint and len(near) == slow < len(voters) else None


def rest(ctx: Context, nearest: tuple[int, ...]) -> tuple[int, ...]:
    """The voters that are asked when the nearest quorum does not answer in time."""
    return tuple([voter for voter in ctx.config.voters if voter not in nearest])


def finish_in_flight(key: bytes, replies: Replies, ctx: Context, asked: Sequence[int] = ()) -> Flow[ReadOutcome]:
    """The newest version a quorum knows of. If votes were seen above it: how that instance ends, or that it had not
    ended when the read began. A Prepare would forbid the fast round of a live writer, so it comes last. `asked`: in the
    round that is still open."""
    committed = newest_of(replies.values())
    votes = in_flight(replies, version_of(committed), ctx.config)
    if not votes:
        return ReadResult(committed=committed, source=Source.QUORUM)
    if are_live(votes.values(), ctx.config):
        ended = yield from await_end(key, committed, unheard_winners(votes, replies, ctx.config), asked, ctx)
        if ended is not None:
            return ended
    if committed is not None:
        yield from learn_locally(ctx, key, AlreadyCommitted(committed=committed), Path.SLOW)
    instance = KeyInstance(key=key, base=committed)
    outcome = yield from classic_rounds(ctx, instance, None, None)
    match outcome:
        case Decision():
            return ReadResult(committed=outcome.committed, source=Source.QUORUM)
        case Free():
            return ReadResult(committed=committed, source=Source.QUORUM)
        case GaveUp():
            return ReadFailed(reason=outcome.reason)


def are_live(votes: Iterable[Vote], config: ClusterConfig) -> bool:
    """Whether their proposers may be at work. Votes of earlier epochs are finished at once: the next epoch waits until
    they are (`node.members.settle`), and their rounds cannot end by themselves."""
    return not config.is_joint and all(vote.epoch == config.epoch for vote in votes)


def unheard_winners(votes: Mapping[int, Vote], replies: Replies, config: ClusterConfig) -> list[int] | None:
    """The proposers of a fast round that may have committed it before the read began. Only a proposer itself concludes
    its fast round, so one that answered this read with an older version had not. None: a classic round may have ended
    at any replica."""
    fast = [vote for vote in votes.values() if vote.ballot.is_fast]
    if len(fast) < len(votes):
        return None
    return fast_winners(fast, {sender: votes.get(sender) for sender in replies}, config)


def await_end(
    key: bytes, committed: Proposal | None, winners: list[int] | None, asked: Sequence[int], ctx: Context
) -> Flow[ReadResult | None]:
    """Ask the proposers that may have committed the instance above, unless they were, and wait, for as long as the
    hedge, for this replica to learn its commit. None: it did, or the hedge is over; the state here tells which."""
    base, unheard = version_of(committed), set(winners or ())
    if winners is None or unheard:
        envelopes = dict.fromkeys(
            [winner for winner in winners or () if winner not in asked], (read_request(key, ctx),)
        )
        yield Also(envelopes=envelopes, timer_ms=ctx.timing.hedge_ms, key=key, version=base + 1)
    while winners is None or unheard:
        event: Answer | Expired = yield Next()
        if isinstance(event, Expired):
            return None
        if isinstance(event.reply, StaleEpoch):
            raise EpochChanged(event.reply.config)
        if isinstance(event.reply, ReadOk):
            unheard.discard(event.sender)
            if version_of(event.reply.committed) > base:
                return ReadResult(committed=event.reply.committed, source=Source.QUORUM)
    return ReadResult(committed=committed, source=Source.QUORUM)


def in_flight(replies: Replies, base: int, config: ClusterConfig) -> dict[int, Vote]:
    """By replica, the votes on top of this version or a later one, which may belong to unfinished writes."""
    votes: dict[int, Vote] = {}
    for sender, reply in replies.items():
        vote = reply.vote
        if vote is not None and vote.proposal.base >= base and still_counts(vote, config):
            votes[sender] = vote
    return votes


def read_oks(answers: Mapping[int, Reply]) -> Replies:
    return {sender: answer for sender, answer in answers.items() if isinstance(answer, ReadOk)}


def newest_of(replies: Iterable[ReadOk]) -> Proposal | None:
    committed: Proposal | None = None
    for reply in replies:
        committed = newest(committed, reply.committed)
    return committed


def version_of(committed: Proposal | None) -> int:
    return committed.version if committed is not None else 0


def newest(a: Proposal | None, b: Proposal | None) -> Proposal | None:
    if a is None or b is None:
        return b if a is None else a
    return b if b.version > a.version else a


def is_value(committed: Proposal | None) -> TypeGuard[Proposal]:
    return committed is not None and not committed.is_tombstone
