"""The console's map of a real cluster: figures of real writes, a region that is killed, and one that is revived."""

import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.browser.chromium import chromium
from tests.browser.console import ConsolePage, ConsoleWorld, console_running

NOTICED_S = 2.0
"""The page says so within this, after the node has noticed: it asks every second."""

ATTEMPTS = 3
"""A busy machine may hold up a browser for longer; not each time."""

FIRST_PAGE_BYTES = 300_000
NOT_REACHED = "net::ERR_CONNECTION"
PHONE = {"width": 375, "height": 800}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    with console_running(tmp_path_factory.mktemp("world") / "demo") as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


@contextmanager
def opened(browser: Any, world: ConsoleWorld, **context: Any) -> Iterator[ConsolePage]:
    tab = ConsolePage(browser, world, "#/world", **context)
    try:
        yield tab
    finally:
        tab.close()


class Writer(threading.Thread):
    """Reserves one name after the other, until it is told to end."""

    def __init__(self, url: str, prefix: str) -> None:
        super().__init__(daemon=True)
        self._url, self._prefix = url, prefix
        self._over = threading.Event()
        self.written = 0

    def run(self) -> None:
        while not self._over.wait(0.02):
            put(self._url, f"{self._prefix}{self.written}")
            self.written += 1

    def end(self) -> None:
        self._over.set()
        self.join()


def put(url: str, key: str) -> None:
    urllib.request.urlopen(urllib.request.Request(f"{url}/v2/kv/{key}", method="PUT", data=b"v")).read()


ROW = """(name) => [...document.querySelectorAll(".world-table tbody tr")]
    .find((row) => row.querySelector(".world-name").innerText === name)?.innerText ?? ''"""


def row(tab: ConsolePage, region: str) -> str:
    """Of the table, as a person reads it."""
    return str(tab.page.evaluate(ROW, region))


def wait_row(tab: ConsolePage, region: str, words: str) -> None:
    tab.wait(f"(({ROW})({region!r})).includes({words!r})")


def test_figures_of_real_writes_come_from_every_region(browser: Any, world: ConsoleWorld) -> None:
    writers = [Writer(world.url(region), f"{region}-") for region in world.regions]
    for writer in writers:
        writer.start()
    try:
        with opened(browser, world) as tab:
            tab.wait_text("One more datacenter may fail.")
            for region in world.regions:
                wait_row(tab, region, "serves clients")
                wait_row(tab, region, "100 %")
            tab.wait("document.querySelectorAll('.label').length === 3")
            tab.wait("document.querySelectorAll('.world-trip').length === 6")
            tab.wait("document.querySelector('.land').getAttribute('d').length > 10000")
            assert all("floor" in row(tab, region) and "1 more" in row(tab, region) for region in world.regions)
            assert tab.axe() == []
            assert tab.complaints == []
    finally:
        for writer in writers:
            writer.end()
    assert all(writer.written for writer in writers)


def test_it_is_fine_in_dark_and_on_a_phone_where_the_table_comes_first(browser: Any, world: ConsoleWorld) -> None:
    with opened(browser, world, viewport=PHONE, color_scheme="dark") as tab:
        wait_row(tab, world.regions[2], "serves clients")
        tab.wait("document.querySelectorAll('.label').length === 3")
        top = "document.querySelector('{}').getBoundingClientRect().top"
        assert tab.page.evaluate(f"() => {top.format('.world-table')} < {top.format('.world-picture')}")
        assert tab.page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
        assert tab.axe() == []
        assert tab.complaints == []


def test_the_first_page_is_light(browser: Any, world: ConsoleWorld) -> None:
    with opened(browser, world) as tab:
        tab.wait("document.querySelector('.land')?.getAttribute('d').length > 10000")
        sizes = tab.page.evaluate("() => performance.getEntries().map((entry) => entry.transferSize ?? 0)")
        assert len(sizes) > 10
        assert sum(sizes) < FIRST_PAGE_BYTES


def noticed(world: ConsoleWorld, region: str) -> float:
    """When the node that serves the page says that the region is out of reach."""
    while True:
        with urllib.request.urlopen(f"{world.url()}/v2/status") as answer:
            if f'"{region}"'.encode() in answer.read().partition(b'"reachable":false')[0].rpartition(b'"id"')[2]:
                return time.monotonic()


def crossed_out(tab: ConsolePage, world: ConsoleWorld, region: str) -> float:
    """Kills a region, and returns how long after the node had noticed the page said so, in words and shape."""
    wait_row(tab, region, "serves clients")
    world.order("kill", region)
    since = noticed(world, region)
    tab.wait_text("No more datacenter may fail.")
    wait_row(tab, region, "not reachable")
    tab.wait("document.querySelectorAll('.mark.gone .mark-cross').length === 1")
    tab.wait("document.querySelectorAll('.arc.cut').length >= 1")
    return time.monotonic() - since


def test_a_region_that_is_killed_is_crossed_out_in_words_and_shape(browser: Any, world: ConsoleWorld) -> None:
    gone = world.regions[1]
    with opened(browser, world) as tab:
        took_s = crossed_out(tab, world, gone)
        for _ in range(ATTEMPTS):
            print(f"the map said so {took_s:.2f} s after the node had noticed")
            if took_s < NOTICED_S:
                break
            world.order("revive", gone)
            took_s = crossed_out(tab, world, gone)
        assert took_s < NOTICED_S
        tab.wait_text(f"{gone} is not reachable from {world.regions[0]}")
        put(world.url(), "written-while-one-is-gone")
        assert tab.axe() == []
        world.order("kill", world.regions[2])
        tab.wait_text("Nothing can be decided now.")
        for region in world.regions[1:]:
            world.order("revive", region)
        tab.wait_text("One more datacenter may fail.")
        wait_row(tab, gone, "serves clients")
        assert tab.complaints == []


def test_a_node_that_is_gone_and_back_goes_on_by_itself(browser: Any, world: ConsoleWorld) -> None:
    with opened(browser, world, region=None) as tab:
        wait_row(tab, world.regions[0], "serves clients")
        world.order("kill", world.regions[0])
        tab.wait_text("This node does not answer.")
        world.order("revive", world.regions[0])
        tab.wait("!document.body.innerText.includes('This node does not answer.')")
        wait_row(tab, world.regions[1], "serves clients")
        assert [each for each in tab.complaints if NOT_REACHED not in each] == []


def test_a_cluster_that_asks_for_tokens_is_shown_to_any_grant(
    browser: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("world-tokens") / "demo"
    with console_running(folder, auth=True) as guarded:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{guarded.url()}/v2/world")
        with opened(browser, guarded) as tab:
            tab.wait_text("This cluster asks for a token.")
            tab.give_token(guarded.tokens["app"])
            tab.wait_text("One more datacenter may fail.")
            assert all("401" in each for each in tab.complaints)


def test_datacenters_without_a_known_place_stand_beside_the_map(browser: Any, world: ConsoleWorld) -> None:
    with opened(browser, world) as tab:
        wait_row(tab, world.regions[2], "serves clients")

        def nowhere(route: Any) -> None:
            answer = route.fetch()
            told = answer.json()
            for number, member in enumerate(told["members"]):
                member.update(place=None, datacenter=f"rack-{number}")
            route.fulfill(response=answer, json=told)

        tab.page.route("**/v2/world", nowhere)
        wait_row(tab, "rack-2", "serves clients")
        tab.wait("document.querySelectorAll('.label').length === 3")
        marks = tab.page.locator(".mark-ring")
        boxes = [marks.nth(number).bounding_box() for number in range(3)]
        assert len({box["x"] for box in boxes}) == 3
        assert tab.axe() == []
        tab.page.unroute_all(behavior="wait")
        assert tab.complaints == []
