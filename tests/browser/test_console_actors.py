"""The console's page of actors with real workers: the ring, one actor's moves, orders to move, destroy and drain."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from epoxy import Client
from epoxy.client.actor_calls import Which
from epoxy.envoy import Actor, Worker
from epoxy.testing.actor_world import WorkerThread
from tests.browser.chromium import chromium
from tests.browser.console import ConsolePage, ConsoleWorld, console_running
from tests.browser.rooms import QUICK

PHONE = {"width": 375, "height": 800}
ACTORS = 6

PARTS = "() => [...document.querySelectorAll('.actors-ring path title')].map((title) => title.textContent)"
SHARES = """() => [...document.querySelectorAll(".actors-ring tbody tr")].map((row) => row.cells[2].innerText)"""
MOVES = "() => [...document.querySelectorAll('.actors-moves li')].map((move) => move.className)"


def started(url: str, key: str, stack: ExitStack) -> WorkerThread:
    worker = Worker(url, key=key, pool="chat", slots=20)

    @worker.actor("room")
    async def room(actor: Actor) -> None:
        async for request in actor:
            actor.state["asked"] = actor.state.get("asked", 0) + 1
            await actor.save()
            request.respond(str(actor.state["asked"]))

    thread = WorkerThread(worker)
    thread.start()
    stack.callback(thread.stop)
    return thread


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleWorld]:
    with console_running(tmp_path_factory.mktemp("actors") / "demo", settings=QUICK) as running, ExitStack() as stack:
        for key in ("east-1", "east-2"):
            started(running.url(), key, stack)
        started(running.url(running.regions[1]), "west-1", stack)
        with Client(running.url()) as client:
            for number in range(ACTORS):
                client.actors.request(Which(name="room", key=f"table-{number}"), b"", pool="chat")
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as launched:
        yield launched


def test_the_ring_the_load_and_a_worker_that_drains(browser: Any, world: ConsoleWorld) -> None:
    tab = ConsolePage(browser, world, "#/actors")
    tab.wait_text("table-5")
    tab.wait_text("actors on 2 workers")
    assert set(tab.page.evaluate(PARTS)) == {"east-1", "east-2"}
    shares = [float(text.rstrip(" %")) for text in tab.page.evaluate(SHARES)]
    assert len(shares) == 2
    assert sum(shares) == pytest.approx(100, abs=0.2), "the whole ring"
    tab.wait_text("west")
    assert tab.axe() == []

    tab.page.get_by_role("button", name="Drain east-2", exact=True).click()
    tab.wait_text("Drain east-2?")
    tab.page.get_by_role("button", name="Cancel").click()
    tab.wait("!document.querySelector('dialog[open]')")
    assert "draining" not in tab.text()
    tab.page.get_by_role("button", name="Drain east-2", exact=True).click()
    tab.page.get_by_role("button", name="Drain it").click()
    tab.wait_text("draining")
    tab.wait(f"document.body.innerText.includes('{ACTORS} of 20')")
    tab.wait(f"({PARTS})().every((key) => key === 'east-1')")
    tab.page.get_by_role("button", name="Stop draining east-2").click()
    tab.wait(f"({PARTS})().includes('east-2')")

    tab.page.get_by_label("Kind").fill("room")
    tab.page.get_by_label("Name begins with").fill("table-3")
    tab.page.get_by_role("button", name="Search").click()
    tab.wait("!document.body.innerText.includes('table-5')")
    tab.page.get_by_role("link", name="room/table-3").click()
    tab.wait_text("Its moves")
    assert tab.page.url.endswith("#/actors/room/table-3")
    assert tab.complaints == []
    tab.close()


def test_one_actor_moves_to_another_datacenter_and_is_destroyed_there(browser: Any, world: ConsoleWorld) -> None:
    here, there = world.regions[:2]
    tab = ConsolePage(browser, world, "#/actors/room/table-1", color_scheme="dark")
    tab.wait_text("where it was made")
    tab.wait_text("version 1")
    assert tab.page.evaluate(MOVES)[:2] == ["home", "started"]
    assert tab.axe() == []
    tab.page.get_by_role("button", name="Move it there").click()
    tab.page.get_by_role("button", name=f"Move it to {there}").click()
    tab.wait_text(f"It is in {there} now.")
    tab.wait_text(f"It is at home in {there}, and this node is in {here}.")
    tab.wait(f"({MOVES})().includes('left')")
    assert tab.page.get_by_role("link", name="See it there").get_attribute("href").startswith(world.url(there))
    assert tab.complaints == []
    tab.close()

    with Client(world.url()) as client:
        assert client.actors.request(Which(name="room", key="table-1"), b"") == b"2", "with its state"
    tab = ConsolePage(browser, world, "#/actors/room/table-1", there, viewport=PHONE)
    tab.wait_text("west-1")
    tab.wait_text("made in " + here)
    assert tab.page.evaluate(MOVES)[-1] == "started"
    assert tab.page.evaluate("() => document.documentElement.scrollWidth") <= PHONE["width"]
    assert tab.axe() == []
    tab.page.get_by_role("button", name="Destroy it").click()
    tab.page.get_by_role("button", name="Destroy it for ever").click()
    tab.wait_text("It was destroyed.")
    assert tab.complaints == []
    tab.close()
    with Client(world.url()) as client:
        assert client.actors.get(Which(name="room", key="table-1")) is None


def test_a_name_without_an_actor_is_told(browser: Any, world: ConsoleWorld) -> None:
    tab = ConsolePage(browser, world, "#/actors/room/no%2Fone")
    tab.wait_text("room/no/one")
    tab.wait_text("There is no actor of this name.")
    assert [line for line in tab.complaints if "status of 404" not in line] == []
    tab.close()
