"""The playground: production replicas in the page, stepped by hand, broken on purpose, and run by the hundred, with
nothing asked of any host but the node."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.browser.chromium import chromium
from tests.browser.console import ConsolePage, ConsoleWorld, console_running

PHONE = {"width": 375, "height": 800}
RULES_CAUGHT = (
    "[...document.querySelectorAll('.pg-result')].filter((each) => each.innerText.includes('caught at seed'))"
)
COLUMNS = """() => Object.fromEntries([...document.querySelectorAll(".pg-replica")].map((column) => [
    column.getAttribute("aria-label").at(-1), column.querySelector("dd").innerText]))"""
WIDTH = "document.documentElement.scrollWidth"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    with console_running(tmp_path_factory.mktemp("playground") / "demo") as running:
        yield running


class Playground(ConsolePage):
    """A tab whose requests to other hosts are refused, and noted. Its first request for the worker's script fails, as
    it does while a node restarts."""

    def __init__(self, launched: Any, world: ConsoleWorld) -> None:
        super().__init__(launched, world, "#/plan")
        self.node = world.url()
        self.asked: list[str] = []
        self.page.route("**/*", self._only_the_node)
        self.is_away = True
        self.go("")
        self.wait_text("The playground could not be started")
        self.is_away = False
        self.wait("document.getElementById('pg-ready')")

    def _only_the_node(self, route: Any) -> None:
        self.asked.append(route.request.url)
        is_worker = route.request.url.endswith("/worker.js")
        if urlsplit(route.request.url).netloc != urlsplit(self.node).netloc or (is_worker and self.is_away):
            route.abort()
        else:
            route.continue_()

    def go(self, rest: str) -> None:
        self.page.goto(f"{self.node}/ui#/playground{rest}")

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name).first.click()

    def committed(self) -> dict[str, str]:
        found: dict[str, str] = self.page.evaluate(COLUMNS)
        return found


@pytest.fixture(scope="module")
def tab(world: ConsoleWorld) -> Iterator[Playground]:
    with chromium() as launched:
        opened = Playground(launched, world)
        yield opened
        opened.close()


def test_steps_to_a_commit_a_crash_and_a_link_that_holds_them(tab: Playground) -> None:
    tab.wait_text("No message is in flight")
    assert tab.axe() == []
    tab.press("Ask at A")
    tab.wait_text("waits for: reserve ada")
    tab.press("Ask at C")
    tab.wait_text("In flight: 4")
    tab.page.get_by_label("Deliver message 1, A to B").focus()
    tab.page.keyboard.press("Enter")
    tab.wait_text("B votes for 'ada' (fast round).")
    tab.wait("document.activeElement.getAttribute('aria-label')?.startsWith('Deliver message 2,')")
    tab.press("Drop message 4, C to B")
    tab.wait_text("The network loses C's message to B")
    tab.press("Deliver message 5, B to A")
    tab.wait_text("told: 'ada' is committed, version 1, by your write (fast)")
    assert tab.committed() == {"A": "'ada', version 1", "B": "nothing", "C": "nothing"}
    tab.press("Crash B")
    tab.wait_text("B crashes")
    assert tab.axe() == []
    link = tab.page.evaluate("() => location.hash")
    assert link == "#/playground/steps/3/1/-/q1r:ada.q3r:cy.d1.x4.d5.c2"
    seen = tab.text()

    tab.press("Start B")
    tab.wait_text("B starts again")
    tab.press("Deliver all")
    tab.wait_text("told: taken already, with 'ada'")
    tab.wait("Object.values((%s)()).every((value) => value === \"'ada', version 1\")" % COLUMNS)  # noqa: UP031

    tab.go("/rules")
    tab.wait_text("All rules are in force.")
    tab.page.evaluate(f"() => {{ location.hash = {link!r}; }}")
    tab.wait_text("B crashes")
    assert tab.text() == seen
    assert tab.complaints == []


def test_a_rule_that_is_broken_by_hand_is_found_by_the_judge(tab: Playground) -> None:
    tab.go("/steps/3/1/two-fast-votes/q1r:ada.q3r:cy.d1")
    tab.wait_text("This rule is broken here")
    tab.press("Deliver message 4, C to B")
    tab.wait_text("The judge: second vote.")
    tab.press("Step back")
    tab.wait("!document.body.innerText.includes('The judge: second vote.')")
    tab.go("/steps/3/1/two-fast-votes/q1r:ada.q3r:cy.d1")
    tab.wait_text("In flight: 4")
    tab.go("/steps/3/1/-/fly%")
    tab.wait_text("'fly%' is no step")
    tab.press("Begin anew")
    tab.wait_text("No message is in flight")
    assert tab.complaints == []


def test_every_broken_rule_is_caught_and_shown_with_its_shortest_trace(tab: Playground) -> None:
    tab.go("/rules")
    tab.press("Break them all")
    tab.wait_text("rules were broken, and the judge noticed each of them")
    assert tab.page.evaluate(f"() => {RULES_CAUGHT}.length") >= 5
    assert "not caught" not in tab.text()
    tab.press("Break it: A proposer votes first")
    tab.wait("document.getElementById('pg-trace')")
    tab.wait_text("The judge: agreement.")
    tab.wait_text("epoxy sim per-key --replay 84 --mutant own-vote-missing")
    assert tab.page.evaluate("() => location.hash") == "#/playground/rules/own-vote-missing/84"
    assert tab.page.evaluate("() => document.querySelectorAll('.pg-lines .pg-arrow').length") > 3
    assert tab.axe() == []
    assert tab.complaints == []


def test_many_runs_hold_and_can_be_stopped(tab: Playground) -> None:
    tab.go("/seeds/per-key/0/20")
    tab.page.get_by_role("button", name="Run", exact=True).click()
    tab.wait_text("Held: in 16 runs the judge found nothing.")
    tab.page.get_by_label("Seeds", exact=True).fill("5000")
    tab.page.get_by_role("button", name="Run", exact=True).click()
    tab.wait("document.querySelector('progress') && document.querySelector('progress').value > 0")
    tab.press("Stop")
    tab.wait_text("until you stopped it")
    assert tab.axe() == []
    assert tab.complaints == []


def test_in_the_dark_on_a_phone_and_without_any_other_host(tab: Playground) -> None:
    tab.page.emulate_media(color_scheme="dark")
    tab.page.set_viewport_size(PHONE)
    for place in ("/steps/5/1/-/q1r:ada.q3r:cy.d1", "/rules", "/seeds"):
        tab.go(place)
        tab.wait("document.querySelector('.pg-board, .pg-rules, #pg-count')")
        assert tab.page.evaluate(f"() => {WIDTH}") <= PHONE["width"], place
        assert tab.axe() == []
    assert any(url.endswith("/pyodide.asm.wasm") for url in tab.asked)
    assert {urlsplit(url).netloc for url in tab.asked} == {urlsplit(tab.node).netloc}
    assert tab.complaints == []
