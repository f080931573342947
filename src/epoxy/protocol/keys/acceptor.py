"""The acceptor: a key's state and a message in, a state and a reply out.

The numbers are those of docs/protocol/per-key.md. Each call runs inside one transaction, and its reply leaves only
when that transaction is durable.
"""

from typing import assert_never

from epoxy.model.ballot import FAST_COUNTER, FIRST_CLASSIC_COUNTER
from epoxy.model.cluster import ClusterConfig
from epoxy.model.messages import (
    Accept,
    AcceptOk,
    AlreadyCommitted,
    Behind,
    Commit,
    CommitConflict,
    CommitOk,
    EpochAhead,
    HigherBallot,
    KeyRequest,
    Prepare,
    PrepareOk,
    Read,
    ReadOk,
    Reply,
    StaleCommit,
    StaleEpoch,
)
from epoxy.model.records import LINEAGE_LENGTH, KeyState, Proposal, Settled, Vote
from epoxy.model.validation import base_of

Step = tuple[KeyState, Reply]


def step(state: KeyState, message: KeyRequest, config: ClusterConfig) -> Step:
    match message:
        case Accept():
            refused = wrong_epoch(message.epoch, config) or wrong_base(state, base_of(message.proposal))
            return (state, refused) if refused else accept(state, message)
        case Commit():
            return learn(state, message.proposal)
        case Read():
            return state, wrong_epoch(message.epoch, config) or ReadOk(committed=state.committed, vote=state.vote)
        case Prepare():
            refused = wrong_epoch(message.epoch, config) or wrong_base(state, message.base)
            return (state, refused) if refused else prepare(state, message)
        case _:
            assert_never(message)


def wrong_epoch(epoch: int, config: ClusterConfig) -> StaleEpoch | EpochAhead | None:
    """Quorums of different epochs need not intersect, so a replica votes in its own epoch only."""
    if epoch < config.epoch:
        return StaleEpoch(config=config)
    if epoch > config.epoch:
        return EpochAhead(epoch=config.epoch)
    return None


def wrong_base(state: KeyState, base: int) -> AlreadyCommitted | Behind | None:
    """Rules 1 and 2: a request must be for the instance on top of the committed version."""
    return already_decided(state, base) or missed_a_commit(state, base)


def already_decided(state: KeyState, base: int) -> AlreadyCommitted | None:
    """Rule 1."""
    committed = state.committed
    if committed is not None and (base < committed.version or not committed.mutable):
        return AlreadyCommitted(committed=committed, lineage=state.lineage)
    return None


def missed_a_commit(state: KeyState, base: int) -> Behind | None:
    """Rule 2. Voting in an instance without knowing its base would overwrite what may be the last vote for that."""
    committed = state.committed
    known = committed.version if committed is not None else 0
    return Behind(version=known) if base > known else None


def prepare(state: KeyState, message: Prepare) -> Step:
    """Rule 3, phase 1b. A promise leaves the vote as it is."""
    if message.ballot <= state.promised:
        return state, HigherBallot(ballot=state.promised)
    return promise(state, message), PrepareOk(vote=state.vote)


def promise(state: KeyState, message: Prepare) -> KeyState:
    return KeyState(committed=state.committed, lineage=state.lineage, promised=message.ballot, vote=state.vote)


def accept(state: KeyState, message: Accept) -> Step:
    """Rules 4 and 5, phase 2b."""
    is_fast = message.ballot.counter == FAST_COUNTER
    refused = refuse_fast(state, message) if is_fast else refuse_classic(state, message)
    return (state, refused) if refused else (vote(state, message), AcceptOk())


def refuse_fast(state: KeyState, message: Accept) -> HigherBallot | None:
    """Rule 4. A replica votes once in the fast round, or two fast quorums could both succeed. A resend is answered like
    the first request."""
    if state.promised.counter >= FIRST_CLASSIC_COUNTER:
        return HigherBallot(ballot=state.promised)
    if state.vote is not None and state.vote != vote_for(message):
        return HigherBallot(ballot=state.vote.ballot)
    return None


def refuse_classic(state: KeyState, message: Accept) -> HigherBallot | None:
    """Rule 5."""
    return HigherBallot(ballot=state.promised) if state.promised > message.ballot else None


def vote_for(message: Accept) -> Vote:
    return Vote(proposal=message.proposal, ballot=message.ballot, epoch=message.epoch)


def vote(state: KeyState, message: Accept) -> KeyState:
    """A classic vote is also a promise. A fast vote is not: any classic ballot may follow it."""
    promised = state.promised if message.ballot.counter == FAST_COUNTER else message.ballot
    return KeyState(committed=state.committed, lineage=state.lineage, promised=promised, vote=vote_for(message))


def learn(state: KeyState, proposal: Proposal) -> Step:
    """Rule 6. A decision is safe to learn whatever was promised. A second decision for one instance is a bug, and
    overwrites nothing; nor does one whose writes have versions on both sides of the committed one."""
    if state.committed is None or (base_of(proposal) >= state.version and not state.is_final):
        return commit(state, proposal), CommitOk()
    if proposal.version < state.version:
        return state, StaleCommit(version=state.version)
    if proposal == state.committed:
        return state, AlreadyCommitted(committed=state.committed, lineage=state.lineage)
    return state, CommitConflict(committed=state.committed)


def commit(state: KeyState, proposal: Proposal) -> KeyState:
    """Promise and vote belonged to the instance that is now decided, and are dropped."""
    return KeyState(committed=proposal, lineage=lineage_after(state))


def lineage_after(state: KeyState) -> tuple[Settled, ...]:
    committed = state.committed
    if committed is None:
        return ()
    newest = Settled(committed.version, committed.proposal_id, committed.folded)
    return (newest, *state.lineage[: LINEAGE_LENGTH - 1])
