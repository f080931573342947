"""The console's page of leases: counts that run, holders, pages, and whose keys are shown."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from epoxy import Client
from tests.browser.chromium import chromium
from tests.browser.console import ConsolePage, ConsoleWorld, console_running

PHONE = {"width": 375, "height": 800}
LONG_S = 3_600
ROWS = 50

CELLS = """() => [...document.querySelectorAll("tbody tr")]
    .map((row) => [...row.cells].map((cell) => cell.innerText.trim()))"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    with console_running(tmp_path_factory.mktemp("leases") / "demo") as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


@contextmanager
def opened(browser: Any, world: ConsoleWorld, place: str = "#/leases", **context: Any) -> Iterator[ConsolePage]:
    tab = ConsolePage(browser, world, place, **context)
    try:
        yield tab
    finally:
        tab.close()


def rows(tab: ConsolePage) -> dict[str, list[str]]:
    """By key, what a person reads beside it."""
    found: list[list[str]] = tab.page.evaluate(CELLS)
    return {key: rest for key, *rest in found if rest}


def test_leases_are_shown_with_holder_token_and_a_count_that_runs(browser: Any, world: ConsoleWorld) -> None:
    with Client(world.url()) as client, opened(browser, world) as tab:
        tab.wait_text("No value ends now")
        first = client.put(b"lock/deploy", b"ada", ttl=LONG_S, if_absent=True)
        client.put(b"lock/deploy", b"bob", ttl=LONG_S, if_version=first.version)
        client.put(b"leader", b"x" * 600, ttl=LONG_S)
        client.put(b"raw", b"\xff\x00", ttl=LONG_S)
        client.put(b"stays", b"for good")
        with client.session(ttl=LONG_S) as session:
            client.put(b"present/ada", b"here", session=session.id)
            tab.wait_text("present/ada")
            tab.wait_text("Values that end\n4")
            shown, begins = rows(tab), session.id[:8]
        left, holder, token, ends = shown["lock/deploy"]
        assert (holder, token, ends) == ("bob", str(first.version + 1), "its own time")
        assert left.endswith(" of 1 h")
        assert shown["leader"][1].startswith("xxx")
        assert "cut: it has 600 bytes" in shown["leader"][1]
        assert shown["raw"][1] == "2 bytes that are no text"
        assert shown["present/ada"][3].startswith(f"session {begins}")
        assert "stays" not in shown
        tab.wait(f"!document.body.innerText.includes({left!r})")
        assert tab.axe() == []

        tab.page.get_by_label("Keys that begin with").fill("lock/")
        tab.page.get_by_role("button", name="Search").click()
        tab.wait("document.querySelectorAll('tbody tr').length === 1")
        assert tab.page.url.endswith("#/leases/lock%2F")
        assert tab.complaints == []
        tab.page.get_by_role("link", name="lock/deploy").click()
        tab.wait("location.hash === '#/key/lock%2Fdeploy'")


def test_what_ends_goes_and_pages_follow_each_other(browser: Any, world: ConsoleWorld) -> None:
    with Client(world.url()) as client:
        for number in range(ROWS + 3):
            client.put(b"many/%03d" % number, b"", ttl=LONG_S)
        client.put(b"short", b"soon over", ttl=3)
        with opened(browser, world, "#/leases/many%2F", color_scheme="dark", viewport=PHONE) as tab:
            tab.wait_text("many/049")
            assert "many/050" not in rows(tab)
            tab.page.get_by_role("button", name="Next page").click()
            tab.wait_text("many/052")
            assert list(rows(tab)) == ["many/050", "many/051", "many/052"]
            tab.page.get_by_role("button", name="Page before").click()
            tab.wait_text("many/000")
            assert tab.page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
            assert tab.axe() == []
            assert tab.complaints == []
        with opened(browser, world, "#/leases/short") as tab:
            tab.wait_text("No value under this prefix ends.")
            assert client.get(b"short", read="linearizable") is None
            assert tab.complaints == []


def test_a_node_that_goes_is_told_and_the_page_goes_on_when_it_is_back(browser: Any, world: ConsoleWorld) -> None:
    region = world.regions[2]
    with opened(browser, world, region=region) as tab:
        tab.wait_text("Values that end")
        world.order("kill", region)
        tab.wait_text("does not answer")
        world.order("revive", region)
        tab.wait("!document.body.innerText.includes('does not answer')")
        tab.wait_text("Values that end")
        assert [line for line in tab.complaints if "net::ERR_" not in line and "503" not in line] == []
