"""One client write: the exact effects from the vote at home to the answer."""

import pytest

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.messages import (
    AcceptOk,
    AlreadyCommitted,
    Behind,
    EpochAhead,
    Failed,
    HigherBallot,
    Inspected,
    PrepareOk,
    ReadOk,
    Reply,
    StaleEpoch,
    UpdateConfig,
)
from epoxy.model.records import FRESH, KeyState, Proposal, ProposalId, Settled
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NothingToDelete,
    Path,
    Refused,
    VersionMismatch,
    Write,
)
from epoxy.protocol.effects import Adopt, Answer, Local, Pause, Tell
from epoxy.protocol.keys.effects import Requests
from epoxy.protocol.keys.operations import NOT_EXPOSED, Conclude, LocalOp, Reserve, Select
from epoxy.protocol.keys.proposer import MAX_ROUNDS_LOST, propose
from tests.protocol.keys.harness import (
    EXPIRED,
    KEY,
    TIMING,
    A,
    B,
    Bench,
    C,
    Scripted,
    accept,
    after,
    again,
    asking,
    asking_fast,
    commit,
    config_of,
    fast_vote,
    own,
    prepare,
    prop,
    read,
    vote_at,
    waiting,
)

FAST = Ballot(1, A)
OK, PROMISE = AcceptOk(), PrepareOk(vote=None)
MINE, OTHERS = prop(b"mine", by=A), prop(b"others", by=C)
RESERVE = Write(key=KEY, value=b"mine")
PUT = Write(key=KEY, value=b"mine", mutable=True)
DELETE = Write(key=KEY, value=None, mutable=True)
LIVE, TOMBSTONE = prop(b"live", 1, by=B, nonce=9, mutable=True), prop(None, 1, by=B, nonce=9, mutable=True)


def put(version: int, value: bytes | None = b"mine") -> Proposal:
    """My own mutable proposal."""
    return prop(value, version, by=A, mutable=True)


def theirs(version: int, value: bytes | None = b"theirs", *, mutable: bool = True) -> Proposal:
    return prop(value, version, by=C, nonce=50 + version, mutable=mutable)


def select(
    write: Write, *, floor: int = NOT_EXPOSED, lost: Path | None = None, epoch: int = 1, insists: bool = False
) -> Local[LocalOp]:
    writes = (waiting(write, floor=floor, lost=lost),)
    return Local(Select(key=KEY, writes=writes, me=A, epoch=epoch, insists=insists))


def conclude(proposal: Proposal) -> Local[LocalOp]:
    return Local(Conclude(key=KEY, proposal=proposal, epoch=1))


def reserve(base: int = 0, above: Ballot = NO_BALLOT, epoch: int = 1) -> Local[LocalOp]:
    return Local(Reserve(key=KEY, base=base, above=above, me=A, epoch=epoch))


def telling(proposal: Proposal, epoch: int = 1) -> Tell[Requests]:
    return Tell(envelopes={B: (commit(proposal, epoch),), C: (commit(proposal, epoch),)})


def decided(committed: Proposal, *lineage: Settled) -> AlreadyCommitted:
    return AlreadyCommitted(committed=committed, lineage=lineage)


def holding(committed: Proposal | None) -> ReadOk:
    return ReadOk(committed=committed, vote=None)


def won(proposal: Proposal, path: Path, previous: Proposal | None = None) -> Committed:
    return Committed(proposal=proposal, mine=True, path=path, previous=previous)


# Immutable keys


def test_a_fresh_key_takes_one_round_trip() -> None:
    bench = Bench()
    assert bench.run(propose(RESERVE, bench.context()), Answer(B, OK)) == won(MINE, Path.FAST)
    assert bench.effects == [select(RESERVE), asking_fast(accept(MINE, FAST), B, C), conclude(MINE), telling(MINE)]


@pytest.mark.parametrize(
    ("committed", "write", "expected"),
    [
        (OTHERS, RESERVE, ExpectedValueDoesNotMatch(committed=OTHERS, path=Path.LOCAL)),
        (prop(b"mine", by=C), RESERVE, Committed(proposal=prop(b"mine", by=C), mine=False, path=Path.LOCAL)),
        (OTHERS, PUT, ImmutableKey(committed=OTHERS, path=Path.LOCAL)),
    ],
)
def test_a_committed_immutable_key_is_answered_at_home(committed: Proposal, write: Write, expected: object) -> None:
    bench = Bench(KeyState(committed=committed))
    assert bench.run(propose(write, bench.context())) == expected
    assert bench.effects == [select(write)]


def test_a_refused_fast_round_becomes_a_classic_one_with_the_own_value() -> None:
    bench = Bench()
    refused = HigherBallot(ballot=Ballot(1, C))
    events: list[Scripted] = [Answer(B, refused), Answer(C, refused), Answer(B, PROMISE), own, Answer(B, OK)]
    assert bench.run(propose(RESERVE, bench.context()), *events) == won(MINE, Path.SLOW)
    assert bench.effects == [
        select(RESERVE),
        asking_fast(accept(MINE, FAST), B, C),
        reserve(),
        asking(prepare(Ballot(2, A)), B, C),
        asking(accept(MINE, Ballot(2, A)), A, B, C),
        Local(commit(MINE)),
        telling(MINE),
    ]


def test_a_loser_that_finished_the_winner_says_whose_value_won() -> None:
    bench = Bench(KeyState(vote=fast_vote(OTHERS)))
    events: list[Scripted] = [Answer(B, PROMISE), own, Answer(B, OK)]
    result = bench.run(propose(RESERVE, bench.context()), *events)
    assert result == ExpectedValueDoesNotMatch(committed=OTHERS, path=Path.SLOW)
    assert bench.effects == [
        select(RESERVE),
        Pause(delay_ms=TIMING.hedge_ms, key=KEY, version=1),
        select(RESERVE, insists=True),
        asking(prepare(Ballot(2, A)), B, C),
        asking(accept(OTHERS, Ballot(2, A)), A, B, C),
        Local(commit(OTHERS)),
        telling(OTHERS),
        select(RESERVE, lost=Path.SLOW),
    ]


def test_an_equal_value_of_another_write_is_committed_but_not_mine() -> None:
    equal = prop(b"mine", by=C)
    bench = Bench()
    result = bench.run(propose(RESERVE, bench.context()), Answer(B, decided(equal)))
    assert result == Committed(proposal=equal, mine=False, path=Path.FAST)
    assert bench.effects == [
        select(RESERVE),
        asking_fast(accept(MINE, FAST), B, C),
        Local(commit(equal)),
        select(RESERVE, floor=1, lost=Path.FAST),
    ]


def test_my_own_proposal_finished_by_another_replica_is_mine() -> None:
    bench = Bench()
    events: list[Scripted] = [after(prepare(Ballot(2, C)), Answer(B, OK)), Answer(C, decided(MINE))]
    assert bench.run(propose(RESERVE, bench.context()), *events) == won(MINE, Path.SLOW)


def test_out_of_retries_is_indefinite() -> None:
    bench = Bench()
    result = bench.run(propose(RESERVE, bench.context()), *[EXPIRED] * 12)
    assert result == ConsensusFailed(reason="no quorum after 10 retries")
    assert sum(isinstance(effect, Pause) for effect in bench.effects) == 10
    assert bench.state == KeyState(promised=Ballot(12, A), vote=fast_vote(MINE))


def test_a_failed_write_stays_in_flight_and_the_next_one_may_replace_it() -> None:
    """The first client was told nothing definite; its proposer is in Q now, so its vote no longer counts."""
    bench = Bench(KeyState(vote=fast_vote(prop(b"first", by=A, nonce=99))))
    result = bench.run(propose(RESERVE, bench.context()), Answer(B, PROMISE), own, Answer(B, OK))
    assert result == won(MINE, Path.SLOW)


# Mutable keys


def test_an_overwrite_takes_one_round_trip_and_names_what_it_replaced() -> None:
    bench = Bench(KeyState(committed=LIVE))
    assert bench.run(propose(PUT, bench.context()), Answer(C, OK)) == won(put(2), Path.FAST, previous=LIVE)
    assert bench.effects == [select(PUT), asking_fast(accept(put(2), FAST), B, C), conclude(put(2)), telling(put(2))]


def test_an_overwrite_helps_a_replica_that_missed_the_version_before() -> None:
    bench = Bench(KeyState(committed=LIVE))
    request = accept(put(2), FAST)
    events = [Answer(C, Behind(version=0)), Answer(C, OK)]
    assert bench.run(propose(PUT, bench.context()), *events) == won(put(2), Path.FAST, previous=LIVE)
    assert bench.effects[1:3] == [asking_fast(request, B, C), again(C, commit(LIVE), request)]


def test_an_overwrite_that_lost_its_version_starts_again_at_the_next() -> None:
    bench = Bench()
    result = bench.run(propose(PUT, bench.context()), Answer(B, decided(theirs(1))), Answer(C, OK))
    assert result == won(put(2), Path.FAST, previous=theirs(1))
    assert bench.effects == [
        select(PUT),
        asking_fast(accept(put(1), FAST), B, C),
        Local(commit(theirs(1))),
        select(PUT, floor=1, lost=Path.FAST),
        asking_fast(accept(put(2), FAST), B, C),
        conclude(put(2)),
        telling(put(2)),
    ]


def test_a_write_overtaken_after_it_won_is_still_mine() -> None:
    bench = Bench()
    reply = decided(theirs(3), Settled(2, theirs(2).proposal_id), Settled(1, ProposalId(A, 1)))
    assert bench.run(propose(PUT, bench.context()), Answer(B, reply)) == won(put(1), Path.FAST)
    assert bench.state.committed == theirs(3)


def test_a_write_overtaken_after_it_lost_starts_again_above() -> None:
    bench = Bench()
    reply = decided(theirs(3), Settled(2, theirs(2).proposal_id), Settled(1, theirs(1).proposal_id))
    result = bench.run(propose(PUT, bench.context()), Answer(B, reply), Answer(B, OK))
    assert result == won(put(4), Path.FAST, previous=theirs(3))


def remembers(*lineage: Settled) -> Inspected:
    return Inspected(
        epoch=1, committed=theirs(30), lineage=lineage, promised=NO_BALLOT, vote=None, cached=None, changelog=()
    )


OVERTAKEN = Answer(B, decided(theirs(30), Settled(29, ProposalId(B, 1))))


def test_a_write_overtaken_too_long_ago_cannot_be_told_no() -> None:
    bench = Bench()
    result = bench.run(propose(PUT, bench.context()), OVERTAKEN, Answer(B, remembers()), Answer(C, remembers()))
    assert result == ConsensusFailed(reason="overtaken: no replica remembers what followed version 0")


def test_the_question_for_the_winner_ends_with_its_timer() -> None:
    bench = Bench()
    result = bench.run(propose(PUT, bench.context()), OVERTAKEN, Answer(C, remembers()), EXPIRED)
    assert result == ConsensusFailed(reason="overtaken: no replica remembers what followed version 0")


def test_what_one_replica_slept_through_another_remembers() -> None:
    bench = Bench()
    mine = Settled(1, ProposalId(1, 1))
    result = bench.run(propose(PUT, bench.context()), OVERTAKEN, Answer(B, remembers()), Answer(C, remembers(mine)))
    assert result == won(put(1), Path.FAST)


def test_a_write_that_lost_long_ago_goes_on_once_a_replica_remembers() -> None:
    bench = Bench()
    other = Settled(1, ProposalId(C, 9))
    events = [OVERTAKEN, Answer(C, remembers(other)), Answer(B, OK)]
    assert bench.run(propose(PUT, bench.context()), *events) == won(put(31), Path.FAST, previous=theirs(30))


def test_what_was_never_put_forward_cannot_have_won() -> None:
    """The local replica held a vote for another write, so this write proposed nothing before it caught up."""
    bench = Bench(KeyState(vote=fast_vote(theirs(1))))
    result = bench.run(propose(PUT, bench.context()), OVERTAKEN, Answer(B, OK))
    assert result == won(put(31), Path.SLOW, previous=theirs(30))


def test_an_overwrite_that_finds_the_key_immutable() -> None:
    bench = Bench(KeyState(committed=TOMBSTONE))
    taken = theirs(2, mutable=False)
    result = bench.run(propose(PUT, bench.context()), Answer(B, decided(taken)))
    assert result == ImmutableKey(committed=taken, path=Path.FAST)


def test_losing_every_round_ends_in_the_end() -> None:
    bench = Bench()
    losses = [Answer(B, decided(theirs(version))) for version in range(1, MAX_ROUNDS_LOST + 1)]
    result = bench.run(propose(PUT, bench.context()), *losses)
    assert result == ConsensusFailed(reason="lost 100 rounds to other writers")


# Compare and set


def cas(version: int, value: bytes | None = b"mine") -> Write:
    return Write(key=KEY, value=value, mutable=True, if_version=version)


def test_a_version_gone_by_is_answered_at_home() -> None:
    bench = Bench(KeyState(committed=theirs(3)))
    assert bench.run(propose(cas(2), bench.context())) == VersionMismatch(committed=theirs(3), path=Path.LOCAL)
    assert bench.effects == [select(cas(2))]


def test_a_version_not_here_yet_is_confirmed_by_a_quorum() -> None:
    bench = Bench(KeyState(committed=LIVE))
    result = bench.run(propose(cas(3), bench.context()), own, Answer(B, holding(theirs(2))))
    assert result == VersionMismatch(committed=theirs(2), path=Path.SLOW)
    assert bench.effects == [select(cas(3)), asking(read(), A, B, C)]


def test_a_version_that_home_missed_is_brought_home_and_built_upon() -> None:
    bench = Bench(KeyState(committed=LIVE))
    result = bench.run(propose(cas(3), bench.context()), own, Answer(B, holding(theirs(3))), Answer(C, OK))
    assert result == won(put(4), Path.SLOW, previous=theirs(3))
    assert bench.effects == [
        select(cas(3)),
        asking(read(), A, B, C),
        Local(commit(theirs(3))),
        select(cas(3), lost=Path.SLOW),
        asking_fast(accept(put(4), FAST), B, C),
        conclude(put(4)),
        telling(put(4)),
    ]


def test_the_loser_of_a_race_is_told_the_winner() -> None:
    bench = Bench(KeyState(committed=LIVE))
    result = bench.run(propose(cas(1), bench.context()), Answer(B, decided(theirs(2))))
    assert result == VersionMismatch(committed=theirs(2), path=Path.FAST)
    assert bench.effects == [
        select(cas(1)),
        asking_fast(accept(put(2), FAST), B, C),
        Local(commit(theirs(2))),
        select(cas(1), floor=2, lost=Path.FAST),
    ]


def test_no_quorum_to_confirm_with_fails() -> None:
    bench = Bench()
    result = bench.run(propose(cas(3), bench.context()), *[EXPIRED] * 11)
    assert result == Refused(reason="no quorum after 10 retries"), "definite: nothing was put forward"


# Deleting, and reserving what was deleted


def test_deleting_writes_a_tombstone() -> None:
    bench = Bench(KeyState(committed=LIVE))
    assert bench.run(propose(DELETE, bench.context()), Answer(B, OK)) == won(put(2, None), Path.FAST, previous=LIVE)


@pytest.mark.parametrize("committed", [None, TOMBSTONE])
def test_deleting_what_a_quorum_calls_absent_writes_nothing(committed: Proposal | None) -> None:
    bench = Bench(KeyState(committed=committed))
    result = bench.run(propose(DELETE, bench.context()), own, Answer(C, holding(committed)))
    assert result == NothingToDelete(committed=committed, path=Path.SLOW)
    assert bench.effects == [select(DELETE), asking(read(), A, B, C)]


def test_deleting_what_home_has_not_heard_of_yet() -> None:
    bench = Bench()
    result = bench.run(propose(DELETE, bench.context()), own, Answer(C, holding(LIVE)), Answer(C, OK))
    assert result == won(put(2, None), Path.SLOW, previous=LIVE)
    assert bench.effects[:4] == [
        select(DELETE),
        asking(read(), A, B, C),
        Local(commit(LIVE)),
        select(DELETE, lost=Path.SLOW),
    ]


def test_reserving_over_a_tombstone_takes_the_name_for_ever() -> None:
    bench = Bench(KeyState(committed=TOMBSTONE))
    mine = prop(b"mine", 2, by=A)
    assert bench.run(propose(RESERVE, bench.context()), Answer(B, OK)) == won(mine, Path.FAST, previous=TOMBSTONE)
    assert bench.state.is_final


def test_reserving_a_live_name_is_refused_by_a_quorum_only() -> None:
    bench = Bench(KeyState(committed=LIVE))
    result = bench.run(propose(RESERVE, bench.context()), own, Answer(B, holding(LIVE)))
    assert result == ExpectedValueDoesNotMatch(committed=LIVE, path=Path.SLOW)
    assert bench.effects == [select(RESERVE), asking(read(), A, B, C)]


def test_reserving_a_name_deleted_elsewhere() -> None:
    bench = Bench(KeyState(committed=LIVE))
    gone = theirs(2, None)
    result = bench.run(propose(RESERVE, bench.context()), own, Answer(B, holding(gone)), Answer(B, OK))
    assert result == won(prop(b"mine", 3, by=A), Path.SLOW, previous=gone)
    assert bench.effects[2:4] == [Local(commit(gone)), select(RESERVE, lost=Path.SLOW)]


def test_a_confirmation_finishes_what_is_in_flight_first() -> None:
    bench = Bench(KeyState(committed=LIVE))
    gone = theirs(2, None)
    events: list[Scripted] = [
        *(own, Answer(B, ReadOk(committed=LIVE, vote=fast_vote(gone))), EXPIRED),
        *(Answer(B, PrepareOk(vote=fast_vote(gone))), own, Answer(B, OK)),
        Answer(B, OK),
    ]
    result = bench.run(propose(RESERVE, bench.context()), *events)
    assert result == won(prop(b"mine", 3, by=A), Path.SLOW, previous=gone)


# Epochs

TWO = config_of(epoch=2)


def test_a_peer_in_an_earlier_epoch_is_helped() -> None:
    bench = Bench(config=TWO)
    request = accept(MINE, FAST, epoch=2)
    events = [Answer(B, EpochAhead(epoch=1)), Answer(B, OK)]
    assert bench.run(propose(RESERVE, bench.context()), *events) == won(MINE, Path.FAST)
    assert bench.effects[1:3] == [asking_fast(request, B, C), again(B, UpdateConfig(config=TWO), request)]


def test_a_stale_epoch_is_adopted_and_the_write_begins_again_with_prepare() -> None:
    bench = Bench()
    events: list[Scripted] = [Answer(B, StaleEpoch(config=TWO)), Answer(B, PROMISE), own, Answer(B, OK)]
    assert bench.run(propose(RESERVE, bench.context()), *events) == won(MINE, Path.SLOW)
    assert bench.effects == [
        select(RESERVE),
        asking_fast(accept(MINE, FAST), B, C),
        Local(Adopt(config=TWO)),
        select(RESERVE, floor=0, lost=Path.LOCAL, epoch=2),
        asking(prepare(Ballot(2, A), epoch=2), B, C),
        asking(accept(MINE, Ballot(2, A), epoch=2), A, B, C),
        Local(commit(MINE, epoch=2)),
        telling(MINE, epoch=2),
    ]


@pytest.mark.parametrize(
    ("settled", "expected"),
    [
        (put(1), won(put(1), Path.SLOW)),
        (theirs(1), VersionMismatch(committed=theirs(1), path=Path.SLOW)),
    ],
    ids=["it was mine", "it was not"],
)
def test_what_was_offered_in_the_old_epoch_is_settled_first(settled: Proposal, expected: object) -> None:
    """Without it, a compare-and-set that had won would meet its own version and call it a mismatch."""
    bench = Bench()
    result = bench.run(propose(cas(0), bench.context()), after(commit(settled), Answer(B, StaleEpoch(config=TWO))))
    assert result == expected
    again = waiting(cas(0), floor=0, lost=Path.LOCAL)
    again.handed_over = True  # another replica may still finish it
    select_again = Local(Select(key=KEY, writes=(again,), me=A, epoch=2))
    assert bench.effects[2:4] == [Local(Adopt(config=TWO)), select_again]


def test_an_epoch_adopted_at_home_meanwhile_stops_the_fast_commit() -> None:
    bench = Bench()

    def adopt_then_ok(home: Bench) -> Answer:
        home.adopt(TWO)
        return Answer(B, OK)

    events: list[Scripted] = [adopt_then_ok, Answer(B, PROMISE), own, Answer(B, OK)]
    assert bench.run(propose(RESERVE, bench.context()), *events) == won(MINE, Path.SLOW)
    assert bench.effects[2:5] == [
        conclude(MINE),
        Local(Adopt(config=TWO)),
        select(RESERVE, floor=0, lost=Path.LOCAL, epoch=2),
    ]


def test_fast_votes_of_a_sealed_epoch_do_not_bind_the_new_one() -> None:
    bench = Bench(KeyState(vote=fast_vote(OTHERS, epoch=1)), config=config_of(epoch=2, sealed=1))
    events: list[Scripted] = [Answer(B, PrepareOk(vote=fast_vote(OTHERS, epoch=1))), own, Answer(B, OK)]
    assert bench.run(propose(RESERVE, bench.context()), *events) == won(MINE, Path.SLOW)


# Restarts and strangers


@pytest.mark.parametrize(
    "state",
    [
        FRESH,
        KeyState(vote=fast_vote(OTHERS)),
        KeyState(promised=Ballot(4, C)),
        KeyState(promised=Ballot(4, C), vote=vote_at(OTHERS, Ballot(4, C))),
    ],
)
@pytest.mark.parametrize("reply", [Failed(reason="reset"), HigherBallot(ballot=Ballot(9, C)), Behind(version=0)])
def test_no_write_is_acknowledged_without_a_quorum(state: KeyState, reply: Reply) -> None:
    bench = Bench(state)
    rounds = 12 if state.is_untouched else 11
    events = [Answer(replica, reply) for _ in range(rounds) for replica in (B, C)]
    result = bench.run(propose(RESERVE, bench.context()), *events)
    told = ConsensusFailed if state.is_untouched else Refused
    assert result == told(reason="no quorum after 10 retries"), "definite if nothing was put forward"
    assert bench.state.committed is None
