"""Chat in two browsers, in two regions of a cluster that asks for tokens, while worker and home are killed."""

from pathlib import Path

from tests.browser.chromium import chromium
from tests.browser.rooms import RoomPage, rooms_running


def test_what_was_said_survives_the_worker_and_the_home(tmp_path: Path) -> None:
    with rooms_running(tmp_path / "cluster", auth=True) as world, chromium() as launched:
        home, other, _ = world.regions
        ada, grace = RoomPage(launched, world, "ada", home), RoomPage(launched, world, "grace", other)
        for page in (ada, grace):
            page.wait_open("ada", "grace")
        ada.say("hello from here")
        grace.wait_line("hello from here")
        grace.say("hello from there")
        said = ["hello from here", "hello from there"]
        ada.wait_line(said[-1])
        assert (ada.lines(), grace.lines()) == (said, said)
        assert (grace.text("home"), grace.text("status-text")) == (home, f"Connected through {other}")

        before = ada.text("generation")
        world.kill_worker(home)
        ada.say("said to a dead worker")
        said.append("said to a dead worker")
        for page in (ada, grace):
            page.wait_generation(before)
            page.wait_open("ada", "grace")
            page.wait_line(said[-1])
            assert page.lines() == said
        assert ada.text("home") == home
        assert ada.complaints == grace.complaints == []

        before = grace.text("generation")
        world.kill_node(home)
        for page in (ada, grace):
            page.wait_generation(before)
            page.wait_open("ada", "grace")
            assert page.lines() == said
            assert page.text("home") != home
        ada.say("and on")
        grace.wait_line("and on")
        assert grace.lines() == [*said, "and on"]
        assert "does not answer" in ada.text("status-text")
        refused = f"WebSocket connection to 'ws://127.0.0.1:{world.port(home)}/"
        assert [each for each in ada.complaints if not each.startswith(refused)] == []
        assert grace.complaints == []
