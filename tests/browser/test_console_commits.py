"""Sampled writes of a real cluster in a real browser: on the map, as timelines, paused and filtered."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.browser.chromium import chromium
from tests.browser.console import ConsolePage, ConsoleWorld, console_running
from tests.browser.test_console_world import put


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    """With the distances between its regions: what is on its way can be seen."""
    with console_running(tmp_path_factory.mktemp("commits") / "demo", wan=True) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


@contextmanager
def opened(browser: Any, world: ConsoleWorld, **context: Any) -> Iterator[ConsolePage]:
    tab = ConsolePage(browser, world, "#/commits", **context)
    try:
        tab.wait("document.querySelector('.commit-tools [role=status]')?.innerText === 'Live.'")
        tab.wait("document.querySelectorAll('.world-map .mark').length === 3")
        yield tab
    finally:
        tab.close()


def listed(tab: ConsolePage) -> list[str]:
    """The keys of the list, newest first."""
    found: list[str] = tab.page.locator(".commit-key").all_inner_texts()
    return found


def wait_listed(tab: ConsolePage, key: str) -> None:
    tab.wait(f"[...document.querySelectorAll('.commit-key')].some((cell) => cell.innerText === {key!r})")


def refuse(url: str, key: str) -> None:
    """A name that is taken: answered without a message."""
    request = urllib.request.Request(f"{url}/v2/kv/{key}", method="PUT", data=b"another")
    with pytest.raises(urllib.error.HTTPError, match="409"):
        urllib.request.urlopen(request)


def test_a_write_moves_along_the_arcs_and_has_its_timeline(browser: Any, world: ConsoleWorld) -> None:
    with opened(browser, world) as tab:
        tab.page.evaluate(
            """() => { globalThis.seen = new Set(); new MutationObserver((all) => all.forEach(({target}) => {
            if (target.classList.contains('dot')) globalThis.seen.add(target.getAttribute('class')); }))
            .observe(document.querySelector('.dots'), {subtree: true, attributes: true}); }"""
        )
        put(world.url(), "user/ada%C3%A9")
        wait_listed(tab, "user/adaé")
        for moved in ("dot vote fast out", "dot vote fast back", "dot commit fast out"):
            tab.wait(f"globalThis.seen.has({moved!r})")
        tab.wait_text("one round trip")
        assert "times its floor of" in tab.text()
        bars = tab.page.locator(".timeline .timeline-heard").count()
        assert bars == 2, "a bar for each of the others"
        tab.page.get_by_text("Step by step").click()
        steps = tab.page.locator(".steps li").all_inner_texts()
        told = ("begins", "on its disk", "votes for it", "it is decided", "on the disk", "client is answered", "votes")
        assert [word in step for word, step in zip(told, steps, strict=True)] == [True] * len(told)
        tab.wait("document.querySelectorAll('.dots .dot').length === 0")
        assert tab.axe() == []
        assert tab.complaints == []


def test_the_list_can_be_paused_and_filtered(browser: Any, world: ConsoleWorld) -> None:
    with opened(browser, world) as tab:
        put(world.url(), "room/1")
        wait_listed(tab, "room/1")
        refuse(world.url(), "room/1")
        tab.wait("[...document.querySelectorAll('.badge')].some((badge) => badge.innerText.includes('local'))")
        tab.page.get_by_label("Path").select_option("local")
        assert listed(tab) == ["room/1"]
        tab.page.get_by_label("Path").select_option("slow")
        assert listed(tab) == []
        tab.page.get_by_label("Path").select_option("all")
        assert listed(tab) == ["room/1", "room/1"]
        tab.page.get_by_role("button", name="Pause").click()
        tab.wait_text("Paused.")
        put(world.url(), "room/2")
        tab.page.get_by_role("button", name="Go on").click()
        tab.wait("document.querySelector('.commit-tools [role=status]')?.innerText === 'Live.'")
        put(world.url(), "room/3")
        wait_listed(tab, "room/3")
        assert "room/2" not in listed(tab)
        tab.page.get_by_role("button", name="Timeline of room/1").last.click()
        tab.wait_text("Timeline of the chosen write")
        assert tab.complaints == []


def test_with_reduced_motion_nothing_moves_and_the_timeline_says_the_same(browser: Any, world: ConsoleWorld) -> None:
    look = {"viewport": {"width": 375, "height": 800}, "color_scheme": "dark", "reduced_motion": "reduce"}
    with opened(browser, world, **look) as tab:
        tab.page.evaluate(
            """() => { globalThis.moved = 0; new MutationObserver(() => { globalThis.moved += 1; })
            .observe(document.querySelector('.dots'), {subtree: true, childList: true, attributes: true}); }"""
        )
        put(world.url(), "user/cy")
        wait_listed(tab, "user/cy")
        tab.wait("document.querySelectorAll('.timeline .timeline-heard').length === 2")
        tab.wait_text("nothing moves here")
        assert tab.page.evaluate("() => globalThis.moved") == 0
        assert tab.page.evaluate("() => document.documentElement.scrollWidth") <= 375
        assert tab.axe() == []
        assert tab.complaints == []
