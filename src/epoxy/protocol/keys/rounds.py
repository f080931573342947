"""Rounds: send requests, count the replies, until one instance is decided."""

from collections.abc import Mapping, Sequence

import msgspec

from epoxy.model.ballot import NO_BALLOT, Ballot, fast_ballot
from epoxy.model.cluster import Side, both_sides
from epoxy.model.errors import InvariantViolation
from epoxy.model.messages import (
    Accept,
    AcceptOk,
    AlreadyCommitted,
    Behind,
    Commit,
    CommitConflict,
    EpochAhead,
    HigherBallot,
    Prepare,
    PrepareOk,
    Read,
    ReadOk,
    Reply,
    Request,
    StaleEpoch,
    UpdateConfig,
)
from epoxy.model.records import Proposal
from epoxy.model.writes import Path
from epoxy.protocol.effects import Adopt, Also, Answer, Context, Expired, Next, Open, Pause, Tell
from epoxy.protocol.keys.effects import EpochChanged, Flow, Requests
from epoxy.protocol.keys.local import run_local
from epoxy.protocol.keys.operations import Conclude, Concluded, FastVote, Occupied, Reserve, Reserved
from epoxy.protocol.keys.recovery import choose
from epoxy.protocol.keys.terms import Decision, Free, GaveUp, KeyInstance, OwnProposal

Oks = Mapping[int, Reply]


class Gathered:
    """Replies of one round. It needs `need` of the `asked` replicas, or a quorum of each of the `sides`."""

    def __init__(self, *, need: int, asked: int, oks: dict[int, Reply], sides: tuple[Side, ...] | None = None) -> None:
        self.need = need
        self.asked = asked
        self.oks = oks
        self.sides = sides
        self.refused: set[int] = set()
        self.helped: set[int] = set()
        self.highest = NO_BALLOT
        self.decided: AlreadyCommitted | None = None

    @property
    def reached(self) -> bool:
        return len(self.oks) >= self.need if self.sides is None else both_sides(self.sides, self.oks)

    @property
    def settled(self) -> bool:
        """No reply that may still arrive would change the result."""
        return self.decided is not None or self.reached or self.is_out_of_reach

    @property
    def is_out_of_reach(self) -> bool:
        if self.sides is None:
            return self.asked - len(self.refused) < self.need
        return any(len(side.members - self.refused) < side.need for side in self.sides)

    def count(self, sender: int, reply: Reply) -> None:
        match reply:
            case PrepareOk() | AcceptOk() | ReadOk():
                self.oks[sender] = reply
            case AlreadyCommitted():
                self.decided = reply
            case HigherBallot():
                self.highest = max(self.highest, reply.ballot)
                self.refused.add(sender)
            case StaleEpoch():
                raise EpochChanged(reply.config)
            case _:
                self.refused.add(sender)


def gather(
    ctx: Context,
    request: Prepare | Accept | Read,
    to: Sequence[int],
    *,
    need: int,
    own: Oks,
    base: Proposal | None,
    spare: Sequence[int] = (),
) -> Flow[Gathered]:
    """Send to all, and return as soon as the result of the round is known, or its timer rings. `own` are replies this
    replica has already given itself. A replica that misses a commit or a configuration is sent it, once, followed by
    the request again. In a joint epoch both sides must reach a slow quorum, whatever `need` says. `spare`: replicas
    that are asked as well when one of the others fails, or `read_hedge_ms` is over."""
    got = Gathered(need=need, asked=len(to) + len(own) + len(spare), oks=dict(own), sides=ctx.config.sides)
    is_fast = isinstance(request, Accept) and request.ballot.is_fast
    timer_ms = ctx.timing.hedge_ms if is_fast else ctx.timing.round_timeout_ms
    if not got.settled:
        yield Open(envelopes=dict.fromkeys(to, (request,)), timer_ms=ctx.timing.read_hedge_ms if spare else timer_ms)
    while not got.settled:
        event: Answer | Expired = yield Next()
        if isinstance(event, Answer):
            missing = missing_before(event.reply, ctx, request, base)
            if missing is not None and event.sender not in got.helped:
                got.helped.add(event.sender)
                yield Also(envelopes={event.sender: (missing, request)})
            else:
                got.count(event.sender, event.reply)
        elif not spare:
            break
        if spare and (got.refused or isinstance(event, Expired)):
            yield Also(envelopes=dict.fromkeys(spare, (request,)), timer_ms=timer_ms)
            spare = ()
    return got


def missing_before(
    reply: Reply, ctx: Context, request: Prepare | Accept | Read, base: Proposal | None
) -> Request | None:
    match reply:
        case Behind() if base is not None and reply.version < base.version:
            return Commit(key=request.key, epoch=ctx.config.epoch, proposal=base)
        case EpochAhead():
            return UpdateConfig(config=ctx.config)
        case _:
            return None


def decide(
    ctx: Context, instance: KeyInstance, mine: OwnProposal, start: FastVote | Reserved
) -> Flow[Decision | GaveUp]:
    """Get the instance decided, with this fold if that is still possible."""
    if isinstance(start, FastVote):
        mine.put_forward()
        fast = yield from fast_round(ctx, instance, mine.fold.proposal)
        if fast is not None:
            return fast
    reserved = start if isinstance(start, Reserved) else None
    decision = yield from classic_rounds(ctx, instance, mine, reserved)
    assert not isinstance(decision, Free), "a round with a value of its own never ends free"
    return decision


def fast_round(ctx: Context, instance: KeyInstance, mine: Proposal) -> Flow[Decision | None]:
    """Proposer, step 2. This replica has voted in `Select`. None: the fast quorum is out of reach, or this replica has
    promised a classic ballot since."""
    if not ctx.votes:
        return None
    ballot, epoch = fast_ballot(ctx.me), ctx.config.epoch
    request = Accept(key=instance.key, epoch=epoch, ballot=ballot, proposal=mine)
    got = yield from gather(
        ctx, request, ctx.others(), need=ctx.config.quorums.fast, own={ctx.me: AcceptOk()}, base=instance.base
    )
    if got.decided is not None:
        return (yield from learn_locally(ctx, instance.key, got.decided, Path.FAST))
    if not got.reached:
        return None
    result = yield from run_local(Conclude(key=instance.key, proposal=mine, epoch=epoch))
    match result:
        case Concluded():
            yield broadcast_commit(ctx, instance.key, mine)
            return Decision(committed=mine, path=Path.FAST)
        case AlreadyCommitted():
            return Decision(committed=result.committed, lineage=result.lineage, path=Path.FAST)
        case _:
            return None


def classic_rounds(
    ctx: Context, instance: KeyInstance, mine: OwnProposal | None, reserved: Reserved | None
) -> Flow[Decision | Free | GaveUp]:
    """Proposer, steps 3 to 5, until something is decided. Without a proposal (`mine`) this is a recovery.

    No duels: while a rival has the higher ballot, this replica waits a turn before it takes a higher one, at most until
    it learns the decision. The rival with the highest ballot waits for none, and a turn is over even if that one is
    silent, so one of them always goes on."""
    if not ctx.votes:
        return GaveUp(f"replica {ctx.me} is not an active member")
    above, silent, pause_ms, insists = NO_BALLOT, 0, 0.0, False
    for attempt in range(ctx.timing.retries + 1):
        if attempt:
            yield Pause(delay_ms=pause_ms, key=instance.key, version=instance.number + 1)
        if reserved is None:
            held = yield from run_local(reservation(ctx, instance, above, insists=insists))
            if isinstance(held, AlreadyCommitted):
                return Decision(committed=held.committed, lineage=held.lineage, path=Path.SLOW)
            if isinstance(held, Occupied):
                pause_ms, insists = ctx.turn_ms(), True
                continue
            reserved = held
        result = yield from classic_round(ctx.patient(silent) if silent else ctx, instance, mine, reserved)
        if not isinstance(result, Ballot):
            return result
        insists = result != NO_BALLOT
        silent += not insists
        pause_ms = ctx.turn_ms() if insists else ctx.backoff_ms(attempt)
        above, reserved = result, None
    return GaveUp(f"no quorum after {ctx.timing.retries} retries")


def reservation(ctx: Context, instance: KeyInstance, above: Ballot, *, insists: bool) -> Reserve:
    return Reserve(
        key=instance.key,
        base=instance.number,
        above=above,
        me=ctx.me,
        epoch=ctx.config.epoch,
        rank=ctx.timing.rank,
        insists=insists,
    )


def classic_round(
    ctx: Context, instance: KeyInstance, mine: OwnProposal | None, reserved: Reserved
) -> Flow[Decision | Free | Ballot]:
    """Phase 1 and phase 2 at one ballot. A ballot as the result: refused, and the next try must be above it."""
    ballot, epoch, slow = reserved.ballot, ctx.config.epoch, ctx.config.quorums.slow
    ask = Prepare(key=instance.key, epoch=epoch, ballot=ballot, base=instance.number)
    own = {ctx.me: PrepareOk(vote=reserved.vote)}
    promises = yield from gather(ctx, ask, ctx.others(), need=slow, own=own, base=instance.base)
    if promises.decided is not None:
        return (yield from learn_locally(ctx, instance.key, promises.decided, Path.SLOW))
    if not promises.reached:
        return promises.highest
    chosen = choose({i: ok.vote for i, ok in promises.oks.items() if isinstance(ok, PrepareOk)}, ctx.config)
    if chosen is None:
        if mine is None:
            return Free()
        mine.put_forward()
        chosen = mine.fold.proposal
    vote = Accept(key=instance.key, epoch=epoch, ballot=ballot, proposal=chosen)
    votes = yield from gather(ctx, vote, ctx.config.voters, need=slow, own={}, base=instance.base)
    if votes.decided is not None:
        return (yield from learn_locally(ctx, instance.key, votes.decided, Path.SLOW))
    if not votes.reached:
        return votes.highest
    decided = yield from learn_locally(ctx, instance.key, AlreadyCommitted(committed=chosen), Path.SLOW)
    yield broadcast_commit(ctx, instance.key, chosen)
    return decided


def learn_locally(ctx: Context, key: bytes, decided: AlreadyCommitted, path: Path) -> Flow[Decision]:
    """Commit a decision locally; only then is anything else done with it."""
    result = yield from run_local(Commit(key=key, epoch=ctx.config.epoch, proposal=decided.committed))
    if isinstance(result, CommitConflict):
        raise InvariantViolation(f"two values for {key!r}: {result.committed} and {decided.committed}")
    return Decision(committed=decided.committed, lineage=decided.lineage, path=path)


def broadcast_commit(ctx: Context, key: bytes, proposal: Proposal) -> Tell[Requests]:
    """Commit to all other replicas, learners too. No reply is awaited: a replica that misses it answers `Behind` later,
    and is sent it then."""
    commit = Commit(key=key, epoch=ctx.config.epoch, proposal=proposal)
    return Tell(envelopes={replica: (commit,) for replica in ctx.config.replica_ids if replica != ctx.me})


def adopt(ctx: Context, change: EpochChanged) -> Flow[Context]:
    config = yield from run_local(Adopt(config=change.config))
    return msgspec.structs.replace(ctx, config=config)
