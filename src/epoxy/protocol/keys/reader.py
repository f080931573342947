"""Reads: from the local replica if possible, from the others if not, with a quorum if asked for."""

from collections.abc import Callable, Iterable
from typing import TypeGuard, TypeVar

from epoxy.model.cluster import ClusterConfig, both_sides
from epoxy.model.messages import AlreadyCommitted, Read, ReadOk, Reply, StaleEpoch
from epoxy.model.records import Proposal
from epoxy.model.writes import Consistency, Path, ReadFailed, ReadOutcome, ReadResult, Source
from epoxy.protocol.effects import Answer, Context, Expired, Next, Open, Pause
from epoxy.protocol.keys.effects import EpochChanged, Flow
from epoxy.protocol.keys.local import run_local
from epoxy.protocol.keys.operations import Cache, Peek
from epoxy.protocol.keys.recovery import still_counts
from epoxy.protocol.keys.rounds import adopt, classic_rounds, gather, learn_locally
from epoxy.protocol.keys.terms import Decision, Free, GaveUp, KeyInstance

T = TypeVar("T")


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


def linearizable(key: bytes, ctx: Context) -> Flow[ReadOutcome]:
    """Ask a slow quorum for the committed value and the vote. A vote above what is committed may belong to an
    acknowledged write, so that instance is finished first. A key without writes in flight costs one round trip."""
    return (yield from across_epochs(ctx, lambda ctx: ask_quorum(key, ctx)))


def ask_quorum(key: bytes, ctx: Context) -> Flow[ReadOutcome]:
    nearest = nearest_quorum(ctx)
    if nearest is not None:
        got = yield from gather(
            ctx, read_request(key, ctx), nearest, need=ctx.config.quorums.slow, own={}, base=None, is_first_try=True
        )
        if got.reached:
            return (yield from finish_in_flight(key, got.oks.values(), ctx))
    return (yield from ask_voters(key, ctx, asked_already=0))


def ask_voters(key: bytes, ctx: Context, *, asked_already: int) -> Flow[ReadOutcome]:
    """Ask all voters, with retries."""
    request, slow = read_request(key, ctx), ctx.config.quorums.slow
    for attempt in range(asked_already, ctx.timing.retries + 1):
        if attempt:
            yield Pause(delay_ms=ctx.backoff_ms(attempt - 1), key=key, version=0)
        got = yield from gather(ctx, request, ctx.config.voters, need=slow, own={}, base=None)
        if got.reached:
            return (yield from finish_in_flight(key, got.oks.values(), ctx))
    return ReadFailed(reason=f"no quorum after {ctx.timing.retries} retries")


def read_request(key: bytes, ctx: Context) -> Read:
    return Read(key=key, epoch=ctx.config.epoch)


def resume_linearizable(
    key: bytes, ctx: Context, replies: list[ReadOk] | None, news: StaleEpoch | None
) -> Flow[ReadOutcome]:
    """Go on with a linearizable read whose first round was run by `node.keys.quiet_read`. `replies`: the answers of a
    quorum; `news`: a newer epoch; neither: too few answered."""
    try:
        if news is not None:
            raise EpochChanged(news.config)
        if replies is not None:
            return (yield from finish_in_flight(key, replies, ctx))
        return (yield from ask_voters(key, ctx, asked_already=1 if nearest_quorum(ctx) is None else 0))
    except EpochChanged as change:
        ctx = yield from adopt(ctx, change)
    return (yield from linearizable(key, ctx))


def nearest_quorum(ctx: Context) -> tuple[int, ...] | None:
    """The nearest replicas that make a slow quorum, if latencies are known. Asking more would only cost them work."""
    slow, voters = ctx.config.quorums.slow, ctx.config.voters
    near = [voter for voter in dict.fromkeys((ctx.me, *ctx.timing.near)) if voter in voters][:slow]
    return tuple(near) if not ctx.config.is_joint and len(near) == slow < len(voters) else None


def finish_in_flight(key: bytes, answers: Iterable[Reply], ctx: Context) -> Flow[ReadOutcome]:
    """The newest version a quorum knows of, after finishing what is in flight above it."""
    replies = [answer for answer in answers if isinstance(answer, ReadOk)]
    committed = newest_of(replies)
    if not in_flight(replies, version_of(committed), ctx.config):
        return ReadResult(committed=committed, source=Source.QUORUM)
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


def in_flight(replies: list[ReadOk], base: int, config: ClusterConfig) -> bool:
    """Whether a vote on top of this version or a later one may belong to an unfinished write."""
    for reply in replies:
        vote = reply.vote
        if vote is not None and vote.proposal.base >= base and still_counts(vote, config):
            return True
    return False


def newest_of(replies: list[ReadOk]) -> Proposal | None:
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
