"""A database that cannot be used when a node starts: what the log says, and how often."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from epoxy.model.errors import StoreRefused, StoreUnavailable, TablesInUse
from epoxy.node.process.config import ClusterSettings, NodeSettings, Settings, StoreSettings
from epoxy.node.process.logs import LOGGER
from epoxy.server import shared_storage as module
from epoxy.server.shared_storage import HINT, IN_USE, STOP_THEM, database_of


class Attempts:
    """Fails in this order, then succeeds."""

    def __init__(self, *failures: Exception) -> None:
        self.left = list(failures)
        self.made = object()

    async def open(self, *_given: Any, **_named: Any) -> object:
        if self.left:
            raise self.left.pop(0)
        return self.made


@pytest.fixture
def warned(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    found: list[dict[str, str]] = []
    monkeypatch.setattr(module, "AGAIN_S", 0.0)
    monkeypatch.setattr(LOGGER, "warning", lambda event, extra: found.append({"event": event, **extra}))
    return found


def opened(monkeypatch: pytest.MonkeyPatch, *failures: Exception) -> bool:
    attempts = Attempts(*failures)
    monkeypatch.setattr(module, "open_database", attempts.open)
    store = StoreSettings(driver="postgres", url="postgresql://epoxy:secret@db/epoxy")
    node, cluster = NodeSettings(id=1, data_dir=Path("data")), ClusterSettings(members=(), secret_file=Path("secret"))
    settings = Settings(node=node, cluster=cluster, store=store)
    return asyncio.run(database_of(settings)) is attempts.made


def test_each_reason_is_told_once(monkeypatch: pytest.MonkeyPatch, warned: list[dict[str, str]]) -> None:
    away, full = StoreUnavailable("no connection"), StoreUnavailable("no space left")
    assert opened(monkeypatch, away, away, full, full, full)
    assert [each["detail"] for each in warned] == ["no connection", "no space left"]
    assert {each["hint"] for each in warned} == {HINT}
    assert "secret" not in str(warned)


def test_one_that_stays_is_told_again(monkeypatch: pytest.MonkeyPatch, warned: list[dict[str, str]]) -> None:
    monkeypatch.setattr(module, "REMIND_S", 0.0)
    assert opened(monkeypatch, *[StoreUnavailable("no connection")] * 3)
    assert len(warned) == 3


def test_a_refusal_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, warned: list[dict[str, str]]) -> None:
    with pytest.raises(StoreRefused):
        opened(monkeypatch, StoreRefused("password authentication failed"))
    assert warned == []


def test_nodes_that_use_the_older_tables_are_waited_for(
    monkeypatch: pytest.MonkeyPatch, warned: list[dict[str, str]]
) -> None:
    """Each that stops is told."""
    both, one = TablesInUse("these nodes use it: a, b"), TablesInUse("these nodes use it: b")
    assert opened(monkeypatch, both, both, one, one)
    assert [each["detail"] for each in warned] == [str(both), str(one)]
    assert {(each["event"], each["hint"]) for each in warned} == {(IN_USE, STOP_THEM)}
