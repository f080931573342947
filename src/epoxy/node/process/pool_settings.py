"""[placement] of epoxy.toml, with the settings that single pools have of their own:

[placement.pools.chat]
samples = 1

[placement.pools."prod/chat"]       # the pool of one namespace
load_bound_percent = 25
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from epoxy.model.errors import ConfigError
from epoxy.node.process.toml_file import TomlSource
from epoxy.protocol.placement.config import OF_POOLS, RENAMED, PlacementConfig, Strategy

Wrong = Callable[[str, Any], str | None]
"""What is allowed for a setting of [placement], if the value is not."""


def read_placement(source: TomlSource, given: Mapping[str, Any], wrong: Wrong) -> PlacementConfig:
    """A pool's table says only what differs."""
    where = source.where("placement", "pools")
    if not isinstance(given["pools"], dict):
        raise ConfigError(f"{where}: placement.pools is {given['pools']!r}; allowed: [placement.pools.NAME] tables")
    pools = {}
    for pool, own in given["pools"].items():
        if not isinstance(own, dict):
            raise ConfigError(f"{where}: placement.pools.{pool} is {own!r}; allowed: a table of settings")
        for key, value in own.items():
            check(f"{where}: placement.pools.{pool}.{key}", key, value, wrong)
        pools[pool] = made({**given, **own, "pools": {}})
    return made({**given, "pools": pools})


def check(name: str, key: str, value: Any, wrong: Wrong) -> None:
    if key not in OF_POOLS:
        known = f"here it is {RENAMED[key]}" if key in RENAMED else f"there are: {', '.join(OF_POOLS)}"
        raise ConfigError(f"{name} is no setting of a pool; {known}")
    if (allowed := wrong(key, value)) is not None:
        raise ConfigError(f"{name} is {value!r}; allowed: {allowed}")


def made(values: Mapping[str, Any]) -> PlacementConfig:
    return PlacementConfig(**{**values, "strategy": Strategy(values["strategy"])})


def in_force(config: PlacementConfig) -> dict[str, Any]:
    """As the file would have it; of a pool what it may have of its own."""
    pools = {name: {key: plain(getattr(own, key)) for key in OF_POOLS} for name, own in sorted(config.pools.items())}
    whole = {key: plain(value) for key, value in msgspec.structs.asdict(config).items()}
    return {**whole, "pools": pools or None}


def plain(value: Any) -> Any:
    return value.value if isinstance(value, Strategy) else value
