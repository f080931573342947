"""The proposer's own transactions: select, reserve, conclude, learn."""

import pytest

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.messages import AlreadyCommitted, CommitConflict, CommitOk, HigherBallot, StaleEpoch
from epoxy.model.records import FRESH, KeyState, Settled
from epoxy.model.writes import Committed, ExpectedValueDoesNotMatch, Path, Write
from epoxy.protocol.keys.local import perform
from epoxy.protocol.keys.operations import (
    NOT_EXPOSED,
    Conclude,
    Concluded,
    FastVote,
    KeyOp,
    Occupied,
    Reserve,
    Reserved,
    Select,
    Unfolded,
)
from tests.protocol.keys.harness import KEY, A, B, C, commit, config_of, fast_vote, fold_of, prop, vote_at, waiting

CONFIG = config_of()
MINE, OTHERS = prop(b"mine", by=A), prop(b"others", by=C)
RESERVE = Write(key=KEY, value=b"mine")
PUT = Write(key=KEY, value=b"mine", mutable=True)
ONE, TWO = (prop(b"%d" % version, version, by=B, nonce=9, mutable=True) for version in (1, 2))


def select(write: Write = RESERVE, *, floor: int = NOT_EXPOSED, epoch: int = 1, insists: bool = False) -> Select:
    return Select(key=KEY, writes=(waiting(write, floor=floor),), me=A, epoch=epoch, insists=insists)


def reserve(
    base: int = 0, above: Ballot = NO_BALLOT, epoch: int = 1, *, rank: int = 0, insists: bool = False
) -> Reserve:
    return Reserve(key=KEY, base=base, above=above, me=A, epoch=epoch, rank=rank, insists=insists)


def conclude(epoch: int = 1) -> Conclude:
    return Conclude(key=KEY, proposal=MINE, epoch=epoch)


def test_select_votes_for_itself_on_a_fresh_key() -> None:
    after = KeyState(vote=fast_vote(MINE))
    assert perform(FRESH, select(), CONFIG) == (after, FastVote(fold=fold_of(MINE)))


def test_select_votes_for_the_next_version_of_a_register() -> None:
    mine = prop(b"mine", 3, by=A, mutable=True)
    before = KeyState(committed=TWO, lineage=(Settled(1, ONE.proposal_id),))
    after = KeyState(committed=TWO, lineage=before.lineage, vote=fast_vote(mine))
    assert perform(before, select(PUT), CONFIG) == (after, FastVote(fold=fold_of(mine, TWO)))


def test_select_answers_an_immutable_key_at_once() -> None:
    taken = KeyState(committed=OTHERS)
    answer = Unfolded((ExpectedValueDoesNotMatch(committed=OTHERS, path=Path.LOCAL),))
    assert perform(taken, select(), CONFIG) == (taken, answer)
    same = KeyState(committed=prop(b"mine", by=C))
    assert perform(same, select(), CONFIG) == (
        same,
        Unfolded((Committed(proposal=prop(b"mine", by=C), mine=False, path=Path.LOCAL),)),
    )


def test_select_asks_a_quorum_where_home_may_be_behind() -> None:
    before = KeyState(committed=ONE)
    assert perform(before, select(RESERVE), CONFIG) == (before, Unfolded((None,)))


@pytest.mark.parametrize(
    ("before", "ballot"),
    [
        (KeyState(promised=Ballot(2, C)), Ballot(3, A)),
        (KeyState(vote=fast_vote(OTHERS)), Ballot(2, A)),
        (KeyState(vote=fast_vote(MINE)), Ballot(2, A)),
        (KeyState(promised=Ballot(4, B), vote=fast_vote(OTHERS)), Ballot(5, A)),
        (KeyState(promised=Ballot(4, B), vote=vote_at(OTHERS, Ballot(4, B))), Ballot(5, A)),
    ],
    ids=["promised", "voted for another", "voted for itself before", "both", "classic vote"],
)
def test_select_reserves_a_classic_ballot_once_anything_is_in_flight(before: KeyState, ballot: Ballot) -> None:
    after = KeyState(promised=ballot, vote=before.vote)
    expected = Reserved(ballot=ballot, vote=before.vote, fold=fold_of(MINE))
    assert perform(before, select(insists=True), CONFIG) == (after, expected)


@pytest.mark.parametrize(
    ("before", "waits"),
    [
        (KeyState(promised=Ballot(2, C)), True),
        (KeyState(vote=fast_vote(OTHERS)), True),
        (KeyState(vote=fast_vote(MINE)), False),
        (KeyState(promised=Ballot(2, A), vote=fast_vote(OTHERS)), False),
        (KeyState(promised=Ballot(2, C), vote=fast_vote(MINE)), True),
    ],
    ids=["promised", "voted for another", "voted for itself", "its own ballot is the highest", "overtaken"],
)
def test_select_takes_no_ballot_while_a_rival_has_the_highest(before: KeyState, *, waits: bool) -> None:
    after, selected = perform(before, select(), CONFIG)
    assert ((after, selected) == (before, Occupied(0))) is waits
    assert isinstance(selected, Reserved) is not waits


def test_reserve_takes_no_ballot_while_a_rival_has_the_highest() -> None:
    """Votes of a fast round are what a recovery is for: only a classic round is waited for."""
    rival, own, voted = (
        KeyState(promised=Ballot(3, C)),
        KeyState(promised=Ballot(3, A)),
        KeyState(vote=fast_vote(OTHERS)),
    )
    assert perform(rival, reserve(), CONFIG) == (rival, Occupied(0))
    assert isinstance(perform(rival, reserve(insists=True), CONFIG)[1], Reserved)
    assert isinstance(perform(own, reserve(), CONFIG)[1], Reserved)
    assert isinstance(perform(voted, reserve(), CONFIG)[1], Reserved)


def test_the_first_classic_ballot_is_as_high_as_the_rank() -> None:
    assert perform(FRESH, reserve(rank=18), CONFIG)[0].promised == Ballot(20, A)
    beaten = KeyState(promised=Ballot(40, C))
    assert perform(beaten, reserve(rank=18, insists=True), CONFIG)[0].promised == Ballot(41, A)


def test_select_settles_what_was_offered_before_it_judges() -> None:
    before = KeyState(committed=OTHERS)
    assert perform(before, select(floor=0), CONFIG) == (before, AlreadyCommitted(committed=OTHERS))
    register = KeyState(committed=TWO, lineage=(Settled(1, ONE.proposal_id),))
    settled = AlreadyCommitted(committed=TWO, lineage=register.lineage)
    assert perform(register, select(PUT, floor=0), CONFIG) == (register, settled)
    assert perform(register, select(PUT, floor=1), CONFIG) == (register, settled)


def test_select_goes_on_with_what_was_offered_and_is_still_open() -> None:
    mine = prop(b"mine", 3, by=A, mutable=True)
    before = KeyState(committed=TWO, vote=fast_vote(mine))
    after = KeyState(committed=TWO, vote=fast_vote(mine), promised=Ballot(2, A))
    expected = Reserved(ballot=Ballot(2, A), vote=fast_vote(mine), fold=fold_of(mine, TWO))
    assert perform(before, select(PUT, floor=2), CONFIG) == (after, expected)


def test_reserve_goes_above_everything_seen_here_and_elsewhere() -> None:
    before = KeyState(promised=Ballot(3, C), vote=fast_vote(OTHERS))
    for above, ballot in [(NO_BALLOT, Ballot(4, A)), (Ballot(3, B), Ballot(4, A)), (Ballot(8, B), Ballot(9, A))]:
        after = KeyState(promised=ballot, vote=before.vote)
        expected = (after, Reserved(ballot=ballot, vote=before.vote))
        assert perform(before, reserve(above=above, insists=True), CONFIG) == expected


def test_reserve_never_gives_one_ballot_twice() -> None:
    state, given = FRESH, []
    for _ in range(5):
        state, reserved = perform(state, reserve(), CONFIG)
        assert isinstance(reserved, Reserved)
        given.append(reserved.ballot)
    assert given == [Ballot(counter, A) for counter in (2, 3, 4, 5, 6)]


def test_reserve_of_a_decided_instance_tells_the_decision() -> None:
    before = KeyState(committed=TWO, lineage=(Settled(1, ONE.proposal_id),))
    for base in (0, 1):
        expected = (before, AlreadyCommitted(committed=TWO, lineage=before.lineage))
        assert perform(before, reserve(base), CONFIG) == expected


def test_reserve_beyond_the_next_version_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        perform(FRESH, reserve(base=1), CONFIG)


def test_conclude_commits_what_a_fast_quorum_voted_for() -> None:
    assert perform(KeyState(vote=fast_vote(MINE)), conclude(), CONFIG) == (KeyState(committed=MINE), Concluded())


def test_conclude_is_forbidden_by_a_classic_promise_made_since() -> None:
    before = KeyState(vote=fast_vote(MINE), promised=Ballot(2, C))
    assert perform(before, conclude(), CONFIG) == (before, HigherBallot(ballot=Ballot(2, C)))


def test_conclude_is_forbidden_by_a_promise_of_its_own_replica_too() -> None:
    """A linearizable read at the same replica recovers, and counts on the proposer it has in its quorum."""
    before, _ = perform(KeyState(vote=fast_vote(MINE)), reserve(), CONFIG)
    assert perform(before, conclude(), CONFIG) == (before, HigherBallot(ballot=Ballot(2, A)))


def test_conclude_finds_it_decided_already() -> None:
    for committed in (MINE, OTHERS):
        before = KeyState(committed=committed)
        assert perform(before, conclude(), CONFIG) == (before, AlreadyCommitted(committed=committed))


def test_home_learns_as_any_acceptor_does() -> None:
    assert perform(FRESH, commit(MINE), CONFIG) == (KeyState(committed=MINE), CommitOk())
    before = KeyState(committed=OTHERS)
    assert perform(before, commit(MINE), CONFIG) == (before, CommitConflict(committed=OTHERS))


@pytest.mark.parametrize("op", [select(), reserve(), conclude()], ids=["select", "reserve", "conclude"])
@pytest.mark.parametrize("state", [FRESH, KeyState(vote=fast_vote(MINE)), KeyState(committed=OTHERS)])
def test_nothing_is_done_in_another_epoch(op: KeyOp, state: KeyState) -> None:
    config = config_of(epoch=2)
    assert perform(state, op, config) == (state, StaleEpoch(config=config))


def test_home_learns_in_any_epoch() -> None:
    assert perform(FRESH, commit(MINE, epoch=1), config_of(epoch=2)) == (KeyState(committed=MINE), CommitOk())
