"""What may be written down as a transaction."""

import pytest

from epoxy.model.errors import InvalidRequest
from epoxy.model.transactions import LEAST, MOST, NO_ROW, Add, Compare, OrderedValue


def test_an_amount_below_zero_is_kept_with_its_sign_apart() -> None:
    assert Add(key=b"k", amount=-5) == Add(key=b"k", amount=5, negative=True)
    assert Add(key=b"k", amount=-5, negative=True) == Add(key=b"k", amount=5)
    assert Add(key=b"k", amount=-MOST) == Add(key=b"k", amount=MOST, negative=True)


def test_an_amount_has_63_bits() -> None:
    for amount in (MOST + 1, LEAST):
        with pytest.raises(InvalidRequest, match="at most"):
            Add(key=b"k", amount=amount)


def test_a_compare_that_nothing_could_make_hold() -> None:
    with pytest.raises(InvalidRequest, match="values, a version, or absent"):
        Compare(key=b"k")
    with pytest.raises(InvalidRequest, match="not both"):
        Compare(key=b"k", absent=True, version=1)
    assert Compare(key=b"k", absent=True).holds(NO_ROW)


def test_a_compare_by_version() -> None:
    never, old, deleted = Compare(key=b"k", version=0), Compare(key=b"k", version=1), Compare(key=b"k", version=7)
    assert never.holds(NO_ROW)
    assert not never.holds(OrderedValue(value=None, version=7))
    assert old.holds(OrderedValue(value=b"v")), "written before versions were counted"
    assert deleted.holds(OrderedValue(value=None, version=7)), "a deletion keeps it"
