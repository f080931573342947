"""What an envoy says of itself when it connects, within its limits."""

import pytest

from epoxy.model.actors import MAX_NAME_BYTES
from epoxy.model.errors import InvalidRequest
from epoxy.protocol.placement.records import EnvoyRegistration


@pytest.mark.parametrize(
    "wrong",
    [
        {"envoy_key": ""},
        {"pool": "x" * (MAX_NAME_BYTES + 1)},
        {"namespace": "\ud800"},
        {"weight": 0},
        {"weight": 17},
        {"capacity": -1},
        {"version": -1},
        {"version": 2**31},
    ],
)
def test_what_an_envoy_says_is_within_limits(wrong: dict[str, str | int]) -> None:
    said: dict[str, str | int] = {"namespace": "n", "pool": "p", "envoy_key": "e"}
    with pytest.raises(InvalidRequest):
        EnvoyRegistration(**{**said, **wrong})  # type: ignore[arg-type]  # that is the point
