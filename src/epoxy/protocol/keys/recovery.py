"""The choice rule: which value an earlier round may have chosen.

A recovery holds the promises of a quorum Q. No member of Q votes below its ballot again, so what an earlier round has
chosen, or still can choose, follows from the votes seen in Q and from what the replicas outside Q may have done.

Votes of sealed epochs are left out, whatever their ballot: what those epochs chose is committed at a quorum. In all
other epochs every quorum contains a majority of the electorate, so together they are one run of Paxos.
"""

from collections import Counter
from collections.abc import Mapping

from epoxy.model.cluster import ClusterConfig
from epoxy.model.records import Proposal, Vote

Promises = Mapping[int, Vote | None]
"""By replica of Q: its vote when it promised."""


def choose(promises: Promises, config: ClusterConfig) -> Proposal | None:
    """The proposal that must be taken over, or None: no earlier round has chosen or will choose one, the choice is
    free."""
    votes = [vote for vote in promises.values() if vote is not None and still_counts(vote, config)]
    classic = [vote for vote in votes if vote.ballot.is_classic]
    if classic:
        return highest(classic).proposal
    fast = [vote for vote in votes if vote.ballot.is_fast]
    possible = fast_winners(fast, promises, config)
    assert_unambiguous(possible)
    return proposal_of(possible[0], fast) if possible else None


def fast_winners(fast: list[Vote], seen: Promises, config: ClusterConfig) -> list[int]:
    """Proposers that may have committed in the fast round, by the votes seen in a quorum. If its members promised
    nothing (a read): that may have done so before they were asked."""
    return [p for p in candidates(fast, seen) if potential(p, fast, seen, config) >= config.quorums.fast]


def assert_unambiguous(possible: list[int]) -> None:
    """By the third invariant of `Quorums`."""
    assert len(possible) <= 1, "two proposals cannot both reach a fast quorum: see model.quorum"


def highest(votes: list[Vote]) -> Vote:
    """Classic Paxos, phase 2a."""
    return max(votes, key=lambda vote: vote.ballot)


def still_counts(vote: Vote, config: ClusterConfig) -> bool:
    """Not those of sealed epochs: a replica left behind there may have voted at a ballot above all chosen since."""
    return vote.epoch > config.sealed


def proposers(fast: list[Vote]) -> set[int]:
    """The fast ballot (1, p) names its proposer p, which voted for itself before it asked other replicas."""
    return {vote.ballot.replica_id for vote in fast}


def candidates(fast: list[Vote], promises: Promises) -> list[int]:
    """Proposers that may have committed in the fast round: those not in Q. One in Q had not committed when it promised,
    and since then its commit guard (`local.conclude`) refuses to."""
    return sorted(proposers(fast) - promises.keys())


def potential(proposer: int, fast: list[Vote], promises: Promises, config: ClusterConfig) -> int:
    """The most fast votes a proposer can have: those seen in Q, and all of the electorate outside Q except other known
    proposers, which voted for themselves."""
    outside = set(config.electorate) - promises.keys()
    others = (proposers(fast) & outside) - {proposer}
    seen = Counter(vote.ballot.replica_id for vote in fast)[proposer]
    return seen + len(outside) - len(others)


def proposal_of(proposer: int, fast: list[Vote]) -> Proposal:
    return next(vote.proposal for vote in fast if vote.ballot.replica_id == proposer)
