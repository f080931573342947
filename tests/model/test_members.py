"""What no change request may be, and that pages fit into frames."""

import pytest

from epoxy.codec.wire import MAX_ENCODED_BYTES
from epoxy.model.members import MAX_PAGE_BYTES, MAX_PAGE_ROWS, MAX_VALUE_ROWS, STRETCH_ROWS, ChangeRequest, Member
from epoxy.model.records import MAX_VALUE_BYTES


def request(*ids: int) -> ChangeRequest:
    return ChangeRequest(members=tuple(Member(id=each) for each in ids))


@pytest.mark.parametrize("ids", [(), (0,), (0, 1), (1, 1), (2, 1), (-1, 3)], ids=str)
def test_members_are_named_once_and_in_order(ids: tuple[int, ...]) -> None:
    with pytest.raises(AssertionError):
        request(*ids)


def test_ids_need_not_be_neighbours() -> None:
    assert [member.id for member in request(2, 9, 40).members] == [2, 9, 40]


def test_a_page_that_ends_with_the_largest_value_is_half_of_a_frame() -> None:
    assert 2 * (MAX_PAGE_BYTES + MAX_VALUE_BYTES) <= MAX_ENCODED_BYTES


def test_values_are_compared_by_whole_stretches() -> None:
    assert MAX_PAGE_ROWS % STRETCH_ROWS == 0
    assert MAX_VALUE_ROWS % STRETCH_ROWS == 0
