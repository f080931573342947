"""The page of members before a real cluster: one is added while the page is open, one is killed, and removed."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from epoxy.cli.demo.region import RegionNode
from epoxy.cli.members_progress import ChangeProgress
from epoxy.model.api import MemberProgress, MemberRow, Members, QuorumSizes
from tests.browser.chromium import chromium
from tests.browser.console import ConsolePage, ConsoleWorld, console_running

LOOK = "Show what it would do"
WEST = "us-west-2"
LANES = '[...document.querySelectorAll(".members-lanes li")].map((lane) => lane.innerText).join()'
NEWEST = 'document.querySelector(".members-epochs li").innerText'


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    with console_running(tmp_path_factory.mktemp("members") / "demo", wan=True) as running:
        yield running


@contextmanager
def opened(browser: Any, world: ConsoleWorld, **context: Any) -> Iterator[ConsolePage]:
    tab = ConsolePage(browser, world, "#/members", **context)
    try:
        yield tab
        assert tab.complaints == []
    finally:
        tab.close()


@contextmanager
def newcomer(world: ConsoleWorld, region: str) -> Iterator[RegionNode]:
    """A node that runs, and waits to be added."""
    plan = world.cluster.plan
    node = plan.furnish(plan.place_of(region))
    try:
        node.start(wait=False)
        node.wait_until_in(("new",), "there")
        yield node
    finally:
        node.kill()


def look(tab: ConsolePage, kind: str, **fields: str) -> None:
    """Fill in the form, and ask what it would do."""
    tab.page.get_by_label(kind).check()
    for label, text in fields.items():
        tab.page.get_by_label({"address": "Its address", "datacenter": "Or only"}[label]).fill(text)
    tab.page.get_by_role("button", name=LOOK).click()


def history(world: ConsoleWorld) -> Any:
    with urllib.request.urlopen(f"{world.url()}/v2/members/history", timeout=30) as answer:
        return json.load(answer)


def test_a_datacenter_is_added_another_dies_and_is_removed_while_the_page_is_open(
    world: ConsoleWorld, browser: Any
) -> None:
    with newcomer(world, WEST) as node, opened(browser, world) as tab:
        tab.wait_text("Three datacenters decide, in epoch 2; one more datacenter may fail.")
        tab.wait(f'{LANES} === "us-east-1,eu-west-1,ap-northeast-1"')
        assert tab.axe() == []

        look(tab, "Add a datacenter", address=node.url)
        tab.wait_text("As before, one datacenter may fail.")
        tab.wait_text("ms slower")
        assert "by the planner's table" in tab.text(), "nothing is measured to one that is no member"
        assert tab.axe() == []
        tab.page.get_by_role("button", name=f"Add {WEST} (replica 4)").click()
        tab.wait_text("The change is done")
        tab.wait_text("Four datacenters decide, in epoch 6")
        tab.wait(f'{LANES} === "us-east-1,eu-west-1,ap-northeast-1,{WEST}"')
        tab.wait(f'{NEWEST}.includes("{WEST} votes now")')
        assert [record["epoch"] for record in history(world)["epochs"]] == [6, 5, 4, 3, 2, 1]
        assert "old and new together" in tab.text()

        world.order("kill", "eu-west-1")
        tab.wait_text("eu-west-1 has not answered this node for")
        tab.wait_text("no more datacenter may fail")
        look(tab, "Remove one")
        tab.wait_text("Floor then")
        tab.page.get_by_label("Which one").select_option("2")
        assert "Floor then" not in tab.text(), "another choice, another preview"
        tab.page.get_by_role("button", name=LOOK).click()
        tab.page.get_by_role("button", name="Remove eu-west-1 (replica 2)").click()
        tab.wait_text("Three datacenters decide, in epoch 8; one more datacenter may fail.")
        tab.wait(f'{NEWEST}.includes("eu-west-1 was removed")')
        tab.wait('!document.body.innerText.includes("has not answered this node for")')
        assert tab.axe() == []


def test_what_a_visitor_without_rights_sees_and_what_is_refused_in_words(tmp_path: Path, browser: Any) -> None:
    """At a cluster with tokens: the application's may look, the console's may order."""
    phone = {"color_scheme": "dark", "viewport": {"width": 375, "height": 800}}
    with console_running(tmp_path / "demo", auth=True) as world, opened(browser, world, **phone) as tab:
        tab.wait_text("This cluster asks for a token.")
        tab.complaints.clear()  # the browser logs each request that is refused
        tab.give_token(world.tokens["app"])
        tab.wait_text("To order one, your token needs the role operator.")
        look(tab, "Replace one", datacenter=WEST)
        tab.wait_text("To add it, start a node there and give its address.")
        assert tab.page.get_by_role("button", name="Replace ap-northeast-1").count() == 0
        assert tab.axe() == []
        assert tab.page.evaluate("document.documentElement.scrollWidth") == 375

        tab.give_token(world.tokens["console"])
        tab.wait('!document.body.innerText.includes("To order one, your token needs")')
        look(tab, "Add a datacenter", address="http://127.0.0.1:1")
        tab.wait('document.querySelector(".members-verdict .notice.bad") !== null')
        assert "127.0.0.1:1" in str(tab.page.locator(".members-verdict").inner_text())
        tab.complaints.clear()


def seen(**facts: Any) -> Members:
    rows = [MemberRow(id=i, status="active", url="", identity=i, datacenter=f"dc-{i}") for i in (1, 2, 3)]
    given: dict[str, Any] = {"joint": False, "previous": None, "wanted": (1, 2, 3, 4), "replicas": tuple(rows)}
    return Members(
        epoch=4,
        coordinator_id=1,
        quorum_policy="optimal",
        quorums=QuorumSizes(fast=2, slow=2),
        **(given | {"settled": False} | facts),
    )


def copying(copied: int, keys: int) -> Members:
    voter = MemberProgress(heard=True, epoch=4, keys=keys)
    learner = MemberProgress(heard=True, epoch=4, keys=copied, copied=copied)
    rows = [
        *[MemberRow(id=i, status="active", url="", identity=i, datacenter="", progress=voter) for i in (1, 2, 3)],
        MemberRow(id=4, status="learning", url="", identity=4, datacenter="sa", progress=learner),
    ]
    return seen(replicas=tuple(rows))


STORIES = [
    [(0.0, seen(waiting="no word from 4"))],
    [(0.0, seen(joint=True, waiting="1, 2 of 1, 2, 4 are synced"))],
    [(0.0, seen(settled=True, wanted=(1, 2, 3)))],
    [(float(second), copying(150 * second, 6_000)) for second in range(25)],
    [(0.0, copying(10, 0)), (1.0, copying(40, 0))],
    [(0.0, copying(5, 10)), (2.0, copying(30, 10))],
]
PARITY = """async (stories) => {
    const { progressOf } = await import("/ui/pages/members/progress.js");
    return stories.map((story) => {
        const samples = [];
        return story.map(([second, seen]) => progressOf(seen, 1000 * second, samples));
    });
}"""


def test_progress_is_told_by_the_rules_of_the_command_line(world: ConsoleWorld, browser: Any) -> None:
    with opened(browser, world) as tab:
        shown = tab.page.evaluate(PARITY, msgspec.to_builtins(STORIES))
    for story, lines in zip(STORIES, shown, strict=True):
        progress = ChangeProgress()
        for (second, view), line in zip(story, lines, strict=True):
            expected = progress.look(view, second)
            assert (line["phase"], line["copied"], line["total"]) == (expected.phase, expected.copied, expected.total)
            assert line["rate"] == pytest.approx(expected.rate)
