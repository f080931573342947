"""The flow of the writes of one key that wait at their home: fold them, get the fold decided, answer them."""

from collections.abc import Sequence

import msgspec

from epoxy.model.cluster import CONFIG_KEY, FIRST_SYSTEM_KEY
from epoxy.model.messages import AlreadyCommitted, Inspect, Inspected, StaleEpoch
from epoxy.model.records import Proposal, ProposalId, Settled
from epoxy.model.writes import Committed, ConsensusFailed, Outcome, Path, ReadFailed, Refused, Write
from epoxy.protocol.effects import Answer, Context, Expired, Next, Open, Pause
from epoxy.protocol.keys.effects import EpochChanged, Flow
from epoxy.protocol.keys.folding import ABSENT, UNKNOWN, answer_found, find, fold, is_decided, tellable
from epoxy.protocol.keys.local import may_be_decided, run_local
from epoxy.protocol.keys.operations import FastVote, Fold, Occupied, PendingWrite, Reserved, Select, Selected, Unfolded
from epoxy.protocol.keys.reader import linearizable, newest_of, read_oks, read_request, version_of
from epoxy.protocol.keys.rounds import adopt, decide, gather, learn_locally
from epoxy.protocol.keys.terms import Decision, GaveUp, KeyInstance, OwnProposal

OVERTAKEN = "overtaken"

MAX_ROUNDS_LOST = 100
"""Rounds a write may lose to others before it gives up. Each loss is another write's success, so this bounds the wait
of one client, not the progress of the system."""

PATHS = (Path.LOCAL, Path.FAST, Path.SLOW)


class FoldIntent:
    """Writes of one key that are proposed together. `offer` is their latest fold, None once its instance is decided.
    `silent`: the owner they were taken back from; a round of that one has had its turn."""

    def __init__(self, key: bytes, writes: Sequence[PendingWrite], silent: int = 0) -> None:
        self.key = key
        self.writes = tuple(writes)
        self.silent = silent
        self.offer: OwnProposal | None = None
        self.decided: Proposal | None = None
        """What the last round decided, or met."""
        self.travelled = Path.LOCAL

    @property
    def open(self) -> tuple[PendingWrite, ...]:
        """The writes without an answer."""
        writes = self.writes
        if len(writes) == 1:
            return writes if writes[0].outcome is None else ()
        return tuple([pending for pending in self.writes if pending.outcome is None])

    @property
    def is_exposed(self) -> bool:
        return any(pending.is_exposed for pending in self.writes)

    def answer(self, pending: PendingWrite, outcome: Outcome) -> None:
        """A write that lost a round may be answered locally in the end; its path is still that of the round."""
        outcome = tellable(pending, outcome)
        if not isinstance(outcome, ConsensusFailed | Refused):
            path = longest(outcome.path, longest(self.travelled, pending.travelled))
            if path is not outcome.path:
                outcome = msgspec.structs.replace(outcome, path=path)
        pending.outcome = outcome

    def leave_open(self) -> None:
        """A new epoch ended the round before its instance was decided. Another replica may still finish the fold if it
        was put forward, as if its writes were handed over (F6). Reservations are told who took the key, in any case."""
        if self.offer is not None and self.offer.made:
            for pending in self.offer.writes:
                pending.handed_over = pending.handed_over or pending.write.mutable

    def fail(self, reason: str) -> None:
        """All that is open. What was never exposed will not take effect."""
        for pending in self.open:
            outcome = ConsensusFailed(reason=reason) if pending.is_exposed else Refused(reason=reason)
            self.answer(pending, outcome)


def longest(path: Path, other: Path) -> Path:
    return path if path is other or PATHS.index(path) > PATHS.index(other) else other


def propose(write: Write, ctx: Context) -> Flow[Outcome]:
    """One write by itself, until it is answered."""
    pending = PendingWrite(write=write, proposal_id=new_proposal_id(write, ctx))
    intent = FoldIntent(write.key, (pending,))
    while pending.outcome is None:
        ctx = yield from run_round(intent, ctx)
    return pending.outcome


def run_round(
    intent: FoldIntent,
    ctx: Context,
    selected: Selected | None = None,
    news: AlreadyCommitted | StaleEpoch | None = None,
) -> Flow[Context]:
    """One round: afterwards each write is answered, or open and to be folded again, perhaps with others.
    `node.keys.uncontended`, which begins rounds without a flow, hands over what came of that: the result of `Select`,
    or the reply that ended its round."""
    try:
        yield from (apply_news(intent, news, ctx) if news is not None else try_once(intent, ctx, selected))
    except EpochChanged as change:
        intent.leave_open()
        ctx = yield from adopt(ctx, change)
    for pending in intent.open:
        pending.lost += 1
        pending.travelled = longest(pending.travelled, intent.travelled)
        if pending.lost >= MAX_ROUNDS_LOST:
            intent.answer(pending, ConsensusFailed(reason=f"lost {MAX_ROUNDS_LOST} rounds to other writers"))
    return ctx


def catch_up(intent: FoldIntent, ctx: Context) -> Flow[Context]:
    """In place of a round: learn the newest version that a quorum has, so that the writes are folded on top of it.
    Nothing is put forward, so nothing can become unknown by it; if too few answer, the next round finds that out."""
    voters, slow = ctx.config.voters, ctx.config.quorums.slow
    try:
        got = yield from gather(ctx, read_request(intent.key, ctx), voters, need=slow, own={}, base=None)
        newest = newest_of(read_oks(got.oks).values())
        if newest is not None:
            yield from learn_locally(ctx, intent.key, AlreadyCommitted(committed=newest), Path.SLOW)
    except EpochChanged as change:
        ctx = yield from adopt(ctx, change)
    return ctx


def apply_news(intent: FoldIntent, news: AlreadyCommitted | StaleEpoch, ctx: Context) -> Flow[None]:
    if isinstance(news, StaleEpoch):
        raise EpochChanged(news.config)
    decision = yield from learn_locally(ctx, intent.key, news, Path.FAST)
    yield from settle(intent, decision, ctx)


def new_proposal_id(write: Write, ctx: Context) -> ProposalId:
    """New for each write, except that the id of a configuration follows from its epoch."""
    if write.key == CONFIG_KEY:
        return ProposalId(ctx.me, (write.if_version or 0) + 1)
    return ProposalId(ctx.me, ctx.dice.nonce())


def try_once(intent: FoldIntent, ctx: Context, selected: Selected | None = None) -> Flow[None]:
    """Select locally, unless that is done already (`selected`), and act on the result. Writes that were exposed in an
    earlier try are looked for first, because another replica may have finished them."""
    if not ctx.votes and not intent.is_exposed:
        intent.fail(f"replica {ctx.me} is not an active member")
        return
    found: Selected = selected if selected is not None else (yield from run_local(selection(intent, ctx)))
    match found:
        case Unfolded():
            yield from answer_unfolded(intent, found, ctx)
        case AlreadyCommitted():
            decision = Decision(committed=found.committed, lineage=found.lineage, path=Path.SLOW)
            yield from settle(intent, decision, ctx)
        case Occupied():
            # A ballot above the rival's would only stop it. Its decision, if it is learned here, ends the turn.
            yield Pause(delay_ms=ctx.turn_ms(), key=intent.key, version=found.base + 1)
            again: Selected = yield from run_local(selection(intent, ctx, insists=True))
            yield from try_once(intent, ctx, again)
        case FastVote() | Reserved():
            yield from propose_fold(intent, found, ctx)


def selection(intent: FoldIntent, ctx: Context, *, insists: bool = False) -> Select:
    return Select(
        key=intent.key,
        writes=intent.open,
        me=ctx.me,
        epoch=ctx.config.epoch,
        rank=ctx.timing.rank,
        insists=insists,
        silent=intent.silent,
        decides=ctx.votes and ctx.config.quorums.fast == 1,
        forgetful=ctx.forgetful and intent.key < FIRST_SYSTEM_KEY,
    )


def propose_fold(intent: FoldIntent, start: FastVote | Reserved, ctx: Context) -> Flow[None]:
    assert start.fold is not None, "selected for these writes"
    offer = intent.offer = offer_of(intent, start.fold)
    decision = yield from decide(ctx, KeyInstance(key=intent.key, base=start.fold.base), offer, start)
    if isinstance(decision, GaveUp):
        intent.fail(decision.reason)
    else:
        yield from settle(intent, decision, ctx)


def offer_of(intent: FoldIntent, fold: Fold) -> OwnProposal:
    """The same one again, if it was made in a round before: it may be decided already."""
    before = intent.offer
    if before is not None and before.fold.proposal == fold.proposal and before.writes == intent.open:
        return before
    return OwnProposal(fold=fold, writes=intent.open)


def settle(intent: FoldIntent, decision: Decision, ctx: Context) -> Flow[None]:
    """Answer the writes that were decided, and raise the floor of the others. Only now is anything told about any write
    of a fold (F1), its refusals included: they saw a state that did not exist before. If all its other writes may be in
    an older decision, that state may be past: then what it refused is evaluated again."""
    intent.travelled = longest(intent.travelled, decision.path)
    intent.decided = decision.committed
    offer, intent.offer = intent.offer, None
    if offer is not None and offer.made and is_mine(offer.fold, decision):
        for pending, outcome in zip(offer.writes, offer.fold.answers, strict=True):
            if offer.is_new or isinstance(outcome, Committed):
                intent.answer(pending, outcome)
    unknown = look_for(intent, decision.committed, decision.lineage)
    if unknown:
        unknown = yield from ask_others(intent, unknown, ctx)
    for pending in unknown:
        reason = f"{OVERTAKEN}: no replica remembers what followed version {pending.floor}"
        intent.answer(pending, ConsensusFailed(reason=reason))


def is_mine(own: Fold, decision: Decision) -> bool:
    """By the ids of its writes, not by value: finishing another write of an equal value is not winning."""
    return is_decided(own.proposal, decision.committed, decision.lineage)


def look_for(intent: FoldIntent, committed: Proposal, lineage: tuple[Settled, ...]) -> list[PendingWrite]:
    """Look for the exposed writes among these decisions. Those about which they say nothing are returned."""
    unknown: list[PendingWrite] = []
    for pending in intent.open:
        if not pending.is_exposed:
            continue
        version = find(pending, committed, lineage)
        if version == UNKNOWN:
            unknown.append(pending)
        elif version == ABSENT:
            pending.floor = max(pending.floor, committed.version)
        else:
            intent.answer(pending, answer_found(pending, version, committed, intent.travelled))
    return unknown


def ask_others(intent: FoldIntent, unknown: list[PendingWrite], ctx: Context) -> Flow[list[PendingWrite]]:
    """Ask the other replicas for decisions that are not in the lineage here. Returns what none of them remembers."""
    others = ctx.others()
    yield Open(envelopes=dict.fromkeys(others, (Inspect(key=intent.key),)), timer_ms=ctx.timing.round_timeout_ms)
    for _ in others:
        event: Answer | Expired = yield Next()
        if isinstance(event, Expired):
            break
        held = event.reply
        if isinstance(held, Inspected) and held.committed is not None:
            unknown = look_for(intent, held.committed, held.lineage)
            if not unknown:
                break
    return unknown


def answer_unfolded(intent: FoldIntent, found: Unfolded, ctx: Context) -> Flow[None]:
    """None of the writes takes effect on the version known here; a quorum may know a newer one."""
    for pending, outcome in zip(intent.open, found.answers, strict=True):
        if outcome is not None:
            intent.answer(pending, outcome)
    if intent.open:
        intent.travelled = Path.SLOW
        yield from confirm_with_quorum(intent, ctx)


def confirm_with_quorum(intent: FoldIntent, ctx: Context) -> Flow[None]:
    """Read the newest version from a quorum, and answer by it, or commit it locally and go on: if a write takes effect
    on top of it, or may be in the decisions up to it (F3)."""
    newest = yield from linearizable(intent.key, ctx)
    if isinstance(newest, ReadFailed):
        intent.fail(newest.reason)
        return
    version = version_of(newest.committed)
    is_open = any(may_be_decided(pending, version) for pending in intent.open)
    confirmed = fold(intent.open, newest.committed, ctx.me, confirmed=True)
    if is_open or isinstance(confirmed, Fold):
        if newest.committed is not None:
            yield from learn_locally(ctx, intent.key, AlreadyCommitted(committed=newest.committed), Path.SLOW)
        return
    for pending, outcome in zip(intent.open, confirmed.answers, strict=True):
        assert outcome is not None, "nothing is left unconfirmed by a quorum"
        intent.answer(pending, outcome)
