"""Writes on their way to another replica, and their answers on the way back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.codec import wire
from epoxy.model.errors import Oversized
from epoxy.model.integers import LEAST_INTEGER, MOST_INTEGER
from epoxy.model.messages import CarryAnswers
from epoxy.model.records import MAX_FOLD_WRITES, MAX_VALUE_BYTES, ProposalId, Settled
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
    NothingToDelete,
    Outcome,
    Path,
    Refused,
    VersionMismatch,
    Write,
)
from epoxy.protocol.keys.carrying import (
    MAX_REASON,
    answer_to,
    in_messages,
    is_declined,
    may_be_carried,
    outcome_of,
    packed,
    place,
    unpacked,
)
from epoxy.protocol.keys.folding import ABSENT, MAX_FOLD_BYTES, UNKNOWN
from tests.protocol.keys.harness import KEY, B, C, prop, waiting

PUT = Write(key=KEY, value=b"x", mutable=True)
ADD = Write(key=KEY, value=None, mutable=True, amount=-5)
LIVE = prop(b"z", 9, by=C, nonce=9, mutable=True)

writes = st.one_of(
    st.builds(
        Write,
        key=st.just(KEY),
        value=st.none() | st.binary(max_size=9),
        mutable=st.just(True),
        if_version=st.none() | st.integers(0, 1 << 63),
        returning=st.booleans(),
    ),
    st.builds(
        Write,
        key=st.just(KEY),
        value=st.none(),
        mutable=st.just(True),
        if_version=st.none() | st.integers(0, 9),
        amount=st.integers(LEAST_INTEGER + 1, MOST_INTEGER),
        returning=st.booleans(),
    ),
)


@given(writes, st.integers(0, 9))
def test_a_write_arrives_as_it_left(write: Write, floor: int) -> None:
    pending = waiting(write, by=B, nonce=7, floor=floor)
    arrived = unpacked(KEY, packed(pending))
    assert (arrived.write, arrived.proposal_id, arrived.floor) == (write, ProposalId(B, 7), floor)
    assert (arrived.handed_over, arrived.is_guest, arrived.outcome) == (True, True, None)


def test_which_writes_travel() -> None:
    assert may_be_carried(PUT)
    assert may_be_carried(ADD)
    assert not may_be_carried(Write(key=KEY, value=b"x")), "a reservation that lost is over"
    assert may_be_carried(Write(key=KEY, value=bytes(MAX_FOLD_BYTES), mutable=True))
    assert not may_be_carried(Write(key=KEY, value=bytes(MAX_FOLD_BYTES + 1), mutable=True))
    assert not may_be_carried(Write(key=KEY, value=None, mutable=True, amount=LEAST_INTEGER))


def test_where_a_write_is_among_the_decisions_known_here() -> None:
    """Its floor rises by what was looked through, and a lineage that does not reach back to it declines it."""
    lineage = (Settled(8, ProposalId(C, 8)),)
    nothing_newer = waiting(PUT, floor=9)
    assert (place(nothing_newer, LIVE, lineage), nothing_newer.floor) == (ABSENT, 9)
    assert place(waiting(PUT, floor=3), None, ()) == ABSENT, "this replica knows less than its home"
    looked_through = waiting(PUT, floor=7)
    assert (place(looked_through, LIVE, lineage), looked_through.floor) == (ABSENT, 9)
    forgotten = waiting(PUT, floor=6)
    assert (place(forgotten, LIVE, lineage), forgotten.floor) == (UNKNOWN, 6)
    done = waiting(PUT, by=C, nonce=8, floor=6)
    assert (place(done, LIVE, lineage), done.floor) == (8, 6)
    assert [is_declined(found) for found in (ABSENT, 8, UNKNOWN)] == [False, False, True]


SLOW = Path.SLOW
OUTCOMES: list[Outcome] = [
    ExpectedValueDoesNotMatch(committed=LIVE, path=SLOW),
    VersionMismatch(committed=LIVE, path=SLOW),
    VersionMismatch(committed=None, path=SLOW),
    ImmutableKey(committed=prop(b"y"), path=SLOW),
    NothingToDelete(committed=LIVE, path=SLOW),
    NothingToDelete(committed=None, path=SLOW),
    NotAnInteger(committed=LIVE, path=SLOW, reason="no number"),
    ConsensusFailed(reason="not known"),
    Refused(reason="full"),
]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda outcome: type(outcome).__name__)
def test_an_outcome_comes_back_as_it_was(outcome: Outcome) -> None:
    pending = waiting(PUT)
    assert outcome_of(pending, answer_to(pending, outcome)) == outcome


@pytest.mark.parametrize("write", [PUT, ADD, Write(key=KEY, value=None, mutable=True)])
@pytest.mark.parametrize("previous", [None, LIVE])
def test_what_took_effect_comes_back_with_its_version_and_what_was_there(write: Write, previous: object) -> None:
    """Only the value that an addition made travels; the others are known at home."""
    pending = waiting(write)
    made = b"4" if write.amount is not None else write.value
    before = LIVE if previous is not None else None
    done = Committed(proposal=prop(made, 10, mutable=True), mine=True, path=SLOW, previous=before)
    answer = answer_to(pending, done)
    assert (answer.version, answer.value) == (10, b"4" if write.amount is not None else None)
    assert outcome_of(pending, answer) == done


def test_answers_that_name_long_values_go_in_several_messages() -> None:
    long = VersionMismatch(committed=prop(bytes(MAX_VALUE_BYTES), 9, mutable=True), path=SLOW)
    short = VersionMismatch(committed=LIVE, path=SLOW)
    few = [answer_to(waiting(PUT, nonce=nonce), short) for nonce in range(MAX_FOLD_WRITES)]
    assert in_messages(few) == [few]
    many = [answer_to(waiting(PUT, nonce=nonce), long) for nonce in range(5)]
    parts = in_messages(many)
    assert [answer for part in parts for answer in part] == many
    for part in parts:
        message = CarryAnswers(key=KEY, owner=B, answers=tuple(part))
        assert len(wire.encode_request(message)) <= wire.MAX_ENCODED_BYTES
    with pytest.raises(Oversized):
        wire.encode_request(CarryAnswers(key=KEY, owner=B, answers=tuple(many)))


def test_a_long_reason_is_cut() -> None:
    assert len(answer_to(waiting(PUT), Refused(reason="r" * 2_000)).reason) == MAX_REASON
