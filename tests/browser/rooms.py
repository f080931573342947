"""The rooms of examples/rooms with a real cluster, for tests and pictures: processes to kill, and pages of browsers."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from epoxy.cli.demo import tokens
from epoxy.cli.demo.cluster import DemoCluster
from epoxy.cli.demo.plan import PAGE_PORT, PORTS_APART, DemoPlan
from epoxy.testing import hold
from tests.browser.chromium import PATIENCE_MS
from tests.end_to_end.recorder import PATIENCE_S
from tests.end_to_end.world import PORT_BASES, order, until

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "rooms" / "rooms.py"

QUICK = "\n[placement]\neligible_threshold_ms = 2000\nhome_lease_ms = 5000\n"
"""Losses are noticed as soon as the settings allow: the tests wait for that."""


LOOK_MS = 30


class RoomsWorld:
    """Three regions, a worker in each, and the server of the page."""

    def __init__(self, cluster: DemoCluster, process: "subprocess.Popen[str]") -> None:
        self.cluster = cluster
        self.regions = [node.datacenter for node in cluster.nodes]
        self.page = ""
        self._process = process
        self._workers: dict[str, list[int]] = {}
        assert process.stdout is not None
        self._reading = threading.Thread(target=self._read, args=(process.stdout,))
        self._reading.start()

    def _read(self, lines: IO[str]) -> None:
        for line in lines:
            if said := re.match(r"worker in (\S+): pid (\d+)", line):
                self._workers.setdefault(said[1], []).append(int(said[2]))
            elif said := re.match(r"Rooms in .*: (http://\S+)", line):
                self.page = said[1]

    def ready(self) -> None:
        until(lambda: bool(self.page) and len(self._workers) == len(self.regions), "served, with workers")

    def kill_worker(self, region: str) -> None:
        """SIGKILL; the example starts another."""
        os.kill(self._workers[region][-1], signal.SIGKILL)

    def kill_node(self, region: str) -> None:
        order(self.cluster, "kill", region)

    def port(self, region: str) -> str:
        return self.cluster.by_name[region].url.rpartition(":")[2]

    def end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(PATIENCE_S)
        finally:
            self._process.kill()
            self._reading.join()


@contextmanager
def rooms_running(
    folder: Path, *, auth: bool = False, wan: bool = False, settings: str = QUICK
) -> Iterator[RoomsWorld]:
    plan = DemoPlan(folder=folder, regions=3, port_base=page_port_base(), wan=wan, auth=auth)
    cluster = DemoCluster(plan)
    for node in cluster.nodes:
        node.config.write_text(node.config.read_text("utf-8") + settings, "utf-8")
    try:
        cluster.start(lambda _: None)
        shown = tokens.files(folder) if auth else {}
        given = {f"EPOXY_{name.upper()}_TOKEN_FILE": file for name, file in shown.items()}
        given |= {"EPOXY_TOKEN_FILE": shown[tokens.APP]} if auth else {}
        given |= {"EPOXY_URL": cluster.nodes[0].url, "EPOXY_PAGE_PORT": str(plan.page_port)}
        process = subprocess.Popen(
            [sys.executable, str(EXAMPLE)], stdout=subprocess.PIPE, text=True, env={**os.environ, **given}
        )
        with process:
            world = RoomsWorld(cluster, process)
            try:
                world.ready()
                yield world
            finally:
                world.end()
    finally:
        cluster.kill()


def page_port_base(regions: int = 3) -> int:
    """Free ports for the regions and the page, held for this process."""
    while True:
        base = random.SystemRandom().choice(PORT_BASES)
        with suppress(OSError):
            return hold(
                [*(base + PORTS_APART * i + door for i in range(regions) for door in (0, 1)), base + PAGE_PORT]
            )[0]


class RoomPage:
    """A browser's page of a room, as its user sees it, and what the browser complains about."""

    def __init__(self, launched: Any, world: RoomsWorld, name: str, region: str, **context: Any) -> None:
        self._context = launched.new_context(**context)
        self._context.set_default_timeout(PATIENCE_MS)
        self.page = self._context.new_page()
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        self.page.on("console", self._logged)
        self.page.goto(f"{world.page}?name={name}&region={region}&room=lobby")

    def _logged(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def wait(self, condition: str) -> None:
        """Looked at from outside: the policy of the page keeps the browser from evaluating text in it."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not self.page.evaluate(f"() => {condition}"):
            assert time.monotonic() < deadline, (condition, self.text("status-text"), self.complaints)
            self.page.wait_for_timeout(LOOK_MS)

    def wait_open(self, *here: str) -> None:
        """Connected, and these people are shown as present."""
        self.wait('document.getElementById("status").dataset.state === "open"')
        self.wait(f"document.querySelectorAll('#here li').length === {len(here)}")
        assert sorted(self.here()) == sorted(here)

    def wait_generation(self, other_than: str) -> None:
        self.wait(f'!["unknown", "{other_than}"].includes(document.getElementById("generation").textContent)')

    def here(self) -> list[str]:
        names: list[str] = self.page.locator("#here li > span:nth-child(2)").all_inner_texts()
        return [name.removesuffix(" (you)") for name in names]

    def lines(self) -> list[str]:
        """Those that the room has kept."""
        said: list[str] = self.page.locator("#lines li:not(.note):not(.unsent) .text").all_inner_texts()
        return said

    def text(self, element: str) -> str:
        told: str = self.page.locator(f"#{element}").inner_text()
        return told

    def say(self, line: str) -> None:
        """Returns when the room has kept it."""
        self.page.fill("#text", line)
        self.page.press("#text", "Enter")
        self.wait("document.querySelectorAll('#lines .unsent').length === 0")

    def wait_line(self, line: str) -> None:
        self.page.locator("#lines .text", has_text=line).first.wait_for()

    def close(self) -> None:
        self._context.close()
