"""Rounds: counting, helping those who missed something, and getting one instance decided."""

import pytest

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus
from epoxy.model.errors import InvariantViolation
from epoxy.model.messages import (
    AcceptOk,
    AlreadyCommitted,
    Behind,
    EpochAhead,
    Failed,
    HigherBallot,
    PrepareOk,
    Reply,
    StaleCommit,
    StaleEpoch,
    UpdateConfig,
)
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.records import FRESH, KeyState, Proposal, Settled
from epoxy.model.writes import Path
from epoxy.protocol.effects import Answer, Local, Pause, Tell
from epoxy.protocol.keys.effects import EpochChanged
from epoxy.protocol.keys.operations import Conclude, FastVote, LocalOp, Reserve, Reserved
from epoxy.protocol.keys.rounds import Gathered, classic_rounds, decide, gather
from epoxy.protocol.keys.terms import Decision, Free, GaveUp, KeyInstance, OwnProposal
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
    asking_fast,
    commit,
    config_of,
    fast_vote,
    fold_of,
    own,
    prepare,
    prop,
    read,
    vote_at,
)

MINE, OTHERS = prop(b"mine", by=A), prop(b"others", by=C)
ONE = prop(b"one", 1, by=B, nonce=9, mutable=True)
TWO = prop(b"two", 2, by=A, mutable=True)
FAST = Ballot(1, A)
INSTANCE = KeyInstance(key=KEY, base=None)
SECOND = KeyInstance(key=KEY, base=ONE)
VOTED = KeyState(vote=fast_vote(MINE))
START = FastVote(fold=fold_of(MINE))
OK = AcceptOk()
PROMISE = PrepareOk(vote=None)
NO = Failed(reason="connection reset")


def reserve(above: Ballot = NO_BALLOT, base: int = 0, epoch: int = 1, *, insists: bool = False) -> Local[LocalOp]:
    return Local(Reserve(key=KEY, base=base, above=above, me=A, epoch=epoch, insists=insists))


def concluding() -> Local[LocalOp]:
    return Local(Conclude(key=KEY, proposal=MINE, epoch=1))


def refused(counter: int, by: int = C) -> HigherBallot:
    return HigherBallot(ballot=Ballot(counter, by))


# Gathering


def offer(proposal: Proposal) -> OwnProposal:
    return OwnProposal(fold=fold_of(proposal), writes=())


@pytest.mark.parametrize("reply", [NO, Behind(version=0), refused(2), EpochAhead(epoch=1), StaleCommit(version=3)])
def test_a_round_ends_when_too_many_refuse(reply: Reply) -> None:
    got = Gathered(need=2, asked=3, oks={})
    got.count(B, reply)
    assert not got.settled
    got.count(C, reply)
    assert got.settled
    assert not got.reached


def test_a_round_ends_when_enough_agree_or_it_is_decided() -> None:
    got = Gathered(need=2, asked=3, oks={A: OK})
    got.count(B, OK)
    assert (got.settled, got.reached) == (True, True)
    got = Gathered(need=3, asked=3, oks={A: OK})
    got.count(B, AlreadyCommitted(committed=OTHERS))
    assert (got.settled, got.reached, got.decided) == (True, False, AlreadyCommitted(committed=OTHERS))


def test_one_replica_is_counted_once() -> None:
    got = Gathered(need=2, asked=3, oks={})
    got.count(B, OK)
    got.count(B, OK)
    assert not got.reached


def test_the_highest_refusal_is_remembered() -> None:
    got = Gathered(need=1, asked=5, oks={})
    for ballot in (Ballot(4, B), Ballot(7, A), Ballot(2, E)):
        got.count(ballot.replica_id, HigherBallot(ballot=ballot))
    assert got.highest == Ballot(7, A)


def test_a_stale_epoch_ends_the_round_at_once() -> None:
    with pytest.raises(EpochChanged) as change:
        Gathered(need=2, asked=3, oks={}).count(B, StaleEpoch(config=config_of(epoch=2)))
    assert change.value.config == config_of(epoch=2)


def test_no_request_is_sent_when_the_own_answer_is_enough() -> None:
    bench = Bench(config=config_of(1))
    got = bench.run(gather(bench.context(), read(), (), need=1, own={A: OK}, base=None))
    assert got.reached
    assert bench.effects == []


def test_a_replica_behind_is_sent_the_commit_it_missed_once() -> None:
    bench = Bench()
    request = accept(TWO, FAST)
    flow = gather(bench.context(), request, (B, C), need=2, own={A: OK}, base=ONE)
    got = bench.run(flow, Answer(B, Behind(version=0)), Answer(B, Behind(version=0)), Answer(C, OK))
    assert bench.effects == [asking_fast(request, B, C), again(B, commit(ONE), request)]
    assert (got.oks, got.refused) == ({A: OK, C: OK}, {B})


def test_a_replica_behind_that_was_helped_counts() -> None:
    bench = Bench()
    request = accept(TWO, FAST)
    flow = gather(bench.context(), request, (B, C), need=2, own={A: OK}, base=ONE)
    got = bench.run(flow, Answer(B, Behind(version=0)), Answer(B, OK))
    assert got.oks == {A: OK, B: OK}


def test_a_replica_in_an_earlier_epoch_is_sent_the_configuration_once() -> None:
    bench = Bench(config=config_of(epoch=3))
    request = prepare(Ballot(2, A), epoch=3)
    flow = gather(bench.context(), request, (B, C), need=2, own={A: PROMISE}, base=None)
    bench.run(flow, Answer(B, EpochAhead(epoch=2)), Answer(C, NO), Answer(B, EpochAhead(epoch=2)))
    assert bench.effects == [asking(request, B, C), again(B, UpdateConfig(config=config_of(epoch=3)), request)]


# The fast round


def test_the_fast_path() -> None:
    bench = Bench(VOTED)
    result = bench.run(decide(bench.context(), INSTANCE, offer(MINE), START), Answer(C, OK))
    assert result == Decision(committed=MINE, path=Path.FAST)
    assert bench.effects == [
        asking_fast(accept(MINE, FAST), B, C),
        concluding(),
        Tell(envelopes={B: (commit(MINE),), C: (commit(MINE),)}),
    ]
    assert bench.state == KeyState(committed=MINE)


def test_the_fast_path_waits_for_its_own_policy() -> None:
    bench = Bench(VOTED, config=config_of(policy=QuorumPolicy.FAST_PAXOS))
    result = bench.run(decide(bench.context(), INSTANCE, offer(MINE), START), Answer(C, OK), Answer(B, OK))
    assert result == Decision(committed=MINE, path=Path.FAST)


def test_one_replica_decides_alone() -> None:
    bench = Bench(VOTED, config=config_of(1))
    assert bench.run(decide(bench.context(), INSTANCE, offer(MINE), START)) == Decision(committed=MINE, path=Path.FAST)
    assert bench.effects == [concluding(), Tell(envelopes={})]


def test_commits_reach_learners_who_were_never_asked() -> None:
    members = (*config_of(3).replicas, ReplicaInfo(id=D, status=ReplicaStatus.LEARNING))
    bench = Bench(VOTED, config=ClusterConfig(epoch=1, coordinator_id=A, replicas=members))
    bench.run(decide(bench.context(), INSTANCE, offer(MINE), START), Answer(B, OK))
    assert bench.effects == [
        asking_fast(accept(MINE, FAST), B, C),
        concluding(),
        Tell(envelopes=dict.fromkeys((B, C, D), (commit(MINE),))),
    ]


CLASSIC_AT_2 = [
    reserve(),
    asking(prepare(Ballot(2, A)), B, C),
    asking(accept(MINE, Ballot(2, A)), A, B, C),
    Local(commit(MINE)),
    Tell(envelopes={B: (commit(MINE),), C: (commit(MINE),)}),
]


def test_refused_votes_lead_to_a_classic_round_at_once() -> None:
    bench = Bench(VOTED)
    events: list[Scripted] = [Answer(B, refused(1)), Answer(C, refused(1)), Answer(B, PROMISE), own, Answer(B, OK)]
    result = bench.run(decide(bench.context(), INSTANCE, offer(MINE), START), *events)
    assert result == Decision(committed=MINE, path=Path.SLOW)
    assert bench.effects == [asking_fast(accept(MINE, FAST), B, C), *CLASSIC_AT_2]
    assert bench.state == KeyState(committed=MINE)


def test_the_hedge_timer_leads_to_a_classic_round() -> None:
    bench = Bench(VOTED)
    events: list[Scripted] = [EXPIRED, Answer(C, PROMISE), own, Answer(C, OK)]
    assert bench.run(decide(bench.context(), INSTANCE, offer(MINE), START), *events) == Decision(
        committed=MINE, path=Path.SLOW
    )
    assert bench.effects == [asking_fast(accept(MINE, FAST), B, C), *CLASSIC_AT_2]


def test_a_promise_made_meanwhile_forbids_the_fast_commit() -> None:
    bench = Bench(VOTED)
    events: list[Scripted] = [after(prepare(Ballot(2, C)), Answer(B, OK)), Answer(B, PROMISE), own, Answer(B, OK)]
    result = bench.run(decide(bench.context(), INSTANCE, offer(MINE), START), *events)
    assert result == Decision(committed=MINE, path=Path.SLOW)
    assert bench.effects == [
        asking_fast(accept(MINE, FAST), B, C),
        concluding(),
        reserve(),
        Pause(delay_ms=TIMING.hedge_ms, key=KEY, version=1),
        reserve(insists=True),
        asking(prepare(Ballot(3, A)), B, C),
        asking(accept(MINE, Ballot(3, A)), A, B, C),
        Local(commit(MINE)),
        Tell(envelopes={B: (commit(MINE),), C: (commit(MINE),)}),
    ]


def test_a_preempted_fast_round_may_find_its_own_value_decided() -> None:
    bench = Bench(VOTED)
    result = bench.run(decide(bench.context(), INSTANCE, offer(MINE), START), after(commit(MINE), Answer(B, OK)))
    assert result == Decision(committed=MINE, path=Path.FAST)
    assert bench.effects == [asking_fast(accept(MINE, FAST), B, C), concluding()]


def test_already_committed_in_the_fast_round_is_learned_first() -> None:
    bench = Bench(VOTED)
    events: list[Scripted] = [Answer(B, AlreadyCommitted(committed=OTHERS))]
    result = bench.run(decide(bench.context(), INSTANCE, offer(MINE), START), *events)
    assert result == Decision(committed=OTHERS, path=Path.FAST)
    assert bench.effects == [asking_fast(accept(MINE, FAST), B, C), Local(commit(OTHERS))]
    assert bench.state == KeyState(committed=OTHERS)


# Classic rounds


def test_already_committed_in_phase_one_is_learned_first() -> None:
    bench = Bench()
    lineage = (Settled(1, ONE.proposal_id),)
    later = AlreadyCommitted(committed=prop(b"2", 2, by=B, mutable=True), lineage=lineage)
    result = bench.run(classic_rounds(bench.context(), INSTANCE, offer(MINE), None), Answer(B, later))
    assert result == Decision(committed=later.committed, lineage=lineage, path=Path.SLOW)
    assert bench.effects == [reserve(), asking(prepare(Ballot(2, A)), B, C), Local(commit(later.committed))]


def test_already_committed_in_phase_two_is_learned_first() -> None:
    bench = Bench()
    events: list[Scripted] = [Answer(B, PROMISE), Answer(C, AlreadyCommitted(committed=OTHERS))]
    result = bench.run(classic_rounds(bench.context(), INSTANCE, offer(MINE), None), *events)
    assert result == Decision(committed=OTHERS, path=Path.SLOW)
    assert bench.effects == [
        reserve(),
        asking(prepare(Ballot(2, A)), B, C),
        asking(accept(MINE, Ballot(2, A)), A, B, C),
        Local(commit(OTHERS)),
    ]


def test_already_committed_at_home_when_reserving() -> None:
    bench = Bench(KeyState(committed=OTHERS))
    result = bench.run(classic_rounds(bench.context(), INSTANCE, offer(MINE), None))
    assert result == Decision(committed=OTHERS, path=Path.SLOW)
    assert bench.effects == [reserve()]


def test_a_reservation_made_by_the_selection_is_used() -> None:
    bench = Bench(KeyState(promised=Ballot(5, A)))
    held = Reserved(ballot=Ballot(5, A), vote=None, fold=fold_of(MINE))
    bench.run(decide(bench.context(), INSTANCE, offer(MINE), held), Answer(C, PROMISE), own, Answer(C, OK))
    assert bench.effects[0] == asking(prepare(Ballot(5, A)), B, C)


def test_what_an_earlier_round_may_have_chosen_is_carried_on() -> None:
    bench = Bench()
    events: list[Scripted] = [Answer(B, PrepareOk(vote=fast_vote(OTHERS))), Answer(B, OK), Answer(C, OK)]
    result = bench.run(classic_rounds(bench.context(), INSTANCE, offer(MINE), None), *events)
    assert result == Decision(committed=OTHERS, path=Path.SLOW)
    assert bench.effects[2] == asking(accept(OTHERS, Ballot(2, A)), A, B, C)


def test_the_own_vote_counts_among_the_promises() -> None:
    voted = vote_at(OTHERS, Ballot(2, C))
    bench = Bench(KeyState(promised=Ballot(2, C), vote=voted))
    events: list[Scripted] = [Answer(B, PROMISE), own, Answer(B, OK)]
    result = bench.run(classic_rounds(bench.context(), INSTANCE, offer(MINE), None), *events)
    assert result == Decision(committed=OTHERS, path=Path.SLOW)


def test_the_fan_out_may_be_outvoted_at_home() -> None:
    """A rival's promise at home refuses the own vote; a quorum elsewhere still decides."""
    bench = Bench()
    events: list[Scripted] = [after(prepare(Ballot(7, C)), Answer(B, PROMISE)), own, Answer(B, OK), Answer(C, OK)]
    assert bench.run(classic_rounds(bench.context(), INSTANCE, offer(MINE), None), *events) == Decision(
        committed=MINE, path=Path.SLOW
    )
    assert bench.state == KeyState(committed=MINE)


def test_a_recovery_without_a_value_ends_free() -> None:
    bench = Bench()
    assert bench.run(classic_rounds(bench.context(), INSTANCE, None, None), Answer(C, PROMISE)) == Free()
    assert bench.effects == [reserve(), asking(prepare(Ballot(2, A)), B, C)]


def test_a_recovery_without_a_value_carries_on_what_it_finds() -> None:
    bench = Bench()
    events: list[Scripted] = [Answer(B, PrepareOk(vote=fast_vote(OTHERS))), own, Answer(B, OK)]
    result = bench.run(classic_rounds(bench.context(), INSTANCE, None, None), *events)
    assert result == Decision(committed=OTHERS, path=Path.SLOW)


def test_a_classic_round_helps_those_behind_in_both_phases() -> None:
    bench = Bench(KeyState(committed=ONE))
    ask, vote = prepare(Ballot(2, A), base=1), accept(TWO, Ballot(2, A))
    events: list[Scripted] = [
        *(Answer(B, Behind(version=0)), Answer(B, PROMISE)),
        *(Answer(C, Behind(version=0)), Answer(C, OK), Answer(B, OK)),
    ]
    result = bench.run(classic_rounds(bench.context(), SECOND, offer(TWO), None), *events)
    assert result == Decision(committed=TWO, path=Path.SLOW)
    assert bench.effects == [
        reserve(base=1),
        asking(ask, B, C),
        again(B, commit(ONE), ask),
        asking(vote, A, B, C),
        again(C, commit(ONE), vote),
        Local(commit(TWO)),
        Tell(envelopes={B: (commit(TWO),), C: (commit(TWO),)}),
    ]
    assert bench.state == KeyState(committed=TWO, lineage=(Settled(1, ONE.proposal_id),))


def test_the_next_ballot_is_above_the_highest_refusal_of_either_phase() -> None:
    bench = Bench()
    events: list[Scripted] = [
        *(Answer(B, refused(4, B)), Answer(C, refused(9, C))),
        *(Answer(B, PROMISE), Answer(B, refused(20, B)), Answer(C, refused(12, B))),
        *(Answer(B, PROMISE), own, Answer(B, OK)),
    ]
    result = bench.run(classic_rounds(bench.context(), INSTANCE, offer(MINE), None), *events)
    assert result == Decision(committed=MINE, path=Path.SLOW)
    assert bench.effects == [
        reserve(),
        asking(prepare(Ballot(2, A)), B, C),
        Pause(delay_ms=TIMING.hedge_ms, key=KEY, version=1),
        reserve(above=Ballot(9, C), insists=True),
        asking(prepare(Ballot(10, A)), B, C),
        asking(accept(MINE, Ballot(10, A)), A, B, C),
        Pause(delay_ms=TIMING.hedge_ms, key=KEY, version=1),
        reserve(above=Ballot(20, B), insists=True),
        asking(prepare(Ballot(21, A)), B, C),
        asking(accept(MINE, Ballot(21, A)), A, B, C),
        Local(commit(MINE)),
        Tell(envelopes={B: (commit(MINE),), C: (commit(MINE),)}),
    ]


@pytest.mark.parametrize(
    ("uniform", "pauses"),
    [
        (0.0, [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 500.0, 500.0, 500.0]),
        (0.5, [7.5, 15.0, 30.0, 60.0, 120.0, 240.0, 480.0, 750.0, 750.0, 750.0]),
    ],
)
def test_ten_retries_with_jitter_then_it_gives_up(uniform: float, pauses: list[float]) -> None:
    """Each has more time than the one before: peers may be slower than anybody thought."""
    bench = Bench()
    flow = classic_rounds(bench.context(uniform=uniform), INSTANCE, offer(MINE), None)
    result = bench.run(flow, *[EXPIRED] * 11)
    assert result == GaveUp("no quorum after 10 retries")
    assert [effect.delay_ms for effect in bench.effects if isinstance(effect, Pause)] == pauses
    timers_ms = [TIMING.round_timeout_ms * times for times in (1, 2, *[4] * 9)]
    assert [effect for effect in bench.effects if not isinstance(effect, Pause)] == [
        effect
        for counter, timer_ms in enumerate(timers_ms, start=2)
        for effect in (reserve(), asking(prepare(Ballot(counter, A)), B, C, timer_ms=timer_ms))
    ]


def test_a_conflict_at_home_is_a_broken_invariant() -> None:
    bench = Bench()
    events: list[Scripted] = [after(commit(OTHERS), Answer(B, AlreadyCommitted(committed=prop(b"third", by=B))))]
    with pytest.raises(InvariantViolation) as violation:
        bench.run(classic_rounds(bench.context(), INSTANCE, offer(MINE), None), *events)
    assert not violation.value.definite
    assert bench.state == KeyState(committed=OTHERS)


def test_a_stale_epoch_ends_the_flow_for_its_caller_to_begin_again() -> None:
    bench = Bench()
    with pytest.raises(EpochChanged):
        bench.run(
            classic_rounds(bench.context(), INSTANCE, offer(MINE), None),
            Answer(B, StaleEpoch(config=config_of(epoch=2))),
        )
    bench = Bench(FRESH, config=config_of(epoch=2))
    context = Bench().context()
    with pytest.raises(EpochChanged) as change:
        bench.run(classic_rounds(context, INSTANCE, offer(MINE), None))
    assert change.value.config.epoch == 2
    assert bench.effects == [reserve()]
