"""The page of elect before real agents with real servers: the primary is killed, and the page says who takes writes."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from benchmarks.failover_cluster import CLUSTER, ElectCluster, running
from tests.agent.conftest import server_binary
from tests.browser.chromium import chromium
from tests.browser.console import ConsolePage, ConsoleWorld, console_running

__all__ = ["server_binary"]

DOWN_AFTER_MS = 3_000

STATES = """() => [...document.querySelectorAll(".elect-node .elect-badges .badge:first-child")]
    .map((badge) => badge.innerText.replace(/ for .*/, "")).sort().join()"""
"""Of the three nodes, without the time of a silence."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


@contextmanager
def opened(browser: Any, world: ConsoleWorld, **context: Any) -> Iterator[ConsolePage]:
    tab = ConsolePage(browser, world, "#/elect", **context)
    try:
        yield tab
        assert tab.complaints == []
    finally:
        tab.close()


def setting(elect: ElectCluster) -> str:
    agents = ", ".join([f'"127.0.0.1:{member.clients_port}"' for member in elect.members.values()])
    return f"\n[console]\nelect = [{agents}]\n"


def test_a_killed_primary_is_replaced_on_the_page(tmp_path: Path, server_binary: Path, browser: Any) -> None:
    cluster = ElectCluster(tmp_path / "elect", server_binary, down_after_ms=DOWN_AFTER_MS)
    with (
        running(cluster) as elect,
        console_running(tmp_path / "demo", settings=setting(elect)) as world,
        opened(browser, world) as tab,
    ):
        first = elect.primary()
        tab.wait_text(CLUSTER)
        tab.wait_text(f"{first} takes writes, at")
        tab.wait_text("3 of 3")
        assert tab.axe() == []
        elect.signal_agent(first, signal.SIGKILL)
        elect.signal_server(first, signal.SIGKILL)
        heir = elect.primary(but=first)
        tab.wait_text(f"{CLUSTER}: {heir} takes writes, epoch ")
        tab.wait_text("Connection refused")
        tab.wait(f'({STATES})() === "replica,silent,takes writes"')
        assert f"{heir}, in epoch " in tab.text(), "whom the others voted for"
        tab.page.emulate_media(color_scheme="dark")
        assert tab.axe() == []
        check_unnamed(browser, world, setting(elect))


def check_unnamed(browser: Any, world: ConsoleWorld, named: str) -> None:
    """A node whose file names no agents says how to name them."""
    region = world.regions[1]
    node = world.cluster.by_name[region]
    node.config.write_text(node.config.read_text("utf-8").removesuffix(named), "utf-8")
    node.restart()
    with opened(browser, world, region=region, viewport={"width": 375, "height": 800}) as tab:
        tab.wait_text("No agents are named in this node's file")
        tab.wait_text("elect = [")
        assert tab.axe() == []
        assert tab.page.evaluate("document.documentElement.scrollWidth") == 375
