"""`epoxy scrub`: begun, watched to its end, and what is left."""

import json

import msgspec
import pytest

from epoxy.cli import scrub
from epoxy.cli.main import run
from epoxy.model.api_scrub import ScrubReport
from tests.client.fake import FakeNode

Captured = pytest.CaptureFixture[str]

DONE = ScrubReport(
    state="idle",
    rows=1_234_567,
    bytes=300 << 20,
    rows_expected=1_234_567,
    begun_at=1.8e9,
    last_ended_at=1.8e9 + 60,
    every_days=7,
    rotten_found=2,
    repaired=2,
    unrepaired=[],
)
BUSY = msgspec.structs.replace(DONE, state="paused", rows=1000, bytes=1 << 20)
LEFT = msgspec.structs.replace(DONE, repaired=1, unrepaired=["a committed value of user/ada"])
NEVER = msgspec.structs.replace(DONE, last_ended_at=None, state="off", every_days=0, rows=0, bytes=0)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "LOOK_S", 0.0)
    monkeypatch.setattr(scrub, "REPAIR_S", 0.0)


def test_it_is_begun_and_watched_to_its_end(node: FakeNode, capsys: Captured) -> None:
    node.scrubs = [(200, NEVER), (202, BUSY), (200, BUSY), (200, DONE)]
    assert run(["scrub"]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[0] == "All rows are what was written."
    assert "1,234,567, 300.0 MiB" in told
    assert "every 7 days" in told
    assert "2 found since the node started, 2 repaired" in told
    assert [request.split()[0] for request in node.requests] == ["GET", "POST", "GET", "GET"]


def test_rows_that_are_left_are_listed_and_told_by_the_status(node: FakeNode, capsys: Captured) -> None:
    node.scrubs = [(200, DONE), (202, LEFT)]
    assert run(["scrub"]) == 1
    told = capsys.readouterr().out
    assert told.splitlines()[0] == "1 rotten row not repaired yet."
    assert "a committed value of user/ada" in told


def test_repairs_get_a_moment(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrub, "REPAIR_S", 60.0)
    node.scrubs = [(200, DONE), (202, LEFT), (200, LEFT), (200, DONE)]
    assert run(["scrub"]) == 0


def test_one_that_runs_is_not_begun_again_but_may_be_watched(node: FakeNode, capsys: Captured) -> None:
    node.scrubs = [(200, BUSY)]
    assert run(["scrub"]) == 1
    assert "a round is under way already; `epoxy scrub --watch`" in capsys.readouterr().err
    node.scrubs = [(200, BUSY), (200, DONE)]
    assert run(["scrub", "--watch", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 1_234_567


def test_one_that_never_ended(node: FakeNode, capsys: Captured) -> None:
    node.scrubs = [(200, NEVER)]
    assert run(["scrub", "--watch"]) == 0
    told = capsys.readouterr().out
    assert told.splitlines()[0] == "Never scrubbed to the end."
    assert "only when asked for" in told
