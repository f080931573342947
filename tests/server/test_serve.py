"""A database that goes away while a node of several starts. What else a process does from its start to its end is seen
in real ones (test_process.py, end_to_end/test_datacenter.py)."""

import asyncio
from pathlib import Path

import pytest

from epoxy.model.errors import StoreRefused, StoreUnavailable
from epoxy.node.process.config import ClusterSettings, NodeSettings, Settings, StoreSettings
from epoxy.server import serve as module
from epoxy.server.serve import Signals, serve_shared

SETTINGS = Settings(
    node=NodeSettings(id=1, data_dir=Path("data")),
    cluster=ClusterSettings(members=(), secret_file=Path("secret")),
    store=StoreSettings(driver="postgres", url="postgresql://epoxy@db/epoxy"),
)


class Anew(BaseException):
    """Where the program would be executed again."""


def started(monkeypatch: pytest.MonkeyPatch, failure: Exception, *, is_over: bool = False) -> None:
    async def opened(_: Settings) -> object:
        raise failure

    async def story() -> None:
        given = Signals()
        serving = asyncio.ensure_future(serve_shared(SETTINGS, given))
        await asyncio.sleep(0)
        if is_over:
            given.end()
        await serving

    def begin_anew(event: str, reason: str) -> None:
        assert "begins anew" in event
        raise Anew(reason)

    monkeypatch.setattr(module, "check", lambda _: None)
    monkeypatch.setattr(module, "opened", opened)
    monkeypatch.setattr(module, "begin_anew", begin_anew)
    asyncio.run(story())


def test_a_database_that_goes_away_during_a_start_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Anew, match="connection was closed"):
        started(monkeypatch, StoreUnavailable("connection was closed"))


def test_a_refusal_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreRefused):
        started(monkeypatch, StoreRefused("the tables are those of replica 7"))


def test_a_process_that_is_to_end_does_not_begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreUnavailable):
        started(monkeypatch, StoreUnavailable("connection was closed"), is_over=True)
