"""Writes that were under way: what survivors may still know of them, and what is made of each."""

import pytest
from msgspec.structs import replace

from epoxy.backup.open_writes import Doubt, HeldKey, OpenWrite, Survivors, settle
from epoxy.codec import wire
from epoxy.model.ballot import Ballot, fast_ballot
from epoxy.model.cluster import ClusterConfig, first_epoch
from epoxy.model.records import CommittedRecord, Proposal, ProposalId, Settled, Vote

THREE = first_epoch((1, 2, 3))
ALONE = Survivors(config=THREE, voters=(1,), quorum=False)
MOST = Survivors(config=THREE, voters=(1, 2), quorum=True)
LEAVE = Survivors(config=THREE, voters=(1,), quorum=False, take=False)


def proposal(value: bytes, version: int = 1, by: int = 3, mutable: bool = True) -> Proposal:
    return Proposal(value=value, version=version, mutable=mutable, proposal_id=ProposalId(by, version))


def record(committed: Proposal, *lineage: Settled) -> bytes:
    return wire.encode_committed_record(CommittedRecord(committed=committed, lineage=lineage))


def held(records: dict[int, bytes], votes: dict[int, Vote] | None = None, promised: set[int] | None = None) -> HeldKey:
    key = HeldKey(b"k")
    key.records, key.votes, key.promised = records, votes or {}, promised or set()
    return key


def fast(value: bytes, version: int = 1, by: int = 3, epoch: int = 1) -> Vote:
    return Vote(proposal=proposal(value, version, by), ballot=fast_ballot(by), epoch=epoch)


def classic(value: bytes, counter: int, version: int = 1, by: int = 3) -> Vote:
    return Vote(proposal=proposal(value, version, by), ballot=Ballot(counter, by), epoch=1)


def value_of(record: bytes | None) -> bytes | None:
    return wire.decode_committed_record(record).committed.value if record is not None else None


# Committed versions


@pytest.mark.parametrize("survivors", [ALONE, MOST])
def test_the_newest_committed_version_counts(survivors: Survivors) -> None:
    old, new = record(proposal(b"a")), record(proposal(b"b", 2), Settled(1, ProposalId(3, 1)))
    assert settle(held({1: old, 2: new}), survivors).record == new
    assert settle(held({1: new, 2: old}), survivors).record == new
    assert settle(held({1: new, 2: new}), survivors).doubts == ()


def test_two_values_of_one_version_are_told() -> None:
    mine, other = record(proposal(b"a", by=1)), record(proposal(b"b", by=2))
    settled = settle(held({1: mine, 2: other}), MOST)
    assert settled.record == mine
    assert settled.doubts == (OpenWrite(key=b"k", doubt=Doubt.CONFLICT, version=1, value=b"b", replicas=(2,)),)


def test_a_reserved_name_is_in_no_doubt() -> None:
    name = record(proposal(b"a", mutable=False))
    assert settle(held({1: name}, {2: fast(b"b")}), ALONE).doubts == ()


# A lost majority


def test_a_vote_that_may_have_been_acknowledged_is_taken_and_listed() -> None:
    before = record(proposal(b"a"))
    settled = settle(held({1: before}, {1: fast(b"b", 2)}), ALONE)
    assert settled.record is not None
    found = wire.decode_committed_record(settled.record)
    assert (found.committed, found.lineage) == (proposal(b"b", 2), (Settled(1, ProposalId(3, 1)),))
    assert settled.doubts == (OpenWrite(key=b"k", doubt=Doubt.VOTE, version=2, value=b"b", replicas=(1,), taken=True),)


def test_it_is_left_if_the_operator_wants_that_and_listed_all_the_same() -> None:
    before = record(proposal(b"a"))
    settled = settle(held({1: before}, {1: fast(b"b", 2)}), LEAVE)
    assert settled.record == before
    assert [(doubt.value, doubt.taken) for doubt in settled.doubts] == [(b"b", False)]
    assert settle(held({}, {1: fast(b"b")}), LEAVE).record is None


def test_of_several_votes_the_likeliest_is_taken_and_all_are_listed() -> None:
    five = Survivors(config=first_epoch((1, 2, 3, 4, 5, 6, 7)), voters=(1, 2, 3), quorum=False)
    most = settle(held({}, {1: fast(b"a", by=4), 2: fast(b"b", by=5), 3: fast(b"b", by=5)}), five)
    assert value_of(most.record) == b"b"
    assert {(doubt.value, doubt.taken) for doubt in most.doubts} == {(b"a", False), (b"b", True)}
    later = settle(held({}, {1: classic(b"a", 7), 2: classic(b"b", 9, by=4), 3: fast(b"c", by=5)}), five)
    assert value_of(later.record) == b"b"


def test_votes_for_versions_that_are_settled_and_votes_of_sealed_epochs_do_not_count() -> None:
    newest = record(proposal(b"b", 2))
    assert settle(held({1: newest}, {1: fast(b"a", 1)}), ALONE).doubts == ()
    sealed = ClusterConfig(epoch=3, coordinator_id=1, replicas=THREE.replicas, sealed=2)
    old = Survivors(config=sealed, voters=(1,), quorum=False)
    assert settle(held({}, {1: fast(b"a", epoch=2)}), old).record is None


def test_a_vote_for_a_fold_is_open_on_top_of_its_base() -> None:
    """Whatever versions its writes have: two on top of 1 make 2 and 3; two on top of 0 were settled by another one."""
    newest = record(proposal(b"a"))
    fold = Proposal(
        value=b"c", version=3, mutable=True, proposal_id=ProposalId(3, 3), folded=(ProposalId(2, 2),), proposer=3
    )
    vote = Vote(proposal=fold, ballot=fast_ballot(3), epoch=1)
    assert value_of(settle(held({1: newest}, {1: vote}), ALONE).record) == b"c"
    settled = Vote(proposal=replace(fold, version=2), ballot=fast_ballot(3), epoch=1)
    assert settle(held({1: newest}, {1: settled}), ALONE).doubts == ()


def test_a_promise_says_that_a_write_was_under_way() -> None:
    before = record(proposal(b"a"))
    assert settle(held({1: before}, promised={1}), ALONE).doubts == (
        OpenWrite(key=b"k", doubt=Doubt.PROMISE, version=2, replicas=(1,)),
    )
    behind = held({1: record(proposal(b"b", 2)), 2: before}, promised={2})
    assert settle(behind, ALONE).doubts == (), "it was promised for a version that is settled"


# A quorum


def test_with_a_quorum_the_choice_rule_decides_and_nothing_is_in_doubt() -> None:
    """Proposer 3 is away: with its own vote and that of 2 it may have had a fast quorum of two."""
    chosen = settle(held({}, {2: fast(b"b")}, promised={1}), MOST)
    assert (value_of(chosen.record), chosen.doubts) == (b"b", ())
    own = settle(held({}, {2: fast(b"b", by=2)}), MOST)
    assert (own.record, own.doubts) == (None, ()), "its proposer is here, and has not committed it"


def test_a_rotten_row_makes_it_doubtful_again() -> None:
    """Planted: a replica whose row is rotten, counted as one without a vote, would hide a chosen value."""
    key = held({}, {2: fast(b"b", by=2)})
    key.rotten = {1}
    settled = settle(key, MOST)
    assert value_of(settled.record) == b"b"
    assert {doubt.doubt for doubt in settled.doubts} == {Doubt.ROTTEN, Doubt.VOTE}
