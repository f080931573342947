"""What every page of the console has: a node that is silent or comes back, tokens, and links with keys of any bytes."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote_from_bytes

import pytest

from epoxy import Client
from tests.browser.chromium import chromium
from tests.browser.console import ConsolePage, ConsoleWorld, console_running

SILENT = "This node does not answer. What is shown may be old"
REFUSED = "This token is not accepted."
REFUSED_MS = 16_000
"""Until a visitor who was refused is asked about again, and a little more."""
LONG_S = 3_600
ROWS = 50

UNSEEN = {
    b"unseen/\n": "unseen/%0A",
    b"unseen/ ": "unseen/%20",
    "unseen/a\u200bda".encode(): "unseen/a%E2%80%8Bda",
    "unseen/\u202ekcab".encode(): "unseen/%E2%80%AEkcab",
    b"unseen/two  blanks": "unseen/two%20 blanks",
    b"unseen/\x80": "unseen/%80",
    b"unseen/100%": "unseen/100%",
}
"""Keys, and what is shown of them."""

LINKS = (
    """() => [...document.querySelectorAll(".key-link")].map((link) => [link.getAttribute("href"), link.innerText])"""
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    with console_running(tmp_path_factory.mktemp("shell") / "demo") as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


@contextmanager
def opened(browser: Any, world: ConsoleWorld, place: str, **context: Any) -> Iterator[ConsolePage]:
    tab = ConsolePage(browser, world, place, **context)
    try:
        yield tab
    finally:
        tab.close()


def gone(text: str) -> str:
    return f"!document.body.innerText.includes({text!r})"


def test_a_node_that_is_silent_is_named_and_its_page_goes_on(browser: Any, world: ConsoleWorld) -> None:
    here = world.regions[0]
    with opened(browser, world, "#/world") as tab:
        tab.wait_text("One more datacenter may fail.")
        world.order("pause", here)  # its connections stay open
        try:
            tab.wait_text(SILENT)
        finally:
            world.order("resume", here)
        tab.wait(gone(SILENT))
        assert tab.complaints == []


def test_a_page_that_is_chosen_while_its_node_is_down_comes_when_it_is_back(browser: Any, world: ConsoleWorld) -> None:
    here = world.regions[0]
    with opened(browser, world, "#/world") as tab:
        tab.wait_text("One more datacenter may fail.")
        world.order("kill", here)
        try:
            tab.page.get_by_role("link", name="Leases").click()
            tab.wait_text("This page could not be loaded from the node.")
        finally:
            world.order("revive", here)
        tab.wait_text("Locks and leases")
        tab.wait(gone("could not be loaded"))
        assert not [each for each in tab.complaints if each.startswith("uncaught")]


def test_one_answer_that_fails_is_asked_for_again(browser: Any, world: ConsoleWorld) -> None:
    """The history of a key is asked for once."""
    with Client(world.url()) as client:
        client.put(b"asked/again", b"first version")
    asked: list[str] = []

    def fail_once(route: Any) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            route.abort()
        else:
            route.continue_()

    with opened(browser, world, "#/plan") as tab:
        tab.page.route("**/v2/history/**", fail_once)
        tab.page.evaluate("() => { location.hash = '#/key/asked%2Fagain'; }")
        tab.wait_text("rows of the changelog were looked through")
        assert len(asked) >= 2


def test_a_token_that_the_node_did_not_know_yet_is_not_refused_for_ever(browser: Any, world: ConsoleWorld) -> None:
    refusal = '{"error": {"code": "unauthorized", "message": "no such token", "definite": true}}'
    refusing = [True]

    def answer(route: Any) -> None:
        if refusing[0]:
            route.fulfill(status=401, content_type="application/json", body=refusal)
        else:
            route.continue_()

    with opened(browser, world, "#/plan") as tab:
        tab.page.evaluate("() => sessionStorage.setItem('epoxy-token', 'just made')")
        tab.page.clock.install()
        tab.page.reload()
        for path in ("**/v2/world", "**/v2/auth/whoami"):
            tab.page.route(path, answer)
        tab.page.get_by_role("link", name="World").click()
        tab.wait_text(REFUSED)
        refusing[0] = False
        tab.page.clock.fast_forward(REFUSED_MS)
        tab.wait(gone(REFUSED))
        tab.wait_text("One more datacenter may fail.")


def test_keys_that_are_not_seen_are_shown_and_can_be_followed(browser: Any, world: ConsoleWorld) -> None:
    with Client(world.url()) as client:
        for key in UNSEEN:
            client.put(key, b"value of " + quote_from_bytes(key).encode())
    with opened(browser, world, "#/key") as tab:
        tab.page.get_by_label("Keys that begin with").fill("unseen/")
        tab.wait(f"document.querySelectorAll('.key-link').length === {len(UNSEEN)}")
        assert {text for _, text in tab.page.evaluate(LINKS)} == set(UNSEEN.values())
        for key, shown in UNSEEN.items():
            tab.page.evaluate("() => { location.hash = '#/key'; }")
            tab.page.get_by_label("Keys that begin with").fill("unseen/")
            tab.page.locator(".key-link").get_by_text(shown, exact=True).click()
            tab.wait_text(f"Key {shown}")
            tab.wait_text(f"value of {quote_from_bytes(key)}")
            tab.page.get_by_role("button", name="Look at it").click()
            tab.wait_text(f"value of {quote_from_bytes(key)}")
        assert tab.complaints == []


def test_a_sampled_write_leads_to_its_own_key(browser: Any, world: ConsoleWorld) -> None:
    key = b"sampled/a b%41\x80"
    with Client(world.url()) as client, opened(browser, world, "#/commits") as tab:
        tab.wait_text("No write was seen yet.")
        client.put(key, b"of the sampled one")
        link = tab.page.locator("p a[href^='#/key/']").first
        link.wait_for()
        link.click()
        tab.wait_text("of the sampled one")
        assert tab.page.evaluate("() => location.hash") == f"#/key/{quote_from_bytes(key, safe='')}"


def test_pages_of_leases_go_on_behind_keys_that_are_no_text(browser: Any, world: ConsoleWorld) -> None:
    with Client(world.url()) as client:
        for number in range(ROWS + 2):
            client.put(b"raw/\x80%02d" % number, b"held", ttl=LONG_S)
    with opened(browser, world, "#/leases/raw%2F") as tab:
        tab.wait_text("raw/%8000")
        tab.page.get_by_role("button", name="Next page").click()
        tab.wait_text(f"raw/%80{ROWS + 1}")
        assert "raw/%8000" not in tab.text()
        tab.page.get_by_role("button", name="Page before").click()
        tab.wait_text("raw/%8000")


def test_a_key_of_the_cluster_is_not_asked_for(browser: Any, world: ConsoleWorld) -> None:
    with opened(browser, world, "#/key/%FFsystem") as tab:
        tab.wait_text("Keys that begin with the byte ff are the cluster's own.")
        assert tab.complaints == []


def test_a_stream_that_is_refused_says_so_and_is_seldom_asked_for_again(browser: Any, world: ConsoleWorld) -> None:
    """As at the address for operators, or with a token that reads no key."""
    refusal = '{"error": {"code": "wrong_listener", "message": "served elsewhere", "definite": true}}'
    asked: list[str] = []

    def refuse(route: Any) -> None:
        asked.append(route.request.url)
        route.fulfill(status=421, content_type="application/json", body=refusal)

    with opened(browser, world, "#/plan") as tab:
        tab.page.clock.install()
        tab.page.route("**/v2/commits/samples", refuse)
        tab.page.get_by_role("link", name="Commits").click()
        tab.wait_text("Writes are shown to a token that reads keys, at the node's address for clients.")
        tab.page.clock.run_for(REFUSED_MS // 2)
        assert len(asked) == 1
        with tab.page.expect_request("**/v2/commits/samples"):
            tab.page.clock.run_for(REFUSED_MS // 2)


def test_a_cluster_of_one_datacenter_is_called_that(browser: Any, world: ConsoleWorld) -> None:
    def alone(route: Any) -> None:
        answer = route.fetch()
        seen = answer.json()
        me = [member for member in seen["members"] if member["id"] == seen["id"]]
        route.fulfill(
            response=answer, json={**seen, "members": me, "links": [], "replicas": 1, "tolerated_failures": 0}
        )

    with opened(browser, world, "#/plan") as tab:
        tab.page.route("**/v2/world", alone)
        tab.page.get_by_role("link", name="World").click()
        tab.wait_text(f"{world.regions[0]} is the only datacenter.")
        assert tab.complaints == []
