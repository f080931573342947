"""Which value an earlier round may have chosen: literal cases, and that no fast commit is ever missed."""

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from epoxy.model.ballot import Ballot
from epoxy.model.cluster import ClusterConfig, ReplicaInfo
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.records import Vote
from epoxy.protocol.keys.recovery import candidates, choose, potential
from tests.protocol.keys.harness import A, B, C, D, E, config_of, fast_vote, prop, vote_at

OPTIMAL, FAST_PAXOS = QuorumPolicy.OPTIMAL, QuorumPolicy.FAST_PAXOS
F, G = 6, 7
OF = {p: prop(b"of-%d" % p, by=p) for p in range(1, 10)}


def chosen(n: int, promises: dict[int, int | None], policy: QuorumPolicy = OPTIMAL) -> int | None:
    """The proposer whose proposal is carried on, given whom each of Q voted for in the fast round."""
    votes = {replica: None if p is None else fast_vote(OF[p]) for replica, p in promises.items()}
    proposal = choose(votes, config_of(n, policy=policy))
    return None if proposal is None else proposal.proposal_id.replica_id


@pytest.mark.parametrize("n", [1, 3, 5, 7])
@pytest.mark.parametrize("policy", list(QuorumPolicy))
def test_without_votes_the_choice_is_free(n: int, policy: QuorumPolicy) -> None:
    config = config_of(n, policy=policy)
    assert choose(dict.fromkeys(range(1, config.quorums.slow + 1)), config) is None


def test_the_highest_classic_vote_is_carried_on() -> None:
    promises = {
        A: vote_at(OF[A], Ballot(3, A)),
        B: vote_at(OF[B], Ballot(2, B)),
        C: vote_at(OF[C], Ballot(3, C)),
    }
    assert choose(promises, config_of(5)) == OF[C]


def test_a_classic_vote_beats_any_number_of_fast_votes() -> None:
    promises: dict[int, Vote | None] = {B: fast_vote(OF[A]), C: fast_vote(OF[A]), D: vote_at(OF[E], Ballot(2, D))}
    assert choose(promises, config_of(5)) == OF[E]


def test_a_classic_vote_counts_also_if_its_proposer_promised() -> None:
    """Only the fast round rules out proposers in Q: a classic decision does not depend on its proposer's commit."""
    promises = {A: vote_at(OF[A], Ballot(2, A)), B: None}
    assert choose(promises, config_of(3)) == OF[A]


CASES: list[tuple[str, int, dict[int, int | None], QuorumPolicy, int | None]] = [
    ("n=3: its proposer is outside, one vote and itself make two", 3, {B: A, C: None}, OPTIMAL, A),
    ("n=3: its proposer promised, so it never commits", 3, {A: A, B: A}, OPTIMAL, None),
    ("n=3: two proposers in Q", 3, {A: A, C: C}, OPTIMAL, None),
    ("n=3: C is in Q and out, A is outside and may have committed", 3, {B: A, C: C}, OPTIMAL, A),
    ("n=3: only A can have voted for A", 3, {B: C, C: C}, OPTIMAL, None),
    ("n=3: all answered", 3, {A: A, B: A, C: A}, OPTIMAL, None),
    ("n=3, all three needed: the voter who says no settles it", 3, {B: A, C: None}, FAST_PAXOS, None),
    ("n=3, all three needed: both voted for A", 3, {B: A, C: A}, FAST_PAXOS, A),
    ("n=5: one vote and two outside make three", 5, {C: A, D: None, E: None}, OPTIMAL, A),
    ("n=5: B is outside too and voted for itself, so A has two at most", 5, {C: A, D: B, E: None}, OPTIMAL, None),
    ("n=5: B has two of them and itself", 5, {C: A, D: B, E: B}, OPTIMAL, B),
    ("n=5: A has two of them and itself", 5, {C: A, D: A, E: B}, OPTIMAL, A),
    ("n=5: a proposer in Q is not subtracted from those outside", 5, {C: C, D: A, E: None}, OPTIMAL, A),
    ("n=5: four answered, one vote and one outside", 5, {B: None, C: A, D: None, E: None}, OPTIMAL, None),
    ("n=5: four answered, two votes and one outside", 5, {B: A, C: A, D: None, E: None}, OPTIMAL, A),
    ("n=5, four needed: two votes and two outside", 5, {C: A, D: A, E: None}, FAST_PAXOS, A),
    ("n=5, four needed: one vote and two outside", 5, {C: A, D: None, E: None}, FAST_PAXOS, None),
    ("n=7, five needed: two votes and three outside", 7, {D: A, E: A, F: None, G: None}, OPTIMAL, A),
    ("n=7, five needed: one vote and three outside", 7, {D: A, E: None, F: None, G: None}, OPTIMAL, None),
    ("n=7: B outside voted for itself, three votes needed for A", 7, {D: A, E: A, F: B, G: None}, OPTIMAL, None),
    ("n=7: B outside voted for itself, and A has three", 7, {D: A, E: A, F: A, G: B}, OPTIMAL, A),
    ("n=7: three proposers outside leave one for A", 7, {D: A, E: A, F: B, G: C}, OPTIMAL, None),
    ("n=7, six needed: three votes and three outside", 7, {D: A, E: A, F: A, G: None}, FAST_PAXOS, A),
    ("n=7, six needed: three votes, but B is outside", 7, {D: A, E: A, F: A, G: B}, FAST_PAXOS, None),
]


@pytest.mark.parametrize(
    ("n", "promises", "policy", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_fast_votes(n: int, promises: dict[int, int | None], policy: QuorumPolicy, expected: int | None) -> None:
    assert chosen(n, promises, policy) == expected


def test_fast_votes_count_until_their_epoch_is_sealed() -> None:
    promises: dict[int, Vote | None] = {B: fast_vote(OF[A], epoch=4), C: None}
    assert choose(promises, config_of(3, epoch=4)) == OF[A]
    assert choose(promises, config_of(3, epoch=5, sealed=3)) == OF[A]
    assert choose(promises, config_of(3, epoch=6, sealed=4)) is None


def test_a_proposer_of_a_sealed_epoch_is_not_subtracted() -> None:
    promises: dict[int, Vote | None] = {C: fast_vote(OF[A], epoch=5), D: fast_vote(OF[B], epoch=3), E: None}
    assert choose(promises, config_of(5, epoch=5, sealed=3)) == OF[A]
    assert choose(promises, config_of(5, epoch=5, sealed=2)) is None, "B voted for itself, so A has at most two"


def test_a_classic_vote_of_a_sealed_epoch_does_not_count_however_high_its_ballot() -> None:
    """A straggler cast it; what was chosen since has a lower ballot."""
    promises: dict[int, Vote | None] = {B: vote_at(OF[A], Ballot(9, A), epoch=4), C: fast_vote(OF[C], epoch=6)}
    assert choose(promises, config_of(3, epoch=5)) == OF[A]
    assert choose(promises, config_of(3, epoch=6, sealed=4)) is None
    promises[C] = vote_at(OF[C], Ballot(2, C), epoch=6)
    assert choose(promises, config_of(3, epoch=6, sealed=4)) == OF[C]


def test_a_fast_vote_of_a_sealed_epoch_does_not_rival_one_that_was_chosen() -> None:
    """From 1..3, 9..12 to 2, 3, 6, 7, 8: 1 had the votes of 2 and 3 and no more, and none of the quorum that was
    copied from knew of it. Then 6, 7 and 8 chose. Counted together, both would seem possible."""
    config = ClusterConfig(
        epoch=3, coordinator_id=6, replicas=tuple(ReplicaInfo(id=i) for i in (2, 3, 6, 7, 8)), sealed=1
    )
    promises: dict[int, Vote | None] = {
        2: fast_vote(OF[1], epoch=1),
        3: fast_vote(OF[1], epoch=1),
        8: fast_vote(OF[6], epoch=3),
    }
    assert choose(promises, config) == OF[6]
    with pytest.raises(AssertionError, match="two proposals"):
        choose(promises, replace(config, sealed=0))


def test_while_joint_fast_votes_are_counted_among_the_old_members() -> None:
    """From three to five, A has committed with B and crashed. Among five replicas A could have two votes, and three
    would be needed; among the old three it could have two, and has."""
    joint = config_of(5, epoch=2, previous=(A, B, C))
    promises: dict[int, Vote | None] = {B: fast_vote(OF[A]), C: None, D: None, E: None}
    assert choose(promises, joint) == OF[A]
    assert choose(promises, config_of(5, epoch=2)) is None


def test_potential_counts_what_was_seen_and_what_may_have_been() -> None:
    fast = [fast_vote(OF[A]), fast_vote(OF[A]), fast_vote(OF[B])]
    promises: dict[int, Vote | None] = {C: fast[0], D: fast[1], E: fast[2]}
    assert candidates(fast, promises) == [A, B]
    assert [potential(p, fast, promises, config_of(7)) for p in (A, B)] == [2 + 4 - 1, 1 + 4 - 1]


def test_two_candidates_are_a_broken_invariant() -> None:
    """More votes than replicas cannot be; if it ever is, recovery must not guess."""
    impossible: dict[int, Vote | None] = {B: fast_vote(OF[A]), C: fast_vote(OF[4]), 10: fast_vote(OF[A])}
    with pytest.raises(AssertionError):
        choose({**impossible, 11: fast_vote(OF[4]), 12: fast_vote(OF[A])}, config_of(4))


def carried_on(ballots: Mapping[int, int | None], quorum: Collection[int], config: ClusterConfig) -> int | None:
    """Whose proposal a recovery with `quorum` carries on, when each replica voted, or will vote, as in `ballots`."""
    proposal = choose({r: None if (p := ballots[r]) is None else fast_vote(OF[p]) for r in quorum}, config)
    return None if proposal is None else proposal.proposal_id.replica_id


def fast_winner(ballots: Mapping[int, int | None], config: ClusterConfig) -> int | None:
    votes = Counter(p for p in ballots.values() if p is not None).most_common(1)
    return votes[0][0] if votes and votes[0][1] >= config.quorums.fast else None


def all_fast_rounds(replicas: tuple[int, ...]) -> Iterator[dict[int, int | None]]:
    """Every way to vote once each, where each proposer with a vote has voted for itself."""
    for votes in itertools.product((None, *replicas), repeat=len(replicas)):
        ballots = dict(zip(replicas, votes, strict=True))
        if all(ballots[p] == p for p in votes if p is not None):
            yield ballots


@pytest.mark.parametrize("policy", list(QuorumPolicy))
@pytest.mark.parametrize(("n", "worlds"), [(2, 6), (3, 92), (4, 520), (5, 8592), (6, 68200)])
def test_no_fast_commit_is_missed_in_any_small_world(n: int, worlds: int, policy: QuorumPolicy) -> None:
    """Exhaustive. `choose` asserts by itself that there is at most one candidate."""
    config = config_of(n, policy=policy)
    seen = 0
    for ballots in all_fast_rounds(config.active):
        winner = fast_winner(ballots, config)
        for size in range(config.quorums.slow, n + 1):
            for quorum in itertools.combinations(config.active, size):
                seen += 1
                answer = carried_on(ballots, quorum, config)
                assert answer not in quorum, "a proposer in Q is ruled out"
                assert winner is None or winner in quorum or answer == winner
    assert seen == worlds


@st.composite
def won_rounds(draw: st.DrawFn) -> tuple[ClusterConfig, dict[int, int | None], list[int]]:
    """A larger fast round that somebody outside Q has won, with rivals among those left over."""
    config = config_of(draw(st.integers(3, 9)), policy=draw(st.sampled_from(QuorumPolicy)))
    winner, *rest = draw(st.permutations(config.active))
    voters = rest[: config.quorums.fast - 1]
    left = rest[config.quorums.fast - 1 :]
    rivals = left[: draw(st.integers(0, len(left)))]
    ballots: dict[int, int | None] = dict.fromkeys([winner, *voters], winner)
    ballots |= {r: r if r in rivals else draw(st.sampled_from([None, winner, *rivals])) for r in left}
    quorum = draw(st.permutations(rest))[: draw(st.integers(config.quorums.slow, len(rest)))]
    return config, ballots, quorum


@given(won_rounds())
def test_no_fast_commit_is_missed_in_larger_worlds(
    world: tuple[ClusterConfig, dict[int, int | None], list[int]],
) -> None:
    config, ballots, quorum = world
    assert carried_on(ballots, quorum, config) == fast_winner(ballots, config)
