"""The console's page of transactions, before a cluster that asks for tokens: rights, the engine, the last ones, and a
form."""

from collections.abc import Iterator
from typing import Any

import pytest

from epoxy import Client, Put
from tests.browser.chromium import chromium
from tests.browser.console import ConsolePage, ConsoleWorld, console_running

PHONE = {"width": 375, "height": 800}
REFUSALS = ("status of 400", "status of 401")

CELLS = """() => [...document.querySelectorAll("table")]
    .filter((table) => table.caption.innerText.startsWith("The last"))
    .flatMap((table) => [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.innerText.trim())))"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    with console_running(tmp_path_factory.mktemp("transactions") / "demo", auth=True) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


def last(tab: ConsolePage) -> list[list[str]]:
    found: list[list[str]] = tab.page.evaluate(CELLS)
    return found


def unexpected(tab: ConsolePage) -> list[str]:
    """Beside the browser's own lines about answers that refuse."""
    return [line for line in tab.complaints if not any(words in line for words in REFUSALS)]


def test_rights_engine_last_ones_and_the_form(browser: Any, world: ConsoleWorld) -> None:
    tab = ConsolePage(browser, world, "#/transactions")
    tab.wait_text("This cluster asks for a token")
    tab.wait_text("with the role writer you may run a transaction here")
    assert tab.axe() == []
    tab.give_token(world.tokens["admin"])
    tab.wait_text("Your token may not write")
    tab.wait_text("Transactions are ordered here")
    tab.give_token(world.tokens["console"])
    tab.wait_text("None since this page looks")

    with Client(world.url(), token=world.tokens["app"]) as client:
        client.txn(then=(Put(key=b"acct/a", value=b"100"), Put(key=b"acct/b", value=b"0")))
    tab.wait_text("acct/a")
    ((keys, took, outcome, when),) = last(tab)
    assert keys.split() == ["acct/a", "acct/b"]
    assert "ms" in took
    assert outcome.splitlines()[0] == "committed"
    assert when.endswith("ago")

    tab.page.get_by_role("button", name="Run this transaction").click()
    tab.wait_text("Done, at one moment")
    tab.wait_text("added -5")
    tab.wait_text("console/a")
    tab.page.get_by_role("button", name="Write two keys if a third is absent").click()
    text = tab.page.get_by_label("Transaction", exact=True).input_value()
    tab.page.get_by_label("Transaction", exact=True).fill(text.replace('"absent":true', '"value":"yes"'))
    tab.page.get_by_role("button", name="Run this transaction").click()
    tab.wait_text("The conditions did not hold")
    tab.wait_text("condition failed")
    assert tab.axe() == []

    tab.page.get_by_label("Transaction", exact=True).fill('{"then": [')
    tab.page.get_by_role("button", name="Run this transaction").click()
    tab.wait_text("Nothing was sent: this is no JSON")
    tab.page.get_by_label("Transaction", exact=True).fill('{"then": [{"op": "divide", "key": "k"}]}')
    tab.page.get_by_role("button", name="Run this transaction").click()
    tab.wait_text("divide")
    tab.wait("document.querySelector('.notice.bad') !== null")
    assert unexpected(tab) == []
    tab.close()


def test_pages_of_actors_and_leases_say_what_a_token_lacks(browser: Any, world: ConsoleWorld) -> None:
    tab = ConsolePage(browser, world, "#/actors")
    tab.wait_text("Workers are shown to operators: this cluster asks for a token.")
    tab.give_token(world.tokens["admin"])
    tab.wait_text("Actors are shown to callers: your token has not that role.")
    tab.wait_text("No worker is connected")
    tab.give_token(world.tokens["app"])
    tab.wait_text("Workers are shown to operators: your token has not that role.")
    tab.wait_text("None here.")
    assert tab.axe() == []
    tab.page.get_by_role("link", name="Leases").click()
    tab.wait_text("No value ends now")
    tab.give_token(world.tokens["admin"])
    tab.wait_text("this needs the role reader or writer")
    assert [line for line in unexpected(tab) if "status of 403" not in line] == []
    tab.close()


def test_without_a_quorum_the_refusal_has_a_reason(browser: Any, world: ConsoleWorld) -> None:
    tab = ConsolePage(browser, world, "#/transactions", color_scheme="dark", viewport=PHONE)
    tab.give_token(world.tokens["console"])
    tab.wait_text("Transactions are ordered here")
    tab.page.get_by_role("button", name="Read several keys at one moment").click()
    tab.page.get_by_role("button", name="Run this transaction").click()
    tab.wait_text("reads only")
    assert tab.page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
    assert tab.axe() == []
    for region in world.regions[1:]:
        world.order("kill", region)
    tab.wait("!document.body.innerText.includes('Running…')")
    tab.page.get_by_role("button", name="Run this transaction").click()
    tab.wait("document.querySelector('.txn-try .notice.bad') !== null")
    tab.wait("[...document.querySelectorAll('.badge')].some((each) => ['refused', 'unknown'].includes(each.innerText))")
    for region in world.regions[1:]:
        world.order("revive", region)
    tab.wait("!document.body.innerText.includes('Running…')")
    tab.wait("""(() => {
        document.querySelector(".txn-try button[type=submit]").click();
        return document.body.innerText.includes("Done, at one moment");
    })()""")
    assert [line for line in unexpected(tab) if "status of 503" not in line and "status of 429" not in line] == []
    tab.close()
