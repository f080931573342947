"""Operations of a flow at its own replica, each one transaction.

In `Select` and `Conclude` a proposer is also an acceptor. Two rules there make the small fast quorums safe: it votes
for itself before it asks other replicas, and it commits a fast round only if it has promised nothing since.
"""

from typing import Any, assert_never

from epoxy.model.ballot import NO_BALLOT, Ballot, fast_ballot, next_classic
from epoxy.model.cluster import ClusterConfig
from epoxy.model.messages import Accept, AlreadyCommitted, Commit, HigherBallot, StaleEpoch
from epoxy.model.records import KeyState
from epoxy.model.validation import base_of
from epoxy.protocol.effects import Local
from epoxy.protocol.keys import acceptor
from epoxy.protocol.keys.effects import EpochChanged, Flow
from epoxy.protocol.keys.folding import fold
from epoxy.protocol.keys.operations import (
    NOT_EXPOSED,
    Conclude,
    Concluded,
    FastVote,
    Fold,
    KeyOp,
    LocalOp,
    Occupied,
    PendingWrite,
    Reserve,
    Reserved,
    Select,
    Selected,
    Unfolded,
)


def perform(state: KeyState, op: KeyOp, config: ClusterConfig) -> tuple[KeyState, object]:
    if op.epoch != config.epoch and not isinstance(op, Commit):
        return state, StaleEpoch(config=config)
    match op:
        case Select():
            return select(state, op, config)
        case Conclude():
            return conclude(state, op)
        case Reserve():
            return reserve(state, op)
        case Commit():
            return acceptor.learn(state, op.proposal)
        case _:
            assert_never(op)


def select(state: KeyState, op: Select, config: ClusterConfig) -> tuple[KeyState, Selected]:
    """Proposer, step 1: one transaction reads the state, checks the preconditions and votes."""
    committed = state.committed
    if committed is not None:
        for pending in op.writes:
            if may_be_decided(pending, committed.version):
                return state, AlreadyCommitted(committed=committed, lineage=state.lineage)
    folded = fold(op.writes, committed, op.me)
    if isinstance(folded, Unfolded):
        return state, folded
    if not state.is_untouched or op.forgetful or not may_be_fast(config):
        rival = highest(state)
        if not op.insists and is_rivals(rival, op.me) and rival.replica_id != op.silent:
            return state, Occupied(state.version)
        return take_ballot(state, op.me, NO_BALLOT, folded, op.rank)
    vote = Accept(key=op.key, epoch=op.epoch, ballot=fast_ballot(op.me), proposal=folded.proposal)
    return acceptor.vote(state, vote), FastVote(fold=folded)


def may_be_decided(pending: PendingWrite, version: int) -> bool:
    """Whether there are decisions that this write must be looked for in before it is folded (F3)."""
    return NOT_EXPOSED < pending.floor < version


def may_be_fast(config: ClusterConfig) -> bool:
    """Not in a joint epoch: it has two electorates, and a recovery can count the fast votes of one only."""
    return config.previous is None


def reserve(state: KeyState, op: Reserve) -> tuple[KeyState, Reserved | AlreadyCommitted | Occupied]:
    decided = acceptor.already_decided(state, op.base)
    if decided is not None:
        return state, decided
    assert op.base == state.version, "a flow commits a version locally before it works on the next instance"
    if not op.insists and state.promised.is_classic and is_rivals(state.promised, op.me):
        return state, Occupied(state.version)
    return take_ballot(state, op.me, op.above, None, op.rank)


def is_rivals(ballot: Ballot, me: int) -> bool:
    return ballot != NO_BALLOT and ballot.replica_id != me


def highest(state: KeyState) -> Ballot:
    """That of the round under way, for all that is known here."""
    return max(state.promised, state.vote.ballot) if state.vote is not None else state.promised


def take_ballot(
    state: KeyState, me: int, above: Ballot, folded: Fold | None, rank: int = 0
) -> tuple[KeyState, Reserved]:
    ballot = next_classic(me, above, highest(state), rank=rank)
    promised = KeyState(committed=state.committed, lineage=state.lineage, promised=ballot, vote=state.vote)
    return promised, Reserved(ballot=ballot, vote=state.vote, fold=folded)


def conclude(state: KeyState, op: Conclude) -> tuple[KeyState, Concluded | AlreadyCommitted | HigherBallot]:
    """Proposer, step 5 after a fast round. A recovery that has this replica's promise has ruled its proposal out, so a
    promise made since the vote forbids the commit. Do not optimise this re-read away."""
    decided = acceptor.already_decided(state, base_of(op.proposal))
    if decided is not None:
        return state, decided
    if promised_since(state):
        return state, HigherBallot(ballot=state.promised)
    return acceptor.commit(state, op.proposal), Concluded()


def promised_since(state: KeyState) -> bool:
    return state.promised.is_classic


def run_local(op: LocalOp) -> Flow[Any]:
    result = yield Local(op)
    if isinstance(result, StaleEpoch):
        raise EpochChanged(result.config)
    return result
