"""The protocol as it was first described, rule by rule, in place of ours.

Every proposer has a fast ballot (1, me) of its own, an acceptor replaces a vote at a lower ballot by one at a higher,
and a recovery takes up the highest accepted ballot. It loses acknowledged writes, as described in
docs/protocol/why-not-as-described.md. It is kept because a checker must be able to find that loss.
"""

# Its rules stand in for ours and keep their signatures, used or not.
# ruff: noqa: ARG001

from epoxy.model import quorum, records
from epoxy.model.ballot import NO_BALLOT, fast_ballot
from epoxy.model.cluster import ClusterConfig
from epoxy.model.messages import Accept, AcceptOk, AlreadyCommitted, HigherBallot
from epoxy.model.quorum import QuorumPolicy, Quorums
from epoxy.model.records import KeyState, Proposal
from epoxy.model.writes import Path
from epoxy.node.keys.uncontended import Uncontended
from epoxy.protocol.effects import Context
from epoxy.protocol.keys import acceptor, local, recovery, rounds
from epoxy.protocol.keys.effects import Flow
from epoxy.protocol.keys.folding import fold
from epoxy.protocol.keys.local import may_be_decided, run_local, take_ballot
from epoxy.protocol.keys.operations import Conclude, Concluded, FastVote, Select, Selected, Unfolded
from epoxy.protocol.keys.recovery import Promises
from epoxy.protocol.keys.rounds import broadcast_commit, gather, learn_locally
from epoxy.protocol.keys.terms import Decision, KeyInstance
from epoxy_sim.keys.exhaustive_world import Rules
from epoxy_sim.keys.judge import Judge
from epoxy_sim.patching import Patch, nothing

_quorums = quorum.quorums


def fast_paxos_quorums(n: int, policy: QuorumPolicy = QuorumPolicy.FAST_PAXOS) -> Quorums:
    """Its sizes, whatever the plan says: with ours it would be broken for a second reason."""
    return _quorums(n, QuorumPolicy.FAST_PAXOS)


def select(state: KeyState, op: Select, config: ClusterConfig) -> tuple[KeyState, Selected]:
    """Ballot selection only reads: the proposer votes later, through the same handler as other replicas."""
    if state.committed is not None and any(may_be_decided(each, state.version) for each in op.writes):
        return state, AlreadyCommitted(committed=state.committed, lineage=state.lineage)
    folded = fold(op.writes, state.committed, op.me)
    if isinstance(folded, Unfolded):
        return state, folded
    if state.promised != NO_BALLOT:
        return take_ballot(state, op.me, NO_BALLOT, folded)
    return state, FastVote(fold=folded)


def accept(state: KeyState, message: Accept) -> acceptor.Step:
    """A higher ballot replaces the vote, in the fast round too."""
    if state.promised > message.ballot:
        return state, HigherBallot(ballot=state.promised)
    vote = acceptor.vote_for(message)
    after = KeyState(committed=state.committed, lineage=state.lineage, promised=message.ballot, vote=vote)
    return after, AcceptOk()


def fast_round(ctx: Context, instance: KeyInstance, mine: Proposal) -> Flow[Decision | None]:
    request = Accept(key=instance.key, epoch=ctx.config.epoch, ballot=fast_ballot(ctx.me), proposal=mine)
    got = yield from gather(ctx, request, ctx.config.active, need=ctx.config.quorums.fast, own={}, base=instance.base)
    if got.decided is not None:
        return (yield from learn_locally(ctx, instance.key, got.decided, Path.FAST))
    if not got.reached:
        return None
    result = yield from run_local(Conclude(key=instance.key, proposal=mine, epoch=ctx.config.epoch))
    if isinstance(result, Concluded):
        yield broadcast_commit(ctx, instance.key, mine)
        return Decision(committed=mine, path=Path.FAST)
    return None


def conclude(state: KeyState, op: Conclude) -> tuple[KeyState, Concluded | AlreadyCommitted | HigherBallot]:
    """Refused only if a higher ballot appeared *and* the accepted record is no longer this one."""
    decided = acceptor.already_decided(state, op.proposal.base)
    if decided is not None:
        return state, decided
    mine = state.vote is not None and state.vote.proposal == op.proposal
    if state.promised > fast_ballot(op.proposal.home) and not mine:
        return state, HigherBallot(ballot=state.promised)
    return acceptor.commit(state, op.proposal), Concluded()


def highest_accepted_ballot(promises: Promises, config: ClusterConfig) -> Proposal | None:
    votes = [vote for vote in promises.values() if vote is not None]
    return recovery.highest(votes).proposal if votes else None


def everything_is_a_flow(write: Uncontended) -> None:
    write._leave(None)


PATCHES = (
    Patch(quorum, "quorums", fast_paxos_quorums),
    Patch(local, "select", select),
    Patch(local, "conclude", conclude),
    Patch(acceptor, "accept", accept),
    Patch(acceptor, "missed_a_commit", nothing),
    Patch(rounds, "fast_round", fast_round),
    Patch(Uncontended, "start", everything_is_a_flow),
    Patch(recovery, "choose", highest_accepted_ballot),
    # Our own rules about votes and promises are not held against it: only what clients and replicas end up with.
    Patch(records, "assert_well_formed", nothing),
    Patch(Judge, "stepped", nothing),
    Patch(Rules, "check", nothing),
)
