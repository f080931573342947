"""The flow of one client write."""

import msgspec

from epoxy.model.cluster import CONFIG_KEY
from epoxy.model.messages import AlreadyCommitted, Inspect, Inspected, StaleEpoch
from epoxy.model.records import Proposal, ProposalId
from epoxy.model.writes import Committed, ConsensusFailed, Outcome, Path, ReadFailed, Refused, Write
from epoxy.protocol.effects import Answer, Context, Expired, Next, Open
from epoxy.protocol.keys.effects import EpochChanged, Flow
from epoxy.protocol.keys.local import proposal_for, run_local
from epoxy.protocol.keys.operations import Answered, FastVote, Reserved, Select, Selected, Unconfirmed
from epoxy.protocol.keys.preconditions import check_preconditions, winner
from epoxy.protocol.keys.reader import linearizable
from epoxy.protocol.keys.rounds import adopt, decide, learn_locally
from epoxy.protocol.keys.terms import Decision, GaveUp, KeyInstance, OwnProposal

OVERTAKEN = "overtaken"

MAX_ROUNDS_LOST = 100
"""Versions a mutable write may lose to others before it gives up. Each loss is another write's success, so this bounds
the wait of one client, not the progress of the system."""


class WriteIntent:
    """A write under way. `offer` is its latest proposal, None once that has lost for certain; `previous` is the version
    before the proposed one."""

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
    return (yield from run_write(WriteIntent(write, new_proposal_id(write, ctx)), ctx))


def run_write(
    intent: WriteIntent,
    ctx: Context,
    selected: Selected | None = None,
    news: AlreadyCommitted | StaleEpoch | None = None,
) -> Flow[Outcome]:
    """Try until the write is answered: again after it lost its version to another write, and after a change of epoch.
    `node.keys.uncontended`, which begins writes without a flow, hands over what came of that: the result of `Select`,
    or the reply that ended its round."""
    for _ in range(MAX_ROUNDS_LOST):
        try:
            answer = yield from (apply_news(intent, news, ctx) if news is not None else try_once(intent, ctx, selected))
        except EpochChanged as change:
            ctx = yield from adopt(ctx, change)
            answer = None
        if answer is not None:
            return answer
        selected = news = None
    return ConsensusFailed(reason=f"lost {MAX_ROUNDS_LOST} rounds to other writers")


def apply_news(intent: WriteIntent, news: AlreadyCommitted | StaleEpoch, ctx: Context) -> Flow[Outcome | None]:
    if isinstance(news, StaleEpoch):
        raise EpochChanged(news.config)
    decision = yield from learn_locally(ctx, intent.write.key, news, Path.FAST)
    return (yield from resolve_winner(intent, decision, ctx))


def new_proposal_id(write: Write, ctx: Context) -> ProposalId:
    """New for each write, except that the id of a configuration follows from its epoch."""
    if write.key == CONFIG_KEY:
        return ProposalId(ctx.me, (write.if_version or 0) + 1)
    return ProposalId(ctx.me, ctx.dice.nonce())


def try_once(intent: WriteIntent, ctx: Context, selected: Selected | None = None) -> Flow[Outcome | None]:
    """Select locally, unless that is done already (`selected`), and act on the result. None: try again. A proposal made
    in an earlier try is resolved first, because another replica may have finished it."""
    if not ctx.votes and not intent.offered:
        return Refused(reason=f"replica {ctx.me} is not an active member")
    found: Selected = selected if selected is not None else (yield from run_local(selection(intent, ctx)))
    match found:
        case Answered():
            return with_path_at_least(found.outcome, intent.travelled)
        case Unconfirmed():
            intent.travelled = Path.SLOW
            return (yield from confirm_with_quorum(intent.write, ctx))
        case AlreadyCommitted():
            decision = Decision(committed=found.committed, lineage=found.lineage, path=Path.SLOW)
            return (yield from resolve_winner(intent, decision, ctx))
        case FastVote() | Reserved():
            return (yield from propose_next_version(intent, found, ctx))


def selection(intent: WriteIntent, ctx: Context) -> Select:
    return Select(
        write=intent.write, proposal_id=intent.proposal_id, offered=intent.offered, me=ctx.me, epoch=ctx.config.epoch
    )


def propose_next_version(intent: WriteIntent, start: FastVote | Reserved, ctx: Context) -> Flow[Outcome | None]:
    version = start.proposal.version if isinstance(start, FastVote) else start.version
    instance = KeyInstance(key=intent.write.key, version=version, base=start.base)
    if intent.offered != instance.version:
        # Otherwise it was proposed before the epoch changed, and remains so.
        intent.offer = OwnProposal(proposal=proposal_for(intent.write, intent.proposal_id, instance.version))
        intent.previous = instance.base
    assert intent.offer is not None
    decision = yield from decide(ctx, instance, intent.offer, start)
    if isinstance(decision, GaveUp):
        return ConsensusFailed(reason=decision.reason)
    return (yield from resolve_winner(intent, decision, ctx))


def resolve_winner(intent: WriteIntent, decision: Decision, ctx: Context) -> Flow[Outcome | None]:
    """Whose write became the version this one was proposed for. None: another one's, for certain."""
    intent.travelled = max(intent.travelled, decision.path, key=(Path.LOCAL, Path.FAST, Path.SLOW).index)
    if intent.offer is not None and intent.offer.made:
        version = intent.offer.proposal.version
        won = winner(version, decision.committed, decision.lineage)
        if won is None:
            won = yield from ask_for_winner(intent.write.key, version, ctx)
        if won is None:
            return ConsensusFailed(reason=f"{OVERTAKEN}: no replica remembers whose version {version} was")
        if is_mine(won, intent.proposal_id):
            return Committed(proposal=intent.offer.proposal, mine=True, path=intent.travelled, previous=intent.previous)
    intent.offer = None
    return None


def ask_for_winner(key: bytes, version: int, ctx: Context) -> Flow[ProposalId | None]:
    """Ask the other replicas for the winner of a version that is not in the lineage here."""
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
    """By proposal id, not by value: finishing another write of an equal value is not winning."""
    return won == proposal_id


def confirm_with_quorum(write: Write, ctx: Context) -> Flow[Outcome | None]:
    """Read the newest version from a quorum, and answer by it, or commit it locally and go on (None)."""
    newest = yield from linearizable(write.key, ctx)
    if isinstance(newest, ReadFailed):
        return ConsensusFailed(reason=newest.reason)
    verdict = check_preconditions(write, newest.committed, confirmed=True)
    if isinstance(verdict, Answered):
        return verdict.outcome
    assert verdict is None, "nothing is left unconfirmed by a quorum"
    if newest.committed is not None:
        yield from learn_locally(ctx, write.key, AlreadyCommitted(committed=newest.committed), Path.SLOW)
    return None


def with_path_at_least(outcome: Outcome, path: Path) -> Outcome:
    """A write that lost a round is answered locally in the end; its path is still that of the round."""
    if path is Path.LOCAL or isinstance(outcome, ConsensusFailed | Refused):
        return outcome
    return msgspec.structs.replace(outcome, path=path)
