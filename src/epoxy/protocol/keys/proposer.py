"""One client write, told from top to bottom."""

import msgspec

from epoxy.model.cluster import CONFIG_KEY
from epoxy.model.messages import AlreadyCommitted, Inspect, Inspected, StaleEpoch
from epoxy.model.records import Proposal, ProposalId
from epoxy.model.writes import Committed, ConsensusFailed, Outcome, Path, ReadFailed, Refused, Write
from epoxy.protocol.keys.effects import Answer, Context, EpochChanged, Expired, Flow, Next, Open
from epoxy.protocol.keys.local import at_home, propose_value
from epoxy.protocol.keys.operations import Answered, FastVote, Reserved, Select, Selected, Unconfirmed
from epoxy.protocol.keys.preconditions import judge, winner
from epoxy.protocol.keys.reader import linearizable
from epoxy.protocol.keys.rounds import adopt, decide, learned
from epoxy.protocol.keys.terms import Decision, GaveUp, KeyInstance, OwnProposal

OVERTAKEN = "overtaken"

MAX_ROUNDS_LOST = 100
"""Versions a mutable write may lose to others before it gives up. Each loss is somebody else's success, so this bounds
one client's wait, not the system's progress."""


class WriteIntent:
    """A write on its way. `offer` is what is or was put forward for it, None once that has lost for certain; `previous`
    is the version before that one."""

    def __init__(self, write: Write, proposal_id: ProposalId) -> None:
        self.write = write
        self.proposal_id = proposal_id
        self.offer: OwnProposal | None = None
        self.previous: Proposal | None = None
        self.travelled = Path.LOCAL

    @property
    def offered(self) -> int:
        """The version this write may have become, 0 if none."""
        return self.offer.proposal.version if self.offer is not None and self.offer.made else 0


def propose(write: Write, ctx: Context) -> Flow[Outcome]:
    """From the vote at home to the answer."""
    return (yield from pursue(WriteIntent(write, name_of(write, ctx)), ctx))


def pursue(
    wish: WriteIntent, ctx: Context, selected: Selected | None = None, news: AlreadyCommitted | StaleEpoch | None = None
) -> Flow[Outcome]:
    """A write that lost its version to another looks again, and so does one whose epoch changed under it. Whoever has
    begun it elsewhere says what came of that: what was selected at home, or what a round met."""
    for _ in range(MAX_ROUNDS_LOST):
        try:
            answer = yield from (take_in(wish, news, ctx) if news is not None else try_once(wish, ctx, selected))
        except EpochChanged as change:
            ctx = yield from adopt(ctx, change)
            answer = None
        if answer is not None:
            return answer
        selected = news = None
    return ConsensusFailed(reason=f"lost {MAX_ROUNDS_LOST} rounds to other writers")


def take_in(wish: WriteIntent, news: AlreadyCommitted | StaleEpoch, ctx: Context) -> Flow[Outcome | None]:
    if isinstance(news, StaleEpoch):
        raise EpochChanged(news.config)
    decision = yield from learned(ctx, wish.write.key, news, Path.FAST)
    return (yield from settled(wish, decision, ctx))


def name_of(write: Write, ctx: Context) -> ProposalId:
    """New for each write; but a configuration is named by its epoch, so that what names it can be told from itself."""
    if write.key == CONFIG_KEY:
        return ProposalId(ctx.me, (write.if_version or 0) + 1)
    return ProposalId(ctx.me, ctx.dice.nonce())


def try_once(wish: WriteIntent, ctx: Context, selected: Selected | None = None) -> Flow[Outcome | None]:
    """One look at home, unless somebody has taken it, and what follows from it. None: look again. What was put forward
    before is settled before anything else is said: somebody else may have finished it. Until it is, home has not moved,
    and judges as before."""
    if not ctx.votes and not wish.offered:
        return Refused(reason=f"replica {ctx.me} is not an active member")
    found: Selected = selected if selected is not None else (yield from at_home(selection(wish, ctx)))
    match found:
        case Answered():
            return travelled_at_least(found.outcome, wish.travelled)
        case Unconfirmed():
            wish.travelled = Path.SLOW
            return (yield from confirm(wish.write, ctx))
        case AlreadyCommitted():
            decision = Decision(committed=found.committed, lineage=found.lineage, path=Path.SLOW)
            return (yield from settled(wish, decision, ctx))
        case FastVote() | Reserved():
            return (yield from put_forward(wish, found, ctx))


def selection(wish: WriteIntent, ctx: Context) -> Select:
    return Select(
        write=wish.write, proposal_id=wish.proposal_id, offered=wish.offered, me=ctx.me, epoch=ctx.config.epoch
    )


def put_forward(wish: WriteIntent, start: FastVote | Reserved, ctx: Context) -> Flow[Outcome | None]:
    instance = instance_of(wish.write.key, start)
    if wish.offered != instance.version:
        # Otherwise it was put forward before the epoch changed, and stays so.
        wish.offer = OwnProposal(proposal=propose_value(wish.write, wish.proposal_id, instance.version))
        wish.previous = instance.base
    assert wish.offer is not None
    decision = yield from decide(ctx, instance, wish.offer, start)
    if isinstance(decision, GaveUp):
        return ConsensusFailed(reason=decision.reason)
    return (yield from settled(wish, decision, ctx))


def settled(wish: WriteIntent, decision: Decision, ctx: Context) -> Flow[Outcome | None]:
    """Whose is the version this write was put forward for? None: somebody else's, for certain."""
    wish.travelled = further(wish.travelled, decision.path)
    if wish.offer is not None and wish.offer.made:
        version = wish.offer.proposal.version
        won = winner(version, decision.committed, decision.lineage)
        if won is None:
            won = yield from ask_whose(wish.write.key, version, ctx)
        if won is None:
            return ConsensusFailed(reason=f"{OVERTAKEN}: nobody remembers whose version {version} was")
        if is_mine(won, wish.proposal_id):
            return Committed(proposal=wish.offer.proposal, mine=True, path=wish.travelled, previous=wish.previous)
    wish.offer = None
    return None


def ask_whose(key: bytes, version: int, ctx: Context) -> Flow[ProposalId | None]:
    """A replica that slept through a version does not remember it; the others may."""
    others = ctx.others()
    yield Open(envelopes=dict.fromkeys(others, (Inspect(key=key),)), timer_ms=ctx.timing.round_timeout_ms)
    for _ in others:
        event: Answer | Expired = yield Next()
        if isinstance(event, Expired):
            break
        held = event.reply
        if isinstance(held, Inspected) and held.committed is not None:
            won = winner(version, held.committed, held.lineage)
            if won is not None:
                return won
    return None


def is_mine(won: ProposalId, proposal_id: ProposalId) -> bool:
    """Compared by name, not by value: finishing somebody else's write is not winning."""
    return won == proposal_id


def confirm(write: Write, ctx: Context) -> Flow[Outcome | None]:
    """Ask a quorum for the truth, and answer from it, or bring it home and go on (None)."""
    truth = yield from linearizable(write.key, ctx)
    if isinstance(truth, ReadFailed):
        return ConsensusFailed(reason=truth.reason)
    verdict = judge(write, truth.committed, confirmed=True)
    if isinstance(verdict, Answered):
        return verdict.outcome
    assert verdict is None, "nothing is left unconfirmed by a quorum"
    if truth.committed is not None:
        yield from learned(ctx, write.key, AlreadyCommitted(committed=truth.committed), Path.SLOW)
    return None


def instance_of(key: bytes, start: FastVote | Reserved) -> KeyInstance:
    version = start.proposal.version if isinstance(start, FastVote) else start.version
    return KeyInstance(key=key, version=version, base=start.base)


def further(a: Path, b: Path) -> Path:
    return max(a, b, key=(Path.LOCAL, Path.FAST, Path.SLOW).index)


def travelled_at_least(outcome: Outcome, path: Path) -> Outcome:
    """A loser answers from its own replica in the end, but it took a round to get there."""
    if path is Path.LOCAL or isinstance(outcome, ConsensusFailed | Refused):
        return outcome
    return msgspec.structs.replace(outcome, path=path)
