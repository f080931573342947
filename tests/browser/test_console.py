"""The console's shell in a real Chromium: every page by its link, its weight, colours, keyboard, tokens."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.chromium import chromium
from tests.browser.console import ConsolePage, ConsoleWorld, console_running

FIRST_PAGE_BYTES = 300_000

PAGES = (
    "Commits", "Key", "Members", "Transactions", "Actors", "Leases", "Elect", "Planner", "Playground", "World",
)  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    with console_running(tmp_path_factory.mktemp("console"), auth=True) as running:
        yield running


@pytest.fixture(scope="module")
def launched() -> Iterator[Any]:
    with chromium() as browser:
        yield browser


def test_the_first_page_is_light_and_comes_from_this_node_alone(launched: Any, world: ConsoleWorld) -> None:
    context = launched.new_context()
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Network.enable")
    sizes: list[int] = []
    addresses: list[str] = []
    session.on("Network.loadingFinished", lambda event: sizes.append(int(event["encodedDataLength"])))
    page.on("request", lambda request: addresses.append(request.url))
    page.goto(f"{world.url()}/ui")
    page.wait_for_selector("#page-title")
    page.wait_for_load_state("load")
    assert len(sizes) > 5
    assert sum(sizes) < FIRST_PAGE_BYTES
    assert [each for each in addresses if not each.startswith(f"{world.url()}/")] == []
    context.close()


def test_every_page_opens_by_its_link_and_takes_the_focus(launched: Any, world: ConsoleWorld) -> None:
    tab = ConsolePage(launched, world, "")
    tab.give_token(world.tokens["console"])
    for title in PAGES:
        tab.page.get_by_role("navigation").get_by_role("link", name=title, exact=True).click()
        tab.wait(f"document.querySelector('nav [aria-current=page]')?.textContent === {title!r}")
        tab.wait("document.activeElement?.id === 'page-title'")
        assert tab.page.title().endswith("· Epoxy")
        tab.page.go_back()
        tab.page.go_forward()
        tab.wait(f"document.querySelector('nav [aria-current=page]')?.textContent === {title!r}")
    assert beside_refusals(tab) == []
    tab.close()


def beside_refusals(tab: ConsolePage) -> list[str]:
    """A browser logs every answer that is refused, and what was asked before there was a token is."""
    return [each for each in tab.complaints if "401" not in each]


def test_a_visitor_without_a_token_is_told_and_served_with_one(launched: Any, world: ConsoleWorld) -> None:
    tab = ConsolePage(launched, world, "#/members")
    tab.wait_text("This cluster asks for a token.")
    tab.give_token("eps_not_a_token")
    tab.wait_text("This token is not accepted.")
    tab.give_token(world.tokens["console"])
    tab.wait("!document.body.innerText.includes('not accepted')")
    tab.wait_text("us-east-1")
    assert tab.axe() == []
    assert beside_refusals(tab) == []
    tab.close()


def test_colours_are_chosen_and_remembered(launched: Any, world: ConsoleWorld) -> None:
    tab = ConsolePage(launched, world, "#/plan", color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = tab.page.evaluate(background)
    tab.page.get_by_role("button", name="Colours").click()
    tab.wait(f"{background} !== {dark!r}")
    tab.page.reload()
    tab.wait("document.getElementById('page-title') !== null")
    assert tab.page.evaluate(background) != dark
    assert tab.axe() == []
    tab.close()


def test_the_keyboard_reaches_the_page_in_one_step(launched: Any, world: ConsoleWorld) -> None:
    tab = ConsolePage(launched, world, "#/plan")
    tab.page.keyboard.press("Tab")
    assert tab.page.evaluate("document.activeElement.textContent") == "To the page"
    tab.page.keyboard.press("Enter")
    assert tab.page.evaluate("document.activeElement.id") == "page-title"
    tab.close()


def test_an_address_that_names_no_page_shows_the_world(launched: Any, world: ConsoleWorld) -> None:
    tab = ConsolePage(launched, world, "#/nowhere")
    tab.wait("document.querySelector('nav [aria-current=page]')?.textContent === 'World'")
    tab.close()
