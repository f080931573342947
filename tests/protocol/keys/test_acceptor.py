"""The acceptor, rule by rule (the numbers are those of the protocol page), and what no sequence of messages can do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.model.ballot import Ballot
from epoxy.model.cluster import ClusterConfig
from epoxy.model.messages import (
    Accept,
    AcceptOk,
    AlreadyCommitted,
    Behind,
    CommitConflict,
    CommitOk,
    EpochAhead,
    HigherBallot,
    KeyRequest,
    PrepareOk,
    ReadOk,
    Reply,
    StaleCommit,
    StaleEpoch,
)
from epoxy.model.records import FRESH, LINEAGE_LENGTH, KeyState, Proposal, ProposalId, Settled
from epoxy.protocol.keys.acceptor import step
from tests.protocol.keys.harness import KEY, A, B, C, accept, commit, config_of, fast_vote, prepare, prop, read, vote_at

CONFIG = config_of()
APPLE, PEAR = prop(b"apple", by=A), prop(b"pear", by=C)
ONE, TWO, THREE = (prop(b"%d" % version, version, by=B, mutable=True) for version in (1, 2, 3))
AT_TWO = KeyState(committed=TWO, lineage=(Settled(1, ONE.proposal_id),))


def unchanged(state: KeyState, message: KeyRequest, reply: Reply) -> None:
    assert step(state, message, CONFIG) == (state, reply)


# Rule 1


@pytest.mark.parametrize("version", [1, 2, 7])
def test_rule_1_an_immutable_key_is_decided_for_every_version(version: int) -> None:
    state = KeyState(committed=APPLE)
    reply = AlreadyCommitted(committed=APPLE)
    unchanged(state, prepare(Ballot(9, B), version - 1), reply)
    unchanged(state, accept(prop(b"x", version), Ballot(1, A)), reply)
    unchanged(state, accept(prop(b"x", version), Ballot(9, A)), reply)


@pytest.mark.parametrize("version", [1, 2])
def test_rule_1_a_mutable_key_is_decided_up_to_its_version(version: int) -> None:
    reply = AlreadyCommitted(committed=TWO, lineage=(Settled(1, ONE.proposal_id),))
    unchanged(AT_TWO, prepare(Ballot(9, B), version - 1), reply)
    unchanged(AT_TWO, accept(prop(b"x", version, mutable=True), Ballot(9, A)), reply)


def test_rule_1_a_legacy_value_is_committed_for_the_acceptor_too() -> None:
    legacy = prop(b"old", 0, by=0, nonce=0)
    unchanged(KeyState(committed=legacy), accept(APPLE, Ballot(1, A)), AlreadyCommitted(committed=legacy))


# Rule 2


def test_rule_2_a_replica_that_missed_a_commit_says_so() -> None:
    unchanged(FRESH, prepare(Ballot(2, B), base=1), Behind(version=0))
    unchanged(FRESH, accept(TWO, Ballot(1, B)), Behind(version=0))
    unchanged(AT_TWO, accept(prop(b"4", 4, mutable=True), Ballot(5, B)), Behind(version=2))


def test_rule_2_the_only_vote_for_the_version_before_survives() -> None:
    state = KeyState(vote=fast_vote(ONE))
    unchanged(state, accept(TWO, Ballot(9, C)), Behind(version=0))


# Rule 3


def test_rule_3_a_promise_raises_the_ballot_and_reports_no_vote() -> None:
    assert step(FRESH, prepare(Ballot(2, B)), CONFIG) == (KeyState(promised=Ballot(2, B)), PrepareOk(vote=None))


def test_rule_3_a_promise_keeps_the_vote_and_its_ballot() -> None:
    vote = fast_vote(APPLE)
    after = KeyState(promised=Ballot(2, B), vote=vote)
    assert step(KeyState(vote=vote), prepare(Ballot(2, B)), CONFIG) == (after, PrepareOk(vote=vote))


def test_rule_3_a_promise_above_a_classic_vote_keeps_it() -> None:
    vote = vote_at(APPLE, Ballot(2, A))
    after = KeyState(promised=Ballot(3, A), vote=vote)
    before = KeyState(promised=Ballot(2, A), vote=vote)
    assert step(before, prepare(Ballot(3, A)), CONFIG) == (after, PrepareOk(vote=vote))


@pytest.mark.parametrize("ballot", [Ballot(2, A), Ballot(2, B), Ballot(3, B)])
def test_rule_3_an_equal_or_lower_ballot_is_refused(ballot: Ballot) -> None:
    unchanged(KeyState(promised=Ballot(3, B)), prepare(ballot), HigherBallot(ballot=Ballot(3, B)))


# Rule 4


def test_rule_4_an_untouched_replica_votes_and_promises_nothing() -> None:
    assert step(FRESH, accept(APPLE, Ballot(1, A)), CONFIG) == (KeyState(vote=fast_vote(APPLE)), AcceptOk())


def test_rule_4_a_resend_is_not_a_second_vote() -> None:
    unchanged(KeyState(vote=fast_vote(APPLE)), accept(APPLE, Ballot(1, A)), AcceptOk())


def test_rule_4_a_second_proposal_is_refused_also_with_a_higher_replica_id() -> None:
    unchanged(KeyState(vote=fast_vote(APPLE)), accept(PEAR, Ballot(1, C)), HigherBallot(ballot=Ballot(1, A)))
    unchanged(KeyState(vote=fast_vote(PEAR)), accept(APPLE, Ballot(1, A)), HigherBallot(ballot=Ballot(1, C)))


@pytest.mark.parametrize("other", [prop(b"apple", by=A, nonce=2), prop(b"fig", by=A, nonce=1)])
def test_rule_4_one_ballot_does_not_excuse_another_proposal(other: Proposal) -> None:
    unchanged(KeyState(vote=fast_vote(APPLE)), accept(other, Ballot(1, A)), HigherBallot(ballot=Ballot(1, A)))


def test_rule_4_a_classic_promise_closes_the_fast_round() -> None:
    unchanged(KeyState(promised=Ballot(2, B)), accept(APPLE, Ballot(1, A)), HigherBallot(ballot=Ballot(2, B)))


def test_rule_4_a_resend_after_a_promise_is_refused() -> None:
    state = KeyState(promised=Ballot(2, B), vote=fast_vote(APPLE))
    unchanged(state, accept(APPLE, Ballot(1, A)), HigherBallot(ballot=Ballot(2, B)))


# Rule 5


@pytest.mark.parametrize(
    "before",
    [
        FRESH,
        KeyState(promised=Ballot(2, B)),
        KeyState(promised=Ballot(2, A), vote=fast_vote(PEAR)),
        KeyState(promised=Ballot(2, B), vote=vote_at(PEAR, Ballot(2, B))),
    ],
    ids=["untouched", "promised to it", "over a fast vote", "a resend of another value cannot be, but would be kept"],
)
def test_rule_5_a_classic_vote_is_also_a_promise(before: KeyState) -> None:
    after = KeyState(promised=Ballot(2, B), vote=vote_at(APPLE, Ballot(2, B)))
    assert step(before, accept(APPLE, Ballot(2, B)), CONFIG) == (after, AcceptOk())


def test_rule_5_below_the_promise_is_refused() -> None:
    unchanged(KeyState(promised=Ballot(3, A)), accept(APPLE, Ballot(2, C)), HigherBallot(ballot=Ballot(3, A)))


# Rule 6


@pytest.mark.parametrize(
    "before",
    [
        FRESH,
        KeyState(promised=Ballot(9, C)),
        KeyState(promised=Ballot(9, C), vote=vote_at(PEAR, Ballot(9, C))),
        KeyState(vote=fast_vote(PEAR)),
    ],
)
def test_rule_6_a_decision_is_learned_whatever_was_promised(before: KeyState) -> None:
    assert step(before, commit(APPLE), CONFIG) == (KeyState(committed=APPLE), CommitOk())


def test_rule_6_a_higher_version_is_learned_and_remembers_whose_the_last_was() -> None:
    before = KeyState(committed=ONE, promised=Ballot(2, A), vote=fast_vote(prop(b"x", 2, by=C, mutable=True)))
    assert step(before, commit(TWO), CONFIG) == (AT_TWO, CommitOk())


def test_rule_6_versions_may_be_skipped() -> None:
    after = KeyState(committed=THREE, lineage=(Settled(1, ONE.proposal_id),))
    assert step(KeyState(committed=ONE), commit(THREE), CONFIG) == (after, CommitOk())


def test_rule_6_the_lineage_forgets_the_oldest() -> None:
    state = FRESH
    for version in range(1, LINEAGE_LENGTH + 4):
        state, _ = step(state, commit(prop(b"", version, nonce=version, mutable=True)), CONFIG)
    newest = LINEAGE_LENGTH + 2
    assert state.lineage == tuple(Settled(v, ProposalId(A, v)) for v in range(newest, newest - LINEAGE_LENGTH, -1))


def test_rule_6_the_same_decision_twice_is_already_known() -> None:
    state = KeyState(committed=TWO, lineage=(Settled(1, ONE.proposal_id),), vote=fast_vote(THREE))
    unchanged(state, commit(TWO), AlreadyCommitted(committed=TWO, lineage=state.lineage))


def test_rule_6_a_late_commit_leaves_the_work_on_the_next_version_alone() -> None:
    state = KeyState(committed=TWO, promised=Ballot(2, A), vote=fast_vote(THREE))
    unchanged(state, commit(ONE), StaleCommit(version=2))


@pytest.mark.parametrize(
    "other", [prop(b"pear", by=C), prop(b"apple", by=A, nonce=2), prop(b"apple", 2, by=A), prop(b"x", 2, mutable=True)]
)
def test_rule_6_a_second_decision_never_overwrites(other: Proposal) -> None:
    unchanged(KeyState(committed=APPLE), commit(other), CommitConflict(committed=APPLE))


def test_rule_6_a_second_decision_for_a_mutable_version_never_overwrites() -> None:
    unchanged(AT_TWO, commit(prop(b"other", 2, by=C, mutable=True)), CommitConflict(committed=TWO))


# Epochs


@pytest.mark.parametrize("message", [prepare(Ballot(2, B), epoch=4), accept(APPLE, Ballot(1, A), epoch=4), read(4)])
def test_an_old_epoch_is_refused_with_the_new_configuration(message: KeyRequest) -> None:
    assert step(FRESH, message, config_of(epoch=5)) == (FRESH, StaleEpoch(config=config_of(epoch=5)))


@pytest.mark.parametrize("message", [prepare(Ballot(2, B), epoch=6), accept(APPLE, Ballot(1, A), epoch=6), read(6)])
def test_a_newer_epoch_is_refused_until_its_configuration_is_here(message: KeyRequest) -> None:
    assert step(FRESH, message, config_of(epoch=5)) == (FRESH, EpochAhead(epoch=5))


@pytest.mark.parametrize("epoch", [4, 5, 6])
def test_a_decision_is_learned_in_any_epoch(epoch: int) -> None:
    assert step(FRESH, commit(APPLE, epoch), config_of(epoch=5)) == (KeyState(committed=APPLE), CommitOk())


def test_the_epoch_is_checked_before_the_version() -> None:
    config = config_of(epoch=5)
    assert step(KeyState(committed=APPLE), prepare(Ballot(2, B), epoch=4), config)[1] == StaleEpoch(config=config)


def test_a_vote_records_its_epoch() -> None:
    state, _ = step(FRESH, accept(APPLE, Ballot(1, A), epoch=5), config_of(epoch=5))
    assert state == KeyState(vote=fast_vote(APPLE, epoch=5))


def test_a_resend_in_a_later_epoch_is_not_the_same_vote() -> None:
    state = KeyState(vote=fast_vote(APPLE, epoch=1))
    refused = (state, HigherBallot(ballot=Ballot(1, A)))
    assert step(state, accept(APPLE, Ballot(1, A), epoch=2), config_of(epoch=2)) == refused


# Reads


def test_a_read_shows_committed_and_vote_and_changes_nothing() -> None:
    state = KeyState(committed=TWO, promised=Ballot(2, A), vote=fast_vote(THREE))
    unchanged(state, read(), ReadOk(committed=TWO, vote=fast_vote(THREE)))
    unchanged(FRESH, read(), ReadOk(committed=None, vote=None))


# Properties. Decisions are made by one oracle, so that commits agree as a correct cluster's would.

LAST_VERSION = 5


def decided(version: int) -> Proposal:
    """Version 4 makes the key immutable."""
    return prop(b"d%d" % version, version, by=version % 3 + 1, nonce=100 + version, mutable=version < LAST_VERSION - 1)


def contender(version: int, by: int, nonce: int) -> Proposal:
    return prop(b"c%d" % nonce, version, by=by, nonce=nonce, mutable=True)


versions = st.integers(1, LAST_VERSION)
classic = st.builds(Ballot, st.integers(2, 6), st.integers(1, 3))
proposals = st.builds(contender, versions, by=st.integers(1, 3), nonce=st.integers(1, 2))
epochs = st.sampled_from([1, 2, 2, 2, 2, 3])
messages: st.SearchStrategy[KeyRequest] = st.one_of(
    st.builds(prepare, classic, st.integers(0, LAST_VERSION - 1), epochs),
    st.builds(lambda p, e: accept(p, Ballot(1, p.proposal_id.replica_id), e), proposals, epochs),
    st.builds(accept, proposals, classic, epochs),
    st.builds(lambda v: commit(decided(v)), st.integers(1, LAST_VERSION - 1)),
    st.builds(read, epochs),
)
sequences = st.lists(messages, max_size=40)
EPOCH_TWO: ClusterConfig = config_of(epoch=2)


def walk(sequence: list[KeyRequest]) -> list[tuple[KeyState, KeyRequest, KeyState, Reply]]:
    steps = []
    state = FRESH
    for message in sequence:
        after, reply = step(state, message, EPOCH_TWO)
        steps.append((state, message, after, reply))
        state = after
    return steps


@given(sequences)
def test_promises_only_rise_within_a_version(sequence: list[KeyRequest]) -> None:
    for before, _, after, _ in walk(sequence):
        assert after.promised >= before.promised or after.version > before.version


@given(sequences)
def test_one_fast_vote_for_each_instance(sequence: list[KeyRequest]) -> None:
    granted: dict[int, set[tuple[Ballot, Proposal]]] = {}
    for _, message, _, reply in walk(sequence):
        if isinstance(message, Accept) and message.ballot.is_fast and isinstance(reply, AcceptOk):
            granted.setdefault(message.proposal.version, set()).add((message.ballot, message.proposal))
    assert all(len(votes) == 1 for votes in granted.values())


@given(sequences)
def test_the_committed_version_only_rises(sequence: list[KeyRequest]) -> None:
    for before, _, after, _ in walk(sequence):
        assert after.version > before.version or after.committed == before.committed


@given(sequences)
def test_an_immutable_value_never_changes(sequence: list[KeyRequest]) -> None:
    for before, _, after, _ in walk(sequence):
        assert after == before or not before.is_final


@given(sequences, st.integers(1, LAST_VERSION - 1))
def test_learning_twice_is_learning_once(sequence: list[KeyRequest], version: int) -> None:
    state = walk([*sequence, read(2)])[-1][2]
    once, _ = step(state, commit(decided(version)), EPOCH_TWO)
    twice, reply = step(once, commit(decided(version)), EPOCH_TWO)
    assert twice == once
    assert isinstance(reply, AlreadyCommitted | StaleCommit)


@given(sequences)
def test_promise_and_vote_belong_to_the_next_version(sequence: list[KeyRequest]) -> None:
    for before, _, after, _ in walk(sequence):
        assert after.vote is None or after.vote.proposal.base == after.version
        assert after.version == before.version or after.is_untouched


@given(sequences)
def test_a_promise_never_changes_the_vote_nor_a_refusal_anything(sequence: list[KeyRequest]) -> None:
    for before, _, after, reply in walk(sequence):
        assert isinstance(reply, AcceptOk | CommitOk) or after.vote == before.vote
        assert isinstance(reply, AcceptOk | CommitOk | PrepareOk) or after == before


@given(sequences)
def test_no_reply_reveals_a_vote_of_another_version(sequence: list[KeyRequest]) -> None:
    for before, _, _, reply in walk(sequence):
        if isinstance(reply, PrepareOk | ReadOk) and reply.vote is not None:
            assert reply.vote.proposal.base == before.version


@given(sequences)
def test_a_vote_is_granted_only_at_or_above_the_promise(sequence: list[KeyRequest]) -> None:
    for before, message, after, reply in walk(sequence):
        if isinstance(message, Accept) and isinstance(reply, AcceptOk):
            assert message.key == KEY
            assert message.ballot.is_fast or message.ballot >= before.promised
            assert not (message.ballot.is_fast and before.promised.is_classic)
            assert after.vote == vote_at(message.proposal, message.ballot, epoch=2)
