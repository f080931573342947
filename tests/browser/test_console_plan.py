"""The planner's page: regions are chosen, fail and are added, own round trips are pasted, and a link shows the same."""

import json
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from epoxy.transport.wan import aws
from tests.browser.chromium import PATIENCE_MS, chromium
from tests.browser.console import LOOK_MS, ConsolePage, ConsoleWorld, console_running

PHONE = {"width": 375, "height": 800}
FIVE = ",".join(aws.CHOICES[5])
REFUSED = "the server responded with a status of 400"
NOT_REACHED = "net::ERR_CONNECTION"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    with console_running(tmp_path_factory.mktemp("plan") / "demo") as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


@contextmanager
def opened(browser: Any, world: ConsoleWorld, place: str = "#/plan", **context: Any) -> Iterator[ConsolePage]:
    tab = ConsolePage(browser, world, place, **context)
    try:
        yield tab
    finally:
        tab.close()


CELLS = """(caption) => [...document.querySelectorAll("table")].filter((table) => table.caption.innerText === caption)
    .flatMap((table) => [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.innerText.trim())))"""


def cells(tab: ConsolePage, caption: str) -> list[list[str]]:
    """The rows of a table, as a person reads them."""
    found: list[list[str]] = tab.page.evaluate(CELLS, caption)
    return found


def floors(tab: ConsolePage) -> dict[str, str]:
    return {row[0].split()[0]: row[1] for row in cells(tab, "Floors of each region")}


def wait_floors(tab: ConsolePage, regions: Sequence[str]) -> None:
    """Until the table has these regions."""
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while list(floors(tab)) != list(regions):
        assert time.monotonic() < deadline, (regions, tab.text(), tab.complaints)
        tab.page.wait_for_timeout(LOOK_MS)


def planned(world: ConsoleWorld, query: str) -> Any:
    with urllib.request.urlopen(f"{world.url()}/v2/plan?{query}") as answer:
        return json.load(answer)


def test_regions_are_chosen_fail_and_are_added(browser: Any, world: ConsoleWorld) -> None:
    with opened(browser, world) as tab:
        wait_floors(tab, aws.CHOICES[3])
        assert floors(tab) == {"us-east-1": "70.5 ms", "eu-west-1": "70.5 ms", "ap-northeast-1": "152 ms"}
        tab.wait_text("1 region may fail, and writes go on.")
        assert tab.axe() == []

        tab.page.get_by_role("button", name="5 of the demo").click()
        wait_floors(tab, aws.CHOICES[5])
        assert [text.rstrip(" ms") for text in floors(tab).values()] == ["72.5", "101", "127", "152", "180"]
        tab.page.get_by_label("sa-east-1 São Paulo").uncheck()
        wait_floors(tab, aws.CHOICES[5][:4])

        best = planned(world, f"regions={','.join(aws.CHOICES[5][:4])}")["additions"][0]["regions"]
        assert cells(tab, "By the mean commit floor of all regions with them")[0][0] == best[0]
        tab.page.get_by_role("button", name=f"Add {best[0]}").click()
        tab.wait_text("2 regions may fail")
        assert set(floors(tab)) == {*aws.CHOICES[5][:4], best[0]}

        tab.page.get_by_role("button", name="us-east-1", exact=False).click()
        tab.wait_text("Without us-east-1: 1 more region may fail")
        assert floors(tab)["us-east-1"] == ""
        tab.page.get_by_label("One fails", exact=True).check()
        tab.wait_text("without us-west")
        tab.page.get_by_label("Two fail").check()
        tab.wait_text("unavailable: too few are left")

        link = tab.page.url
        shown = cells(tab, "Floors of each region")
        assert "down=us-east-1" in link
        assert tab.complaints == []
    with opened(browser, world, link[link.index("#") :], color_scheme="dark") as again:
        again.wait_text("Without us-east-1: 1 more region may fail")
        assert cells(again, "Floors of each region") == shown
        assert again.axe() == []
        assert again.complaints == []


def test_own_round_trips(browser: Any, world: ConsoleWorld) -> None:
    with opened(browser, world) as tab:
        wait_floors(tab, aws.CHOICES[3])
        tab.page.get_by_text("Use your own round trips").click()
        tab.page.get_by_label("Round trips in milliseconds").fill(",oslo,lima\noslo,0,-3\n")
        tab.page.get_by_role("button", name="Use these round trips").click()
        tab.wait_text("round_trips: line 2: 'oslo' to 'lima': -3 is negative")
        assert [REFUSED in line for line in tab.complaints] == [True], "the browser's own line about the refusal"
        assert set(floors(tab)) == set(aws.CHOICES[3])

        tab.page.get_by_role("button", name="Fill in an example").click()
        tab.page.get_by_role("button", name="Use these round trips").click()
        wait_floors(tab, ["oslo", "lima", "perth"])
        assert floors(tab) == {"oslo": "191 ms", "lima": "191 ms", "perth": "280 ms"}
        tab.page.get_by_label("perth").uncheck()
        wait_floors(tab, ["oslo", "lima"])
        link = tab.page.url
        assert tab.axe() == []

        file = {"name": "ours.json", "mimeType": "application/json", "buffer": b'{"rome": {"oslo": 40}}'}
        tab.page.get_by_label("Or open a file").set_input_files(file)
        tab.wait('document.getElementById("plan-rtt").value.includes("rome")')
        tab.page.get_by_role("button", name="Use these round trips").click()
        wait_floors(tab, ["rome", "oslo"])
        tab.page.get_by_role("button", name="Back to AWS regions").click()
        wait_floors(tab, aws.CHOICES[3])
        assert len(tab.complaints) == 1
    with opened(browser, world, link[link.index("#") :]) as again:
        wait_floors(again, ["oslo", "lima"])


def test_a_link_with_a_mistake_and_a_choice_of_none(browser: Any, world: ConsoleWorld) -> None:
    with opened(browser, world, "#/plan?regions=us-est-1") as tab:
        tab.wait_text("unknown region 'us-est-1'. Did you mean us-west-1 or us-east-1?")
        tab.page.get_by_role("button", name="Begin anew").click()
        wait_floors(tab, aws.CHOICES[3])
        tab.page.get_by_role("button", name="None", exact=True).click()
        tab.wait_text("Choose at least one region.")
        assert floors(tab) == {}
        tab.page.get_by_label("us-west-2 Oregon").check()
        wait_floors(tab, ["us-west-2"])


def test_on_a_phone(browser: Any, world: ConsoleWorld) -> None:
    with opened(browser, world, f"#/plan?regions={FIVE}&down=us-east-1", viewport=PHONE) as tab:
        tab.wait_text("Without us-east-1")
        tab.wait('document.querySelector(".plan-land").getAttribute("d").length > 1000')
        assert tab.page.evaluate("() => document.documentElement.scrollWidth") == PHONE["width"]
        assert tab.axe() == []
        assert tab.complaints == []


def test_a_node_that_is_gone_is_told_and_the_page_goes_on_by_itself(browser: Any, world: ConsoleWorld) -> None:
    last = world.regions[-1]
    tab = ConsolePage(browser, world, "#/plan", region=last)
    try:
        wait_floors(tab, aws.CHOICES[3])
        world.order("kill", last)
        tab.page.get_by_role("button", name="5 of the demo").click()
        tab.wait_text("This node does not answer.")
        world.order("revive", last)
        wait_floors(tab, aws.CHOICES[5])
        tab.wait('!document.body.innerText.includes("This node does not answer.")')
        assert [line for line in tab.complaints if NOT_REACHED not in line] == []
    finally:
        tab.close()
