from typing import Any

import pytest

from epoxy.model.errors import ConfigError, InvalidRequest
from epoxy.protocol.placement.config import RANGES, PlacementConfig
from epoxy.protocol.placement.records import MAX_NAME_BYTES, EnvoyRegistration


def made(name: str, value: int) -> PlacementConfig:
    given: dict[str, Any] = {name: value}
    return PlacementConfig(**given)


@pytest.mark.parametrize("name", sorted(RANGES))
def test_a_setting_outside_its_range_is_refused_by_name(name: str) -> None:
    low, high = RANGES[name]
    for value in (low - 1, high + 1):
        with pytest.raises(ConfigError, match=f"placement.{name} is {value}; allowed: .* from {low} to {high}"):
            made(name, value)
    for value in (low, high):
        assert getattr(made(name, value), name) == value


def test_defaults_are_those_of_the_design() -> None:
    config = PlacementConfig()
    assert (config.samples, config.virtual_nodes, config.max_scan, config.slot_jitter) == (2, 8, 16, 4)
    assert config.eligible_threshold_ms == 10_000


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
