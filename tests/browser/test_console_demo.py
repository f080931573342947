"""The demo's page: a real `epoxy demo`, its regions killed, its links slowed and names raced for in a real browser."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from epoxy import Client
from tests.browser.chromium import PATIENCE_MS, chromium, page_at, page_server
from tests.browser.console import LOOK_MS, ConsolePage, ConsoleWorld
from tests.end_to_end.test_demo import Demo, running
from tests.end_to_end.world import draw_port_base

PHONE = {"width": 375, "height": 800}
SCROLLED = "() => document.documentElement.scrollWidth - window.innerWidth"

ATTACK = """async ([panel, token, region]) => {
    const order = JSON.stringify({verb: "kill", region});
    const headers = {authorization: "Bearer " + token, "content-type": "application/json"};
    const tries = [
        fetch(panel + "/v1/orders", {method: "POST", headers, body: order}),
        fetch(panel + "/v1/orders", {method: "POST", mode: "no-cors", body: order}),
        fetch(panel + "/v1/demo", {headers}),
        fetch(panel + "/v1/demo"),
    ];
    return (await Promise.allSettled(tries)).map((each) => each.status + " " + (each.value?.type ?? ""));
}"""
"""A page of another site that has even got hold of the token."""


class DemoWorld:
    """What a tab needs to know of a demo that runs in a process of its own."""

    def __init__(self, demo: Demo) -> None:
        self.demo = demo
        self.regions = [region["region"] for region in demo.regions]

    def url(self, region: str | None = None) -> str:
        return str(self.demo.regions[self.regions.index(region) if region else 0]["http"])


@pytest.fixture(scope="module")
def world() -> Iterator[DemoWorld]:
    with running("--no-wan", "--port-base", str(draw_port_base())) as demo:
        yield DemoWorld(demo)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


@contextmanager
def opened(browser: Any, world: DemoWorld, **context: Any) -> Iterator[ConsolePage]:
    tab = ConsolePage(browser, cast(ConsoleWorld, world), "#/demo", **context)
    try:
        yield tab
    finally:
        tab.close()


def card(region: str) -> str:
    shown = f'[...document.querySelectorAll(".card")].find((each) => each.innerText.startsWith("{region}"))'
    return f"({shown}?.innerText ?? '')"


def measured_ms(tab: ConsolePage, one: str, other: str) -> float:
    row = tab.page.locator(".demo-links tbody tr", has_text=f"{one} – {other}")
    words = str(row.locator("td").nth(2).inner_text())
    return float(words.removesuffix(" ms")) if words.endswith(" ms") else 0.0


def wait_measured(tab: ConsolePage, one: str, other: str, *, least: float, most: float) -> None:
    deadline = time.monotonic() + PATIENCE_MS / 1000
    while not least <= measured_ms(tab, one, other) <= most:
        assert time.monotonic() < deadline, measured_ms(tab, one, other)
        tab.page.wait_for_timeout(LOOK_MS)


def test_a_region_is_killed_and_comes_back(browser: Any, world: DemoWorld) -> None:
    here, there, third = world.regions
    with opened(browser, world) as tab:
        tab.wait(f"{card(there)}.includes('up')")
        assert tab.page.get_by_role("link", name="Demo").get_attribute("aria-current") == "page"
        tab.page.get_by_role("button", name=f"Kill {there}").click()
        tab.wait_text(f"{there} is dead: SIGKILL")
        tab.wait_text("2 of 3 regions go on writing; 0 more may fail.")
        tab.wait(f"{card(there)}.includes('A client of it does not answer')")
        assert world.demo.ps()[there]["condition"] == "down"
        assert tab.axe() == []
        tab.page.emulate_media(color_scheme="dark")
        assert tab.axe() == []
        tab.page.get_by_role("button", name=f"Revive {there}").click()
        tab.wait_text(f"{there} is back with the data it had")
        assert world.demo.ps()[there]["condition"] == "up"

        tab.page.get_by_role("button", name=f"Pause {third}").click()
        tab.wait(f"{card(third)}.includes('paused')")
        tab.page.get_by_role("button", name=f"Resume {third}").click()
        tab.wait_text(f"{third} continues")
        tab.page.get_by_role("button", name=f"Cut {here} – {third}").click()
        tab.wait_text(f"Now the link between {here} and {third} is cut")
        world.demo.order("heal", here)
        tab.wait("!document.querySelector('.demo-links').innerText.includes('Heal')")
        assert tab.complaints == []


def test_a_race_has_exactly_one_winner(browser: Any, world: DemoWorld) -> None:
    with opened(browser, world, viewport=PHONE) as tab:
        tab.page.get_by_label("One region").select_option(world.regions[2])
        tab.page.get_by_label("For the name").fill("race/for-it")
        tab.page.get_by_role("button", name="Race", exact=True).click()
        tab.wait_text("has race/for-it, in the whole world and for ever.")
        lanes = tab.page.locator(".demo-lane-words").all_inner_texts()
        assert sorted(" won " in " ".join(lane.split()) for lane in lanes) == [False, True]
        with Client(world.url()) as client:
            winner = (client.get("race/for-it") or b"").decode()
        assert next(lane for lane in lanes if "won" in lane).startswith(winner)
        assert f"was told that {winner} has it" in next(lane for lane in lanes if "won" not in lane)
        assert tab.page.evaluate(SCROLLED) <= 0, "a phone shows the page without scrolling sideways"
        assert tab.axe() == []
        assert tab.complaints == []


def test_a_slow_link_is_measured_as_slow(browser: Any, world: DemoWorld) -> None:
    here, there, _ = world.regions
    with opened(browser, world) as tab:
        tab.page.get_by_label(f"How much slower: {here} – {there}").select_option("300")
        tab.page.get_by_role("button", name=f"Slow {here} – {there}").click()
        tab.wait_text(f"Now a round trip between {here} and {there} takes 300 ms more.")
        tab.wait_text("slowed by 300 ms")
        wait_measured(tab, here, there, least=299.0, most=5_000.0)
        tab.page.get_by_role("button", name=f"Heal {here} – {there}").click()
        tab.wait_text(f"Now the link between {here} and {there} is restored.")
        wait_measured(tab, here, there, least=0.01, most=298.0)
        assert tab.complaints == []


def test_a_demo_that_was_started_again_is_asked_with_its_new_token(browser: Any, world: DemoWorld) -> None:
    """The page has the token of the demo before: the panel refuses it, and the page asks its node for the new one."""
    old, learned = "0" * 64, []

    def stale_once(route: Any) -> None:
        learned.append(route.request.url)
        answer = route.fetch()
        told = {**answer.json(), **({"token": old} if len(learned) == 1 else {})}
        route.fulfill(response=answer, json=told)

    with opened(browser, world) as tab:
        tab.wait(f"{card(world.regions[0])}.includes('up')")
        tab.page.evaluate("() => { location.hash = '#/plan'; }")
        tab.wait_text("Planner")
        tab.page.route("**/v2/console/demo", stale_once)
        tab.page.evaluate("() => { location.hash = '#/demo'; }")
        tab.wait_text("need an operator's token")
        tab.wait(f"{card(world.regions[0])}.includes('up')")
        assert len(learned) == 2


def test_a_page_of_another_origin_cannot_kill_a_region(browser: Any, world: DemoWorld) -> None:
    with Client(world.url()) as client:
        pid = client.status().pid
    with page_server() as port, page_at(browser, f"http://evil.example:{port}/") as page:
        panel = f"http://127.0.0.1:{int(world.demo.port_base) + 91}"
        token = token_of(world)
        told = page.evaluate(ATTACK, [panel, token, world.regions[0]])
    assert [each.split()[0] for each in told] == ["rejected", "fulfilled", "rejected", "rejected"]
    assert told[1] == "fulfilled opaque", "it was sent, and the panel refused it"
    with Client(world.url()) as client:
        assert client.status().pid == pid
    assert {region["condition"] for region in world.demo.ps().values()} == {"up"}


def token_of(world: DemoWorld) -> str:
    folder = json.loads(world.demo.order("ps", "--json").stdout)["dir"]
    return (Path(folder) / "panel.token").read_text().strip()


def test_a_demo_with_tokens_asks_for_one(browser: Any, tmp_path: Path) -> None:
    base = draw_port_base()
    with running("--no-wan", "--auth", "--dir", str(tmp_path / "d"), "--port-base", str(base)) as demo:
        world = DemoWorld(demo)
        with opened(browser, world) as tab:
            tab.wait_text("This cluster asks for a token.")
            tab.give_token((tmp_path / "d" / "worker.token").read_text())
            tab.wait_text("Orders to a demo need an operator's token: the one in console.token")
            tab.give_token((tmp_path / "d" / "console.token").read_text())
            tab.page.get_by_role("button", name="Race", exact=True).click()
            tab.wait_text("in the whole world and for ever.")
            wait_measured(tab, *world.regions[:2], least=0.01, most=5_000.0)


def test_pages_of_every_node_of_a_region_kill_and_revive_single_nodes(browser: Any) -> None:
    with running("--no-wan", "--store", "postgres", "--nodes", "2", "--port-base", str(draw_port_base())) as demo:
        world = DemoWorld(demo)
        first, second = demo.regions[0]["nodes"]
        served = first if second["gateway"] else second
        demo.regions[0]["http"] = served["http"]
        there = world.regions[1]
        with opened(browser, world) as tab:
            tab.wait(f"{card(there)}.includes('node 1') && {card(there)}.includes(', gateway')")
            tab.page.get_by_role("button", name=f"Kill node 1 of {there}").click()
            tab.wait_text(f"node 1 of {there} is dead: SIGKILL")
            tab.wait(f"{card(there)}.includes('node 2, gateway: 257 shards')")
            assert [node["condition"] for node in demo.ps()[there]["nodes"]] == ["down", "up"]
            assert tab.axe() == []
            tab.page.get_by_role("button", name=f"Revive node 1 of {there}").click()
            tab.wait_text(f"node 1 of {there} is back")
            assert tab.complaints == []
