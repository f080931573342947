"""`make console-pictures`: the console's pages, taken of a demo in five regions with clients, workers and locks."""

import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, cast

from benchmarks.failover_cluster import ElectCluster
from benchmarks.failover_cluster import running as running_elect
from epoxy import Client, Which
from epoxy.envoy import Actor, Request, Worker
from epoxy.model.errors import EpoxyError
from epoxy.model.transactions import Add
from epoxy.testing.actor_world import WorkerThread
from tests.browser.chromium import chromium
from tests.browser.console import ConsolePage, ConsoleWorld, console_running
from tests.browser.test_console_demo import DemoWorld
from tests.browser.test_console_elect import setting
from tests.end_to_end.test_demo import running as running_demo
from tests.end_to_end.world import draw_port_base
from tools.programs import redis_server

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "img"
DESK = {"width": 1240, "height": 972}
PHONE = {"width": 390, "height": 844}
REGIONS = 5
PAUSE_S = 0.1
"""Between two writes of a region's client: enough for figures everywhere, and little for a machine that runs five
regions and a browser."""

SETTLED_MS = 12_000
"""What is shown is of the last seconds, and these should all be alike."""

SHORT_MS = 4_000
"""For pages whose figures are not of the last seconds."""


class Room(Actor):
    """Counts its visitors."""

    async def on_request(self, request: Request) -> dict[str, Any]:
        self.state["visits"] = self.state.get("visits", 0) + 1
        return {"visits": self.state["visits"], "path": request.path}


def write(url: str, region: str, over: threading.Event) -> None:
    """Names, a counter, values that end, transfers and visits of rooms, over and over."""
    client = Client(url)
    number = 0
    while not over.wait(PAUSE_S):
        number += 1
        try:
            client.reserve(f"user/{region}-{number}", region)
            if number % 5 == 0:
                client.add("visits", 1)
            if number % 7 == 0:
                client.put(f"presence/{region}/{number % 4}", region, ttl=30)
            if number % 9 == 0:
                client.txn(then=[Add(key=b"acct/a", amount=-1), Add(key=b"acct/b", amount=1)])
            if number % 11 == 0:
                client.actors.fetch(Which(name="room", key=f"{region}-{number % 6}"), pool="rooms")
        except EpoxyError:
            continue  # A region was killed: one of the pictures is of that.
    client.close()


@contextmanager
def busy(world: ConsoleWorld) -> Iterator[None]:
    """A client in each region, and workers in three of them."""
    over = threading.Event()
    with ExitStack() as ended:
        for region in world.regions[:3]:
            worker = Worker(world.url(region), pool="rooms", key=f"worker-{region}")
            worker.actor("room")(Room)
            thread = WorkerThread(worker)
            thread.start()
            ended.callback(thread.stop)
        for region in world.regions:
            client = threading.Thread(target=write, args=(world.url(region), region, over))
            client.start()
            ended.callback(client.join)
        ended.callback(over.set)
        yield


def take(
    launched: Any, world: ConsoleWorld, place: str, name: str, *, settled_ms: int = SHORT_MS, **context: Any
) -> None:
    tab = ConsolePage(launched, world, place, **{"viewport": DESK, "color_scheme": "light", **context})
    tab.page.wait_for_timeout(settled_ms)
    tab.page.screenshot(path=IMAGES / f"console-{name}.png")
    assert tab.complaints == [], tab.complaints
    tab.close()


def take_all(launched: Any, world: ConsoleWorld) -> None:
    take(launched, world, "#/world", "world", settled_ms=SETTLED_MS)
    take(launched, world, "#/world", "world-dark", settled_ms=SETTLED_MS, color_scheme="dark")
    take(launched, world, "#/world", "world-phone", viewport=PHONE)
    take(launched, world, "#/commits", "commits", settled_ms=SETTLED_MS, color_scheme="dark")
    take(launched, world, f"#/key/user%2F{world.regions[0]}-1", "key")
    for name in ("members", "transactions", "actors", "leases", "plan"):
        take(launched, world, f"#/{name}", name)
    take(launched, world, "#/playground", "playground", settled_ms=2 * SETTLED_MS)
    world.order("kill", world.regions[2])
    take(launched, world, "#/world", "region-lost", settled_ms=SETTLED_MS)


def take_demo(launched: Any) -> None:
    """The panel belongs to the process of `epoxy demo`."""
    with running_demo("--port-base", str(draw_port_base())) as demo:
        world = cast(ConsoleWorld, DemoWorld(demo))
        tab = ConsolePage(launched, world, "#/demo", viewport=DESK, color_scheme="light")
        tab.page.get_by_label("For the name").fill("user/ada")
        tab.page.get_by_role("button", name="Race", exact=True).click()
        tab.wait_text("has user/ada, in the whole world and for ever.")
        tab.page.screenshot(path=IMAGES / "console-demo.png", full_page=True)
        tab.close()


def take_elect(launched: Any, folder: Path) -> None:
    elect_cluster = ElectCluster(folder / "elect", redis_server())
    with running_elect(elect_cluster) as elect, console_running(folder / "demo", settings=setting(elect)) as world:
        elect.primary()
        take(launched, world, "#/elect", "elect")


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch, chromium() as launched:
        folder = Path(scratch)
        with console_running(folder / "world", regions=REGIONS, wan=True) as world, busy(world):
            take_all(launched, world)
        take_demo(launched)
        take_elect(launched, folder)
    for file in sorted(IMAGES.glob("console-*.png")):
        print(f"{file.relative_to(IMAGES.parents[1])}  {file.stat().st_size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
