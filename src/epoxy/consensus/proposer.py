"""One client write, told from top to bottom."""

import msgspec

from epoxy.consensus.effects import Context, EpochChanged, Flow, at_home
from epoxy.consensus.home import FastVote, Reserved, Select, Selected, propose_value
from epoxy.consensus.judge import Answered, Unconfirmed, judge, winner
from epoxy.consensus.reader import linearizable
from epoxy.consensus.rounds import Decision, GaveUp, Instance, adopt, decide
from epoxy.model.messages import AlreadyCommitted, Commit
from epoxy.model.records import ProposalId
from epoxy.model.writes import Committed, ConsensusFailed, Outcome, Path, ReadFailed, Write

MAX_ROUNDS_LOST = 100
"""Versions a mutable write may lose to others before it gives up. Each loss is somebody else's success, so this bounds
one client's wait, not the system's progress."""


def propose(write: Write, ctx: Context) -> Flow[Outcome]:
    """From the vote at home to the answer. Whatever was put forward is settled before anything else is said: an earlier
    version of this very write may have been finished by somebody else."""
    proposal_id = ProposalId(ctx.me, ctx.dice.nonce())
    offered, previous, travelled = 0, None, Path.LOCAL
    decision: Decision | GaveUp
    for _ in range(MAX_ROUNDS_LOST):
        try:
            selected: Selected = yield from at_home(
                Select(write=write, proposal_id=proposal_id, offered=offered, me=ctx.me, epoch=ctx.config.epoch)
            )
            match selected:
                case Answered():
                    return travelled_at_least(selected.outcome, travelled)
                case Unconfirmed():
                    travelled = Path.SLOW
                    answer = yield from confirm(write, ctx)
                    if answer is not None:
                        return answer
                    continue
                case AlreadyCommitted():
                    decision = Decision(committed=selected.committed, lineage=selected.lineage, path=Path.SLOW)
                case FastVote() | Reserved():
                    instance = instance_of(write.key, selected)
                    offered, previous = instance.version, instance.base
                    mine = propose_value(write, proposal_id, instance.version)
                    decision = yield from decide(ctx, instance, mine, selected)
        except EpochChanged as change:
            ctx = yield from adopt(ctx, change)
            continue
        if isinstance(decision, GaveUp):
            return ConsensusFailed(reason=decision.reason)
        travelled = further(travelled, decision.path)
        won = winner(offered, decision.committed, decision.lineage)
        if won is None:
            return ConsensusFailed(reason=f"overtaken: version {offered} was settled and forgotten")
        if is_mine(won, proposal_id):
            made = propose_value(write, proposal_id, offered)
            return Committed(proposal=made, mine=True, path=travelled, previous=previous)
        offered = 0
    return ConsensusFailed(reason=f"lost {MAX_ROUNDS_LOST} rounds to other writers")


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
        yield from at_home(Commit(key=write.key, epoch=ctx.config.epoch, proposal=truth.committed))
    return None


def is_mine(won: ProposalId, proposal_id: ProposalId) -> bool:
    """Compared by name, not by value: finishing somebody else's write is not winning."""
    return won == proposal_id


def instance_of(key: bytes, start: FastVote | Reserved) -> Instance:
    version = start.proposal.version if isinstance(start, FastVote) else start.version
    return Instance(key=key, version=version, base=start.base)


def further(a: Path, b: Path) -> Path:
    return max(a, b, key=(Path.LOCAL, Path.FAST, Path.SLOW).index)


def travelled_at_least(outcome: Outcome, path: Path) -> Outcome:
    """A loser answers from its own replica in the end, but it took a round to get there."""
    if isinstance(outcome, ConsensusFailed) or path is Path.LOCAL:
        return outcome
    return msgspec.structs.replace(outcome, path=path)
