"""What a replica may hold for a key whose row it lost: asked of the others, never of itself."""

import pytest

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.messages import AcceptOk, AlreadyCommitted, Behind, Failed, HigherBallot, PrepareOk, ReadOk, StaleEpoch
from epoxy.model.records import KeyState, Proposal, Vote
from epoxy.model.writes import ReadOutcome, ReadResult, Source
from epoxy.protocol.effects import Adopt, Answer, Local, Pause, Tell, Timing
from epoxy.protocol.keys.restoring import NO_QUORUM, highest_seen, read_from_others, restored
from tests.protocol.keys import harness
from tests.protocol.keys.harness import (
    EXPIRED,
    KEY,
    A,
    B,
    Bench,
    C,
    Scripted,
    accept,
    again,
    asking,
    commit,
    config_of,
    fast_vote,
    prepare,
    prop,
    vote_at,
)

ONE, TWO = prop(b"one", 1, by=B, mutable=True), prop(b"two", 2, by=A, mutable=True)
TAKEN = prop(b"taken", 1, by=A)
ASKED = asking(harness.read(), B, C)
OK, PROMISE, NO = AcceptOk(), PrepareOk(vote=None), Failed(reason="reset")
SECOND = Ballot(2, A)


def holding(committed: Proposal | None = None, vote: Vote | None = None) -> ReadOk:
    return ReadOk(committed=committed, vote=vote)


def found(committed: Proposal | None) -> ReadResult:
    return ReadResult(committed=committed, source=Source.QUORUM)


def run(bench: Bench, *script: Scripted, above: Ballot = NO_BALLOT, retries: int = 0) -> ReadOutcome:
    return bench.run(read_from_others(KEY, above, bench.context(timing=Timing(retries=retries))), *script)


def test_it_takes_a_slow_quorum_of_the_others() -> None:
    """Two of three: its own answer would be the lost row."""
    bench = Bench()
    assert run(bench, Answer(B, holding(ONE)), Answer(C, holding(TWO))) == found(TWO)
    assert bench.effects == [ASKED]


@pytest.mark.parametrize("last", [Answer(C, NO), EXPIRED], ids=["refused", "silent"])
def test_one_of_two_others_proves_nothing(last: Scripted) -> None:
    assert run(Bench(), Answer(B, holding(TWO)), last) == NO_QUORUM


def test_a_lost_commit_that_only_votes_remain_of_is_finished_and_told() -> None:
    """This replica proposed and committed the first version, and its Commits were lost with the row. Its promise is
    not asked for, so its fast proposal counts as one that may have been chosen."""
    bench = Bench()
    vote = fast_vote(TAKEN)
    outcome = run(
        bench,
        Answer(B, holding(None, vote)),
        Answer(C, holding()),
        Answer(B, PrepareOk(vote=vote)),
        Answer(C, PROMISE),
        Answer(B, OK),
        Answer(C, OK),
    )
    assert outcome == found(TAKEN)
    assert bench.effects == [
        ASKED,
        asking(prepare(SECOND), B, C),
        asking(accept(TAKEN, SECOND), B, C),
        Tell(envelopes={B: (commit(TAKEN),), C: (commit(TAKEN),)}),
    ]


def test_a_vote_that_cannot_have_been_chosen_leaves_the_version_before() -> None:
    outcome = run(
        Bench(config=config_of(5)),
        *(Answer(i, holding(ONE, fast_vote(prop(b"x", 2, by=B, mutable=True)) if i == C else None)) for i in (B, C, 4)),
        *(Answer(i, PrepareOk(vote=None)) for i in (B, 4, 5)),
    )
    assert outcome == found(ONE)


@pytest.mark.parametrize("phase", [1, 2])
def test_a_decision_that_comes_meanwhile_is_taken(phase: int) -> None:
    vote = vote_at(TWO, Ballot(3, B))
    promises = [Answer(B, PrepareOk(vote=vote)), Answer(C, PROMISE)] if phase == 2 else []
    decided = Answer(C, AlreadyCommitted(committed=TWO))
    outcome = run(Bench(), Answer(B, holding(ONE, vote)), Answer(C, holding(ONE)), *promises, decided)
    assert outcome == found(TWO)


@pytest.mark.parametrize("phase", [1, 2])
def test_a_refused_ballot_is_followed_by_a_higher_one(phase: int) -> None:
    vote = vote_at(TWO, Ballot(3, B))
    promises = [Answer(B, PrepareOk(vote=vote)), Answer(C, PROMISE)]
    refused = [Answer(B, HigherBallot(ballot=Ballot(7, C)))]
    bench = Bench()
    script = [Answer(B, holding(ONE, vote)), Answer(C, holding(ONE))]
    script += refused if phase == 1 else [*promises, *refused]
    assert run(bench, *script, *promises, Answer(B, OK), Answer(C, OK), retries=1) == found(TWO)
    assert [effect for effect in bench.effects if isinstance(effect, Pause)] != []
    assert asking(prepare(Ballot(8, A), 1), B, C) in bench.effects


def test_without_a_quorum_for_the_recovery_it_ends() -> None:
    vote = vote_at(TWO, Ballot(3, B))
    assert run(Bench(), Answer(B, holding(ONE, vote)), Answer(C, holding(ONE)), Answer(B, NO)) == NO_QUORUM


def test_it_begins_above_the_ballots_this_replica_has_seen() -> None:
    vote = vote_at(TWO, Ballot(3, B))
    bench = Bench()
    script = [Answer(B, holding(ONE, vote)), Answer(C, holding(ONE)), Answer(B, AlreadyCommitted(committed=TWO))]
    run(bench, *script, above=highest_seen(Ballot(4, C), vote))
    assert bench.effects[-1] == asking(prepare(Ballot(5, A), 1), B, C)


def test_a_replica_that_missed_the_version_before_is_sent_it() -> None:
    vote = vote_at(TWO, Ballot(3, B))
    bench = Bench()
    script = [Answer(B, holding(ONE, vote)), Answer(C, holding()), Answer(C, Behind(version=0))]
    run(bench, *script, Answer(B, AlreadyCommitted(committed=TWO)))
    assert again(C, commit(ONE), prepare(SECOND, 1)) in bench.effects


def test_a_newer_epoch_is_adopted_and_asked_again() -> None:
    bench, newer = Bench(), config_of(5, epoch=2)
    outcome = run(bench, Answer(B, StaleEpoch(config=newer)), *(Answer(i, holding(ONE)) for i in (B, C, 4)))
    assert outcome == found(ONE)
    assert Local(Adopt(config=newer)) in bench.effects


PROMISED = Ballot(4, C)


def test_a_vote_for_the_next_version_stays_with_its_promise() -> None:
    vote = vote_at(TWO, Ballot(3, B))
    assert restored(ONE, PROMISED, vote) == KeyState(committed=ONE, promised=PROMISED, vote=vote)


@pytest.mark.parametrize("vote", [None, vote_at(ONE, Ballot(3, B)), vote_at(TWO, Ballot(3, B))], ids=str)
def test_a_promise_stays_although_its_version_is_not_known(vote: Vote | None) -> None:
    """A vote for this version or an earlier one is settled."""
    assert restored(TWO, PROMISED, vote) == KeyState(committed=TWO, promised=PROMISED)


def test_a_reserved_name_has_neither() -> None:
    assert restored(TAKEN, PROMISED, vote_at(TAKEN, Ballot(3, B))) == KeyState(committed=TAKEN)


@pytest.mark.parametrize("known", [TAKEN, ONE], ids=["reserved", "behind"])
def test_a_vote_beyond_what_the_others_know_is_a_contradiction(known: Proposal) -> None:
    later = prop(b"x", 2 if known is TAKEN else 3, mutable=True)
    assert restored(known, PROMISED, vote_at(later, Ballot(3, B))) is None
