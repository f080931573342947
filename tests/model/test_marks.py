"""Marks of keys that belong to transactions, with what the keys held."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.model.marks import OWNED, handed_over, is_owned, mark_of
from epoxy.model.records import LEGACY_PROPOSAL_ID, Expiry, Proposal
from epoxy.model.transactions import NO_ROW, OrderedValue

expiries = (
    st.none()
    | st.builds(Expiry, ttl_ms=st.integers(1, 1 << 45), since=st.integers(1, 1 << 60))
    | st.builds(Expiry, ttl_ms=st.just(0), since=st.integers(1, 9), session=st.binary(min_size=16, max_size=16))
)


def version_of(value: bytes | None, version: int, expiry: Expiry | None = None, *, mutable: bool = True) -> Proposal:
    return Proposal(value=value, version=version, mutable=mutable, proposal_id=LEGACY_PROPOSAL_ID, expiry=expiry)


@given(st.binary(max_size=40), st.integers(1, 1 << 63), expiries)
def test_a_mark_holds_what_the_key_held(value: bytes, version: int, expiry: Expiry | None) -> None:
    mark = version_of(mark_of(version_of(value, version, expiry)), version + 1, mutable=False)
    assert is_owned(mark)
    assert handed_over(mark.value or b"") == OrderedValue(value=value, version=version, expiry=expiry)


def test_of_a_deleted_key_the_version_and_of_a_fresh_one_nothing() -> None:
    assert handed_over(mark_of(version_of(None, 7))) == OrderedValue(value=None, version=7)
    assert mark_of(None) == OWNED
    assert handed_over(OWNED) == NO_ROW


@pytest.mark.parametrize("value", [OWNED + b"x", OWNED + b" 1\n", OWNED + b" 1 0 0  2\n", b"", OWNED[:-1]])
def test_what_a_client_may_have_reserved_is_no_mark(value: bytes) -> None:
    assert not is_owned(version_of(value, 1, mutable=False))


def test_a_mutable_value_is_no_mark() -> None:
    assert not is_owned(version_of(OWNED, 1))
    assert not is_owned(None)
