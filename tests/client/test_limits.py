"""Numbers that a caller gives are checked before anything is sent."""

import pytest

from epoxy.client.limits import MAX_TIMEOUT_S, checked_connections, checked_timeout
from epoxy.model.errors import InvalidRequest


@pytest.mark.parametrize("seconds", [0.0, -1.0, MAX_TIMEOUT_S + 1, float("nan")])
def test_a_timeout_outside_the_limits_is_refused(seconds: float) -> None:
    with pytest.raises(InvalidRequest, match="a timeout is above 0"):
        checked_timeout(seconds)
    assert checked_timeout(MAX_TIMEOUT_S) == MAX_TIMEOUT_S


@pytest.mark.parametrize("limit", [0, -1, 65_537])
def test_a_number_of_connections_outside_the_limits_is_refused(limit: int) -> None:
    with pytest.raises(InvalidRequest, match="1 to 65,536 connections"):
        checked_connections(limit)
    assert checked_connections(65_536) == 65_536
