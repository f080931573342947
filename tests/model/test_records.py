"""What a replica stores for a key, and what it can never store."""

import pytest
from msgspec.structs import replace

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.records import FRESH, LINEAGE_LENGTH, Expiry, KeyState, Proposal, ProposalId, Settled, Vote

ID = ProposalId(1, 0xAB)


def prop(version: int = 1, *, mutable: bool = True, value: bytes | None = b"x") -> Proposal:
    return Proposal(value=value, version=version, mutable=mutable, proposal_id=ID)


def vote(ballot: Ballot, version: int = 1) -> Vote:
    return Vote(proposal=prop(version), ballot=ballot, epoch=1)


def test_a_fresh_key_has_version_zero() -> None:
    assert (FRESH.version, FRESH.is_final, FRESH.is_untouched) == (0, False, True)


def test_a_mutable_key_goes_on_and_an_immutable_one_is_final() -> None:
    register, name = KeyState(committed=prop(4)), KeyState(committed=prop(1, mutable=False))
    assert (register.version, register.is_final, register.is_untouched) == (4, False, True)
    assert (name.version, name.is_final) == (1, True)


def test_a_legacy_value_is_final_at_version_zero() -> None:
    legacy = KeyState(committed=prop(0, mutable=False))
    assert (legacy.version, legacy.is_final) == (0, True)


@pytest.mark.parametrize(
    "state",
    [
        KeyState(vote=vote(Ballot(1, 1))),
        KeyState(promised=Ballot(2, 3)),
        KeyState(promised=Ballot(2, 3), vote=vote(Ballot(1, 1))),
        KeyState(promised=Ballot(2, 3), vote=vote(Ballot(2, 3))),
    ],
    ids=["fast vote", "promise", "fast vote, then promise", "classic vote"],
)
def test_anything_in_flight_closes_the_fast_round(state: KeyState) -> None:
    assert not state.is_untouched


def test_a_vote_belongs_to_the_instance_on_top_of_the_committed_version() -> None:
    for version in (1, 2, 4):
        with pytest.raises(AssertionError):
            KeyState(committed=prop(2), vote=vote(Ballot(1, 1), version))
    assert KeyState(committed=prop(2), vote=vote(Ballot(1, 1), 3)).vote is not None
    of_three = Vote(proposal=fold(5, 2), ballot=Ballot(1, 1), epoch=1)
    assert KeyState(committed=prop(2), vote=of_three).vote == of_three
    with pytest.raises(AssertionError):
        KeyState(committed=prop(4), vote=of_three)


def fold(version: int, before: int) -> Proposal:
    folded = tuple(ProposalId(2, nonce) for nonce in range(before))
    return Proposal(value=b"x", version=version, mutable=True, proposal_id=ID, folded=folded)


def test_a_fold_gives_each_write_a_version_on_top_of_its_base() -> None:
    assert [fold(9, before).base for before in (0, 1, 8)] == [8, 7, 0]
    assert Settled(9, ID, (ID, ID)).base == 6
    for version in (0, 1, 2):
        with pytest.raises(AssertionError):
            fold(version, 2)


def test_a_proposal_is_that_of_the_home_of_its_last_write_unless_another_replica_folded_it() -> None:
    assert prop(1).home == 1
    carried = Proposal(value=b"x", version=1, mutable=True, proposal_id=ID, proposer=3)
    assert carried.home == 3


def test_a_classic_vote_is_never_above_the_promise() -> None:
    with pytest.raises(AssertionError):
        KeyState(promised=Ballot(2, 1), vote=vote(Ballot(2, 2)))
    with pytest.raises(AssertionError):
        KeyState(promised=NO_BALLOT, vote=vote(Ballot(2, 2)))


def test_a_final_key_has_nothing_in_flight() -> None:
    final = prop(1, mutable=False)
    with pytest.raises(AssertionError):
        KeyState(committed=final, promised=Ballot(2, 1))
    with pytest.raises(AssertionError):
        KeyState(committed=final, vote=vote(Ballot(1, 1), 2))


def test_the_lineage_is_bounded() -> None:
    lineage = tuple(Settled(version, ID) for version in range(20, 20 - LINEAGE_LENGTH - 1, -1))
    assert KeyState(committed=prop(21), lineage=lineage[:LINEAGE_LENGTH]).version == 21
    with pytest.raises(AssertionError):
        KeyState(committed=prop(21), lineage=lineage)


def test_only_mutable_keys_hold_tombstones() -> None:
    assert prop(value=None).is_tombstone
    assert not prop(value=b"").is_tombstone
    with pytest.raises(AssertionError):
        prop(mutable=False, value=None)


def test_versions_are_not_negative() -> None:
    with pytest.raises(AssertionError):
        prop(-1)


def test_a_proposal_id_prints_its_replica_and_nonce() -> None:
    assert str(ID) == "1#ab"


def test_only_a_value_of_a_mutable_key_ends() -> None:
    expiry = Expiry(ttl_ms=1, since=1)
    leased = Proposal(value=b"x", version=1, mutable=True, proposal_id=ID, expiry=expiry)
    assert leased.expiry == expiry
    for changed in ({"mutable": False}, {"value": None}):
        with pytest.raises(AssertionError):
            replace(leased, **changed)


@pytest.mark.parametrize(("ttl_ms", "session"), [(0, b""), (1, bytes(16)), (-1, b"")])
def test_an_expiry_is_a_time_to_live_or_a_session(ttl_ms: int, session: bytes) -> None:
    with pytest.raises(AssertionError):
        Expiry(ttl_ms=ttl_ms, since=1, session=session)
