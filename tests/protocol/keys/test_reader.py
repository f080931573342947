"""Reads of all three consistencies: the exact effects, and what each may and may not say."""

import pytest

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.messages import (
    AcceptOk,
    AlreadyCommitted,
    EpochAhead,
    Failed,
    HigherBallot,
    PrepareOk,
    ReadOk,
    StaleEpoch,
    UpdateConfig,
)
from epoxy.model.records import KeyState, Proposal, Settled, Vote
from epoxy.model.writes import Consistency, ReadFailed, ReadResult, Source
from epoxy.protocol.effects import Adopt, Also, Answer, Local, Pause, Tell, Timing
from epoxy.protocol.keys.effects import Requests
from epoxy.protocol.keys.operations import Cache, LocalOp, Peek, Reserve
from epoxy.protocol.keys.reader import are_live, linearizable, read, unheard_winners
from tests.protocol.keys import harness
from tests.protocol.keys.harness import (
    EXPIRED,
    KEY,
    TIMING,
    A,
    B,
    Bench,
    C,
    D,
    E,
    Scripted,
    accept,
    after,
    again,
    asking,
    commit,
    config_of,
    fast_vote,
    own,
    prepare,
    prop,
    vote_at,
)

OPTIMISTIC, SKIP_CACHE, LINEARIZABLE = Consistency.OPTIMISTIC, Consistency.SKIP_CACHE, Consistency.LINEARIZABLE
OK, PROMISE, NO = AcceptOk(), PrepareOk(vote=None), Failed(reason="reset")
VALUE, OTHER = prop(b"value", by=B), prop(b"other", by=C)
ONE, TWO = prop(b"one", 1, by=B, mutable=True), prop(b"two", 2, by=C, mutable=True)
GONE = prop(None, 2, by=C, mutable=True)
ASKED = asking(harness.read(), A, B, C)


def holding(committed: Proposal | None = None, vote: Vote | None = None) -> ReadOk:
    return ReadOk(committed=committed, vote=vote)


def found(committed: Proposal | None, source: Source) -> ReadResult:
    return ReadResult(committed=committed, source=source)


def peek(*, use_cache: bool) -> Local[LocalOp]:
    return Local(Peek(key=KEY, use_cache=use_cache))


def reserve(base: int = 0, above: Ballot = NO_BALLOT, *, insists: bool = False) -> Local[LocalOp]:
    return Local(Reserve(key=KEY, base=base, above=above, me=A, epoch=1, insists=insists))


# Optimistic and skip_cache


@pytest.mark.parametrize("consistency", [OPTIMISTIC, SKIP_CACHE])
def test_what_is_committed_here_is_read_here(consistency: Consistency) -> None:
    bench = Bench(KeyState(committed=VALUE))
    assert bench.run(read(KEY, consistency, bench.context())) == found(VALUE, Source.LOCAL)
    assert bench.effects == [peek(use_cache=consistency is OPTIMISTIC)]


def test_an_optimistic_read_believes_the_cache() -> None:
    bench = Bench()
    bench.cached = VALUE
    assert bench.run(read(KEY, OPTIMISTIC, bench.context())) == found(VALUE, Source.CACHE)
    assert bench.effects == [peek(use_cache=True)]


def test_skip_cache_neither_reads_nor_writes_it() -> None:
    bench = Bench()
    bench.cached = OTHER
    assert bench.run(read(KEY, SKIP_CACHE, bench.context()), Answer(B, holding(VALUE))) == found(VALUE, Source.REMOTE)
    assert bench.effects == [peek(use_cache=False), asking(harness.read(), B, C)]
    assert bench.cached == OTHER


def test_the_first_value_found_wins_over_earlier_empty_answers() -> None:
    bench = Bench(config=config_of(5))
    events = [Answer(D, holding()), Answer(C, holding()), Answer(B, holding(VALUE))]
    assert bench.run(read(KEY, OPTIMISTIC, bench.context()), *events) == found(VALUE, Source.REMOTE)
    assert bench.effects == [
        peek(use_cache=True),
        asking(harness.read(), B, C, D, E),
        Local(Cache(key=KEY, proposal=VALUE)),
    ]


def test_a_vote_is_not_a_value() -> None:
    bench = Bench()
    events = [Answer(B, holding(vote=fast_vote(VALUE))), Answer(C, holding(vote=fast_vote(VALUE)))]
    assert bench.run(read(KEY, OPTIMISTIC, bench.context()), *events) == found(None, Source.REMOTE)


def test_not_found_waits_for_all_that_may_still_answer() -> None:
    bench = Bench()
    events = [Answer(B, holding()), Answer(C, holding())]
    assert bench.run(read(KEY, OPTIMISTIC, bench.context()), *events) == found(None, Source.REMOTE)
    assert bench.effects == [peek(use_cache=True), asking(harness.read(), B, C)]


@pytest.mark.parametrize("missing", [EXPIRED, Answer(C, NO)])
def test_not_found_is_good_enough_from_a_slow_quorum(missing: Scripted) -> None:
    bench = Bench()
    assert bench.run(read(KEY, OPTIMISTIC, bench.context()), Answer(B, holding()), missing) == found(
        None, Source.REMOTE
    )


@pytest.mark.parametrize("events", [[EXPIRED], [Answer(B, NO), Answer(C, NO)], [Answer(B, NO), EXPIRED]])
def test_without_a_slow_quorum_not_even_absence_is_claimed(events: list[Scripted]) -> None:
    bench = Bench()
    result = bench.run(read(KEY, OPTIMISTIC, bench.context()), *events)
    assert result == ReadFailed(reason="only 1 of 3 replicas answered")


def test_a_value_needs_no_quorum() -> None:
    bench = Bench(config=config_of(5))
    events = [Answer(B, NO), Answer(C, NO), Answer(D, NO), Answer(E, holding(VALUE))]
    assert bench.run(read(KEY, OPTIMISTIC, bench.context()), *events) == found(VALUE, Source.REMOTE)


def test_the_newest_tombstone_is_told_and_not_cached() -> None:
    bench = Bench()
    older = prop(None, 1, by=B, mutable=True)
    events = [Answer(C, holding(GONE)), Answer(B, holding(older))]
    assert bench.run(read(KEY, OPTIMISTIC, bench.context()), *events) == found(GONE, Source.REMOTE)
    assert bench.effects == [peek(use_cache=True), asking(harness.read(), B, C)]


def test_one_replica_alone_says_not_found() -> None:
    bench = Bench(config=config_of(1))
    assert bench.run(read(KEY, OPTIMISTIC, bench.context())) == found(None, Source.REMOTE)


# Linearizable


@pytest.mark.parametrize("committed", [None, VALUE, TWO, GONE])
def test_a_quiet_key_is_read_in_one_round_trip(committed: Proposal | None) -> None:
    bench = Bench(KeyState(committed=committed))
    result = bench.run(read(KEY, LINEARIZABLE, bench.context()), own, Answer(C, holding(committed)))
    assert result == found(committed, Source.QUORUM)
    assert bench.effects == [ASKED]


def test_home_is_one_of_many_and_need_not_answer() -> None:
    bench = Bench()
    events = [Answer(B, holding(ONE)), Answer(C, holding(TWO))]
    assert bench.run(linearizable(KEY, bench.context()), *events) == found(TWO, Source.QUORUM)
    assert bench.effects == [ASKED]


def test_a_vote_for_what_is_committed_already_is_not_in_flight() -> None:
    bench = Bench(KeyState(vote=fast_vote(ONE)))
    result = bench.run(linearizable(KEY, bench.context()), own, Answer(C, holding(ONE)))
    assert result == found(ONE, Source.QUORUM)
    assert bench.effects == [ASKED]


OF_B, OF_C = fast_vote(VALUE), fast_vote(OTHER)


def waiting(*to: int, version: int = 1) -> Also[Requests]:
    """For the commit of `version` here, and for the answers of these."""
    envelopes = dict.fromkeys(to, (harness.read(),))
    return Also(envelopes=envelopes, timer_ms=TIMING.hedge_ms, key=KEY, version=version)


def test_a_vote_whose_proposer_is_silent_is_finished_first() -> None:
    """It may belong to an acknowledged write: B's vote and that of C are a fast quorum."""
    bench = Bench()
    events: list[Scripted] = [
        *(own, Answer(B, holding(vote=OF_C)), EXPIRED),
        *(Answer(B, PrepareOk(vote=OF_C)), own, Answer(B, OK)),
    ]
    assert bench.run(linearizable(KEY, bench.context()), *events) == found(OTHER, Source.QUORUM)
    assert bench.effects == [
        ASKED,
        waiting(),
        reserve(),
        asking(prepare(Ballot(2, A)), B, C),
        asking(accept(OTHER, Ballot(2, A)), A, B, C),
        Local(commit(OTHER)),
        Tell(envelopes={B: (commit(OTHER),), C: (commit(OTHER),)}),
    ]


def test_a_proposer_in_the_quorum_had_not_committed_when_it_answered() -> None:
    bench = Bench()
    events: list[Scripted] = [own, Answer(B, holding(vote=OF_B))]
    assert bench.run(linearizable(KEY, bench.context()), *events) == found(None, Source.QUORUM)
    assert bench.effects == [ASKED]


def test_votes_too_few_for_a_fast_quorum_cannot_have_been_committed() -> None:
    """Of five, three answer without a vote and one with E's: E and it are two of the three that are needed."""
    bench = Bench(config=config_of(5), state=KeyState(committed=ONE))
    of_e = fast_vote(prop(b"e", 2, by=E, mutable=True))
    events: list[Scripted] = [own, Answer(B, holding(ONE)), Answer(C, holding(ONE, of_e))]
    reading = linearizable(KEY, bench.context())
    answers = [Answer(D, holding(ONE)), Answer(E, holding(ONE, of_e))]
    assert bench.run(reading, *events, answers[1]) == found(ONE, Source.QUORUM), "E tells it itself"
    seen = {A: holding(ONE), B: holding(ONE), C: holding(ONE, of_e), D: holding(ONE)}
    assert unheard_winners({C: of_e}, seen, bench.config) == []
    assert unheard_winners({C: of_e}, {i: seen[i] for i in (A, B, C)}, bench.config) == [E]


def test_a_proposer_outside_the_quorum_is_asked() -> None:
    bench = Bench(KeyState(committed=ONE))
    of_c = fast_vote(prop(b"x", 2, by=C, mutable=True))
    near = Timing(near=(B, C))
    for answer, expected in ((holding(ONE, of_c), ONE), (holding(TWO), TWO)):
        bench.effects.clear()
        events: list[Scripted] = [own, Answer(B, holding(ONE, of_c)), Answer(C, answer)]
        assert bench.run(linearizable(KEY, bench.context(timing=near)), *events) == found(expected, Source.QUORUM)
        assert bench.effects == [asking(harness.read(), A, B, timer_ms=near.read_hedge_ms), waiting(C, version=2)]


def test_a_writer_that_is_known_is_asked_at_once() -> None:
    bench = Bench(KeyState(committed=ONE), config=config_of(5))
    of_e = fast_vote(prop(b"x", 2, by=E, mutable=True))
    near = Timing(near=(B, C, D, E))
    events: list[Scripted] = [own, Answer(B, holding(ONE, of_e)), Answer(C, holding(ONE)), Answer(E, holding(ONE))]
    reading = linearizable(KEY, bench.context(timing=near), E)
    assert bench.run(reading, *events) == found(ONE, Source.QUORUM)
    assert bench.effects == [asking(harness.read(), A, B, C, E, timer_ms=near.read_hedge_ms), waiting(version=2)]


def test_a_commit_that_is_learned_here_meanwhile_is_the_answer() -> None:
    bench = Bench(KeyState(committed=ONE))
    of_c = fast_vote(TWO)
    events: list[Scripted] = [own, Answer(B, holding(ONE, of_c)), Answer(C, NO), after(commit(TWO), EXPIRED)]
    assert bench.run(linearizable(KEY, bench.context()), *events) == found(TWO, Source.QUORUM)
    assert bench.effects == [ASKED, waiting(version=2), Local(commit(ONE)), reserve(base=1)]


def test_no_proposer_can_tell_how_a_classic_round_ended() -> None:
    """The replica of its ballot may have taken it over from another one that ended it."""
    bench = Bench()
    classic = vote_at(OTHER, Ballot(2, B))
    assert unheard_winners({B: classic}, {A: holding(), B: holding(vote=classic)}, bench.config) is None


def test_votes_of_earlier_epochs_are_finished_at_once() -> None:
    """No proposer is at work on them, and the next epoch waits for their end."""
    now, joint = config_of(epoch=2), config_of(epoch=2, previous=(A, B, D))
    assert are_live([fast_vote(VALUE, epoch=2)], now)
    assert not are_live([fast_vote(VALUE, epoch=2), fast_vote(OTHER)], now)
    assert not are_live([fast_vote(VALUE, epoch=2)], joint)
    bench = Bench(config=now)
    events: list[Scripted] = [own, Answer(B, holding(vote=OF_B)), Answer(B, PrepareOk(vote=OF_B))]
    assert bench.run(linearizable(KEY, bench.context()), *events) == found(None, Source.QUORUM)
    assert bench.effects[1:] == [
        Local(Reserve(key=KEY, base=0, above=NO_BALLOT, me=A, epoch=2)),
        asking(prepare(Ballot(2, A), epoch=2), B, C),
    ]


def test_a_newer_epoch_ends_the_wait() -> None:
    newer = config_of(epoch=2)
    bench = Bench()
    events: list[Scripted] = [own, Answer(B, holding(vote=OF_C)), Answer(C, StaleEpoch(config=newer))]
    again: list[Scripted] = [own, Answer(C, holding(VALUE))]
    assert bench.run(linearizable(KEY, bench.context()), *events, *again) == found(VALUE, Source.QUORUM)


def test_a_vote_in_flight_that_cannot_have_been_chosen_leaves_the_key_free() -> None:
    bench = Bench()
    events: list[Scripted] = [
        *(own, Answer(B, holding(vote=OF_C)), EXPIRED),
        *(Answer(B, PrepareOk(vote=None)),),
    ]
    assert bench.run(linearizable(KEY, bench.context()), *events) == found(None, Source.QUORUM)
    assert bench.effects == [ASKED, waiting(), reserve(), asking(prepare(Ballot(2, A)), B, C)]


def test_home_learns_the_version_before_it_finishes_the_next() -> None:
    three = prop(b"three", 3, by=C, mutable=True)
    classic = vote_at(three, Ballot(2, C))
    bench = Bench()
    events: list[Scripted] = [
        *(own, Answer(B, holding(TWO, classic)), EXPIRED),
        *(Answer(B, PrepareOk(vote=classic)), own, Answer(B, OK)),
    ]
    assert bench.run(linearizable(KEY, bench.context()), *events) == found(three, Source.QUORUM)
    assert bench.effects[:5] == [
        ASKED,
        waiting(version=3),
        Local(commit(TWO)),
        reserve(base=2),
        asking(prepare(Ballot(2, A), base=2), B, C),
    ]
    assert bench.state == KeyState(committed=three, lineage=(Settled(2, TWO.proposal_id),))


def test_a_free_instance_leaves_the_version_before() -> None:
    bench = Bench(KeyState(committed=ONE))
    of_c = fast_vote(prop(b"x", 2, by=C, mutable=True))
    events: list[Scripted] = [own, Answer(B, holding(ONE, of_c)), EXPIRED, Answer(B, PrepareOk(vote=None))]
    assert bench.run(linearizable(KEY, bench.context()), *events) == found(ONE, Source.QUORUM)


def test_a_recovery_that_meets_a_newer_version_answers_with_it() -> None:
    bench = Bench()
    events: list[Scripted] = [
        *(own, Answer(B, holding(vote=OF_C)), EXPIRED),
        Answer(C, AlreadyCommitted(committed=TWO)),
    ]
    assert bench.run(linearizable(KEY, bench.context()), *events) == found(TWO, Source.QUORUM)
    assert bench.state.committed == TWO


def test_a_duel_ends_above_the_rival() -> None:
    bench = Bench()
    refused = HigherBallot(ballot=Ballot(5, C))
    events: list[Scripted] = [
        *(own, Answer(B, holding(vote=OF_C)), EXPIRED),
        *(Answer(B, refused), Answer(C, refused)),
        *(Answer(B, PrepareOk(vote=OF_C)), own, Answer(B, OK)),
    ]
    assert bench.run(linearizable(KEY, bench.context()), *events) == found(OTHER, Source.QUORUM)
    assert bench.effects[2:6] == [
        reserve(),
        asking(prepare(Ballot(2, A)), B, C),
        Pause(delay_ms=TIMING.hedge_ms, key=KEY, version=1),
        reserve(above=Ballot(5, C), insists=True),
    ]


def test_too_few_answers_are_asked_for_again_then_the_read_fails() -> None:
    bench = Bench()
    result = bench.run(linearizable(KEY, bench.context()), *[EXPIRED] * 11)
    assert result == ReadFailed(reason="no quorum after 10 retries")
    assert bench.effects.count(ASKED) == 11
    pauses = [effect.delay_ms for effect in bench.effects if isinstance(effect, Pause)]
    assert pauses == [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 500.0, 500.0, 500.0]


def test_a_stale_epoch_is_adopted_and_the_read_asked_again() -> None:
    newer = config_of(epoch=2)
    bench = Bench()
    events: list[Scripted] = [Answer(B, StaleEpoch(config=newer)), own, Answer(C, holding(VALUE))]
    assert bench.run(linearizable(KEY, bench.context()), *events) == found(VALUE, Source.QUORUM)
    assert [effect for effect in bench.effects if not isinstance(effect, Pause)] == [
        ASKED,
        Local(Adopt(config=newer)),
        asking(harness.read(epoch=2), A, B, C),
    ]


def test_a_peer_in_an_earlier_epoch_is_helped() -> None:
    newer = config_of(epoch=2)
    bench = Bench(config=newer)
    events: list[Scripted] = [Answer(B, EpochAhead(epoch=1)), own, Answer(B, holding())]
    assert bench.run(linearizable(KEY, bench.context()), *events) == found(None, Source.QUORUM)
    assert bench.effects[1] == again(B, UpdateConfig(config=newer), harness.read(epoch=2))


# The nearest first

NEAR = Timing(near=(C, B))
NEAREST = asking(harness.read(), A, C, timer_ms=NEAR.read_hedge_ms)


def test_a_quorum_of_the_nearest_is_enough() -> None:
    bench = Bench(KeyState(committed=ONE))
    result = bench.run(linearizable(KEY, bench.context(timing=NEAR)), own, Answer(C, holding(TWO)))
    assert result == found(TWO, Source.QUORUM)
    assert bench.effects == [NEAREST]


@pytest.mark.parametrize("nothing", [EXPIRED, Answer(C, NO)])
def test_the_rest_is_asked_within_the_round_when_the_nearest_do_not_answer(nothing: Scripted) -> None:
    bench = Bench(KeyState(committed=ONE))
    events: list[Scripted] = [own, nothing, Answer(B, holding(TWO))]
    assert bench.run(linearizable(KEY, bench.context(timing=NEAR)), *events) == found(TWO, Source.QUORUM)
    assert bench.effects == [NEAREST, Also(envelopes={B: (harness.read(),)}, timer_ms=NEAR.round_timeout_ms)]


def test_a_late_answer_of_the_nearest_counts_once() -> None:
    bench = Bench(KeyState(committed=ONE), config=config_of(5))
    near = Timing(near=(B, C, D, E))
    late = Answer(B, holding(ONE))
    events: list[Scripted] = [own, EXPIRED, late, late, Answer(D, holding(TWO))]
    assert bench.run(linearizable(KEY, bench.context(timing=near)), *events) == found(TWO, Source.QUORUM)


def test_all_are_asked_again_after_a_pause_when_too_few_answer_at_all() -> None:
    bench = Bench(KeyState(committed=ONE))
    events: list[Scripted] = [own, Answer(C, NO), Answer(B, NO), own, Answer(B, holding(TWO))]
    assert bench.run(linearizable(KEY, bench.context(timing=NEAR)), *events) == found(TWO, Source.QUORUM)
    assert bench.effects[2:] == [Pause(delay_ms=5.0, key=KEY, version=0), ASKED]


def test_too_few_that_are_near_make_no_quorum() -> None:
    timing = Timing(near=(C,))
    bench = Bench(KeyState(committed=ONE), config=config_of(5))
    events: list[Scripted] = [own, Answer(B, holding(ONE)), Answer(D, holding(TWO))]
    assert bench.run(linearizable(KEY, bench.context(timing=timing)), *events) == found(TWO, Source.QUORUM)
    assert bench.effects == [asking(harness.read(), A, B, C, D, E)]
