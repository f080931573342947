from typing import Any

import pytest

from epoxy.model.errors import ConfigError
from epoxy.protocol.placement.config import RANGES, PlacementConfig


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
