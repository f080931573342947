"""Which value an earlier round may have chosen.

A recovery holds the promises of a quorum Q. Nobody in Q will vote below its ballot again, so what an earlier round has
chosen, or still could choose, is limited to what Q has seen plus what those outside Q may have done.

Votes of sealed epochs are left out, whatever their ballot: what those epochs chose, a quorum holds as committed. In all
the others every quorum has a majority of the electorate in it, so they are one and the same Paxos.
"""

from collections import Counter
from collections.abc import Mapping

from epoxy.model.cluster import ClusterConfig
from epoxy.model.records import Proposal, Vote

Promises = Mapping[int, Vote | None]
"""What each replica of Q had voted for when it promised."""


def choose(promises: Promises, config: ClusterConfig) -> Proposal | None:
    """The proposal that must be carried on, or None: nothing earlier was or will be chosen, the choice is free."""
    votes = [vote for vote in promises.values() if vote is not None and still_counts(vote, config)]
    classic = [vote for vote in votes if vote.ballot.is_classic]
    if classic:
        return highest(classic).proposal
    fast = [vote for vote in votes if vote.ballot.is_fast]
    possible = [p for p in candidates(fast, promises) if potential(p, fast, promises, config) >= config.quorums.fast]
    assert_unambiguous(possible)
    return proposal_of(possible[0], fast) if possible else None


def assert_unambiguous(possible: list[int]) -> None:
    """The quorums' third invariant at work."""
    assert len(possible) <= 1, "two proposals cannot both reach a fast quorum: see model.quorum"


def highest(votes: list[Vote]) -> Vote:
    """Classic Paxos, phase 2a."""
    return max(votes, key=lambda vote: vote.ballot)


def still_counts(vote: Vote, config: ClusterConfig) -> bool:
    """Not those of sealed epochs. A straggler there may have cast one at a ballot above all that was chosen since."""
    return vote.epoch > config.sealed


def proposers(fast: list[Vote]) -> set[int]:
    """The fast ballot (1, p) names its proposer p, who voted for itself before it asked anybody."""
    return {vote.ballot.replica_id for vote in fast}


def candidates(fast: list[Vote], promises: Promises) -> list[int]:
    """Proposers that may have committed in the fast round: those not in Q. One in Q had not committed when it promised,
    and its own commit transaction will refuse to now."""
    return sorted(proposers(fast) - promises.keys())


def potential(proposer: int, fast: list[Vote], promises: Promises, config: ClusterConfig) -> int:
    """How many fast votes a proposer can have at most: those seen in Q, and everybody outside Q except the other
    proposers we know of, who voted for themselves. While joint, all of them are old members."""
    outside = set(config.electorate) - promises.keys()
    others = (proposers(fast) & outside) - {proposer}
    seen = Counter(vote.ballot.replica_id for vote in fast)[proposer]
    return seen + len(outside) - len(others)


def proposal_of(proposer: int, fast: list[Vote]) -> Proposal:
    return next(vote.proposal for vote in fast if vote.ballot.replica_id == proposer)
