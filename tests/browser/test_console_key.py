"""The page of one key: found, read, written and explained, in a real browser before a cluster that asks for tokens."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from epoxy import Client
from tests.browser.chromium import chromium
from tests.browser.console import ConsolePage, ConsoleWorld, console_running

PHONE = {"width": 375, "height": 800}
OUTCOMES = ("status of 404", "status of 409")
"""A browser logs every answer like that as an error. Here they are outcomes."""

SCROLLED = "() => document.documentElement.scrollWidth - window.innerWidth"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    with console_running(tmp_path_factory.mktemp("key") / "demo", auth=True) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


class KeyTab(ConsolePage):
    def look_at(self, key: str, *, escaped: bool = False) -> None:
        self.page.get_by_label("Key", exact=True).fill(key)
        self.page.get_by_label("percent-encoded").set_checked(escaped)
        self.page.get_by_role("button", name="Look at it").click()

    def do(self, operation: str, action: str, value: str | None = None, **fields: str) -> None:
        self.page.get_by_role("radio", name=operation, exact=True).check()
        if value is not None:
            self.page.get_by_label("Value", exact=True).fill(value)
        for label, text in fields.items():
            self.page.get_by_label(label.replace("_", " ")).fill(text)
        self.page.locator("form.key-form > .actions").get_by_role("button", name=action).click()

    def confirm(self, action: str) -> None:
        self.page.get_by_role("dialog").get_by_role("button", name=action).click()

    def newest(self) -> str:
        """The words of the newest outcome."""
        return str(self.page.locator(".key-outcomes li").first.inner_text())

    def wait_outcome(self, words: str) -> None:
        self.wait(f'document.querySelector(".key-outcomes li")?.innerText.includes({words!r})')

    def faults(self) -> list[str]:
        """Refusals for want of a token may come late: those of requests that were under way when it was given."""
        return [line for line in self.complaints if not any(each in line for each in (*OUTCOMES, "status of 401"))]


@contextmanager
def opened(
    browser: Any, world: ConsoleWorld, place: str = "#/key", token: str = "console", **context: Any
) -> Iterator[KeyTab]:
    tab = KeyTab(browser, world, place, **context)
    try:
        tab.wait_text("This cluster asks for a token.")
        tab.complaints.clear()
        tab.give_token(world.tokens.get(token, token))
        yield tab
    finally:
        tab.close()


def client(world: ConsoleWorld) -> Client:
    return Client(world.url(), token=world.tokens["app"])


def test_a_name_is_free_then_taken_for_ever(browser: Any, world: ConsoleWorld) -> None:
    with opened(browser, world) as tab:
        tab.look_at("user/ä da?")
        tab.wait_text("No replica that answered knows this key: it is free.")
        assert tab.page.evaluate("() => location.hash") == "#/key/user%2F%C3%A4%20da%3F"
        tab.do("Reserve", "Reserve it for ever", "eu-west-1")
        tab.wait_text("A reserved name can never be changed")
        tab.confirm("Cancel")
        with client(world) as asked:
            assert asked.get("user/ä da?") is None
        tab.do("Reserve", "Reserve it for ever")
        tab.confirm("Reserve it for ever")
        tab.wait_outcome("Yours: no other client anywhere was told that it won.")
        assert "one round trip" in tab.newest()
        tab.wait_text("Taken for ever, as 'eu-west-1', held by 3 of 3 replicas")
        columns = tab.page.locator(".key-replicas thead th").all_inner_texts()
        assert [text.split()[0] for text in columns] == world.regions
        tab.do("Reserve", "Reserve it for ever", "mine")
        tab.confirm("Reserve it for ever")
        tab.wait_outcome("Not written: the name is taken, for ever.")
        assert "eu-west-1" in tab.newest()
        with client(world) as asked:
            assert asked.get("user/ä da?") == b"eu-west-1"
        assert tab.axe() == []
        tab.page.emulate_media(color_scheme="dark")
        assert tab.axe() == []
        assert tab.faults() == []


def test_versions_are_written_compared_deleted_and_listed(browser: Any, world: ConsoleWorld) -> None:
    with opened(browser, world, "#/key/cfg/limits") as tab:
        tab.wait_text("it is free")
        tab.do("Put", "Write a version", "one")
        tab.wait_outcome("Written as version 1.")
        tab.do("Compare and set", "Write, if unchanged", "two", Only_if_the_version_is="7")
        tab.wait_outcome("Not written: the committed version is 1.")
        tab.wait_text("committed now: 1")
        tab.page.get_by_role("button", name="Use version 1").click()
        tab.do("Compare and set", "Write, if unchanged")
        tab.wait_outcome("Written as version 2.")
        tab.do("Compare and set", "Write, if unchanged", Only_if_the_version_is="-1")
        tab.wait_text("The version is a whole number from 0 on.")
        tab.page.get_by_label("Written as").select_option("hex")
        tab.do("Put", "Write a version", "ff 00 8", Ends_after="")
        tab.wait_text("Hex is pairs of the digits")
        tab.do("Put", "Write a version", "ff 00 80")
        tab.wait_outcome("Written as version 3.")
        tab.do("Read for certain", "Ask a majority")
        tab.wait_outcome("Version 3.")
        assert "ff 00 80" in tab.newest()
        assert "a majority was asked" in tab.newest()
        tab.page.get_by_role("radio", name="Put", exact=True).check()
        tab.page.get_by_label("Written as").select_option("text")
        tab.do("Put", "Write a version", "soon over", Ends_after="600")
        tab.wait_outcome("Written as version 4.")
        tab.wait_text("(time to live 10 min, given at version 4)")
        tab.do("Delete", "Delete it")
        tab.confirm("Delete it")
        tab.wait_outcome("Deleted: its tombstone is version 5.")
        tab.wait_text("Deleted at version 5, held by 3 of 3 replicas")
        tab.do("Read", "Read it")
        tab.wait_outcome("It was deleted, at version 5.")
        history = "[...document.querySelectorAll('section')].find((each) => each.innerText.startsWith('History'))"
        tab.wait(f"{history}.querySelectorAll('tbody tr').length === 5")
        with client(world) as asked:
            assert asked.get("cfg/limits") is None
        assert tab.axe() == []
        assert tab.faults() == []


def test_keys_and_values_are_bytes(browser: Any, world: ConsoleWorld) -> None:
    with client(world) as asked:
        asked.put(b"b\xff/\x00c", b"\xff\x01")
        asked.put(b"long", b"x" * 10_000)
        asked.put(b"k" * 1024, b"v")
    with opened(browser, world, viewport=PHONE) as tab:
        tab.look_at("b%FF/%00c", escaped=True)
        tab.wait_text("Version 1 is 2 bytes that are no text, held by 3 of 3 replicas.")
        assert tab.page.evaluate("() => location.hash") == "#/key/b%FF%2F%00c"
        tab.do("Put", "Write a version", "text now")
        tab.wait_outcome("Written as version 2.")
        with client(world) as asked:
            assert asked.get(b"b\xff/\x00c") == b"text now"
        tab.look_at("long")
        tab.wait_text("the first 4.0 KiB of 9.8 KiB")
        tab.look_at("k" * 1024)
        tab.wait_text("Version 1 is 'v', held by 3 of 3 replicas.")
        assert tab.page.evaluate(SCROLLED) <= 0, "a phone shows the page without scrolling sideways"
        for wrong, words in (("k" * 1025, "this one has 1025"), ("", "at least one byte"), ("..", "only dots")):
            tab.look_at(wrong)
            tab.wait_text(words)
        assert tab.axe() == []
        assert tab.faults() == []


def test_who_may_do_what(browser: Any, world: ConsoleWorld) -> None:
    with Client(world.url(), token=world.tokens["admin"]) as admin:
        made = admin.auth.create_token("visitor", ("reader",))
    assert made is not None
    with client(world) as asked:
        asked.put("shown", "to all")
    with opened(browser, world, "#/key/shown", made.token) as tab:
        tab.wait_text("Version 1 is 'to all'")
        tab.page.get_by_role("radio", name="Put", exact=True).check()
        tab.wait_text("Your token may read this key, and not write it.")
        assert tab.page.get_by_role("button", name="Write a version").is_disabled()
        assert tab.faults() == []
    with opened(browser, world, "#/key/shown", "worker") as tab:
        tab.wait("document.querySelector('.notice.bad') !== null")
        assert "to all" not in tab.text()


def test_a_region_that_is_down_is_named_and_what_that_means(browser: Any, world: ConsoleWorld) -> None:
    with client(world) as asked:
        asked.put("before", "the cut")
    with opened(browser, world, "#/key/before") as tab:
        tab.wait_text("held by 3 of 3 replicas")
        away = world.regions[2]
        world.order("kill", away)
        tab.wait_text(f"Without an answer: {away}")
        tab.wait_text("2 of 3 replicas answered, and 2 are enough to read and write it.")
        tab.do("Put", "Write a version", "goes on")
        tab.wait_outcome("Written as version 2.")
        tab.wait("document.querySelector('.key-replicas').innerText.includes('no answer')")
        assert tab.axe() == []
        world.order("revive", away)
        tab.wait_text("held by 3 of 3 replicas")
        assert tab.faults() == []
