"""The console in a real browser, before a real cluster: regions to kill, and pages with what a browser complains of."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import axe_playwright_python

from epoxy.cli.demo import tokens
from epoxy.cli.demo.cluster import DemoCluster
from epoxy.cli.demo.plan import DemoPlan
from tests.browser.chromium import PATIENCE_MS
from tests.browser.rooms import page_port_base
from tests.end_to_end.world import order

AXE = Path(axe_playwright_python.__file__).parent / "axe.min.js"
LOOK_MS = 30

RULES = "{runOnly: {type: 'tag', values: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']}}"


class ConsoleWorld:
    """A cluster as `epoxy demo` runs it, without its terminal."""

    def __init__(self, cluster: DemoCluster, folder: Path, *, auth: bool) -> None:
        self.cluster = cluster
        self.regions = [node.datacenter for node in cluster.nodes]
        self.tokens = (
            {name: Path(file).read_text("utf-8").strip() for name, file in tokens.files(folder).items()} if auth else {}
        )

    def url(self, region: str | None = None) -> str:
        return self.cluster.by_name[region or self.regions[0]].url

    def order(self, verb: str, region: str) -> None:
        """As a user of the demo gives it: kill, revive, pause, resume, ..."""
        order(self.cluster, verb, region)


@contextmanager
def console_running(
    folder: Path, *, regions: int = 3, auth: bool = False, wan: bool = False, settings: str = ""
) -> Iterator[ConsoleWorld]:
    plan = DemoPlan(folder=folder, regions=regions, port_base=page_port_base(regions), wan=wan, auth=auth)
    cluster = DemoCluster(plan)
    for node in cluster.nodes:
        node.config.write_text(node.config.read_text("utf-8") + settings, "utf-8")
    try:
        cluster.start(lambda _: None)
        yield ConsoleWorld(cluster, folder, auth=auth)
    finally:
        cluster.kill()


class ConsolePage:
    """One tab. `complaints`: errors and warnings in the browser's log, and exceptions that no code handled."""

    def __init__(
        self, launched: Any, world: ConsoleWorld, place: str, region: str | None = None, **context: Any
    ) -> None:
        self._context = launched.new_context(**context)
        self._context.set_default_timeout(PATIENCE_MS)
        self.page = self._context.new_page()
        self.complaints: list[str] = []
        self.loaded_bytes = 0
        self.page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        self.page.on("console", self._logged)
        self.page.goto(f"{world.url(region)}/ui{place}")
        self.wait('document.getElementById("page-title") !== null')

    def close(self) -> None:
        self._context.close()

    def _logged(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.text} ({message.location.get('url', '')})")

    def wait(self, condition: str) -> None:
        """Looked at from outside: the policy of the page keeps the browser from evaluating text in it."""
        deadline = time.monotonic() + PATIENCE_MS / 1000
        while not self.page.evaluate(f"() => Boolean({condition})"):
            assert time.monotonic() < deadline, (condition, self.text(), self.complaints)
            self.page.wait_for_timeout(LOOK_MS)

    def wait_text(self, text: str) -> None:
        """Somewhere on the page, as a person sees it."""
        self.wait(f"document.body.innerText.includes({text!r})")

    def text(self) -> str:
        return str(self.page.evaluate("() => document.body.innerText"))

    def give_token(self, token: str) -> None:
        """As a visitor does."""
        self.page.get_by_role("button", name="Token:").click()
        self.page.get_by_label("Token", exact=True).fill(token)
        self.page.get_by_role("button", name="Use this token").click()
        self.wait("document.querySelector('dialog[open]') === null")

    def axe(self) -> list[str]:
        """What axe-core finds wrong, a line each."""
        self.page.evaluate(AXE.read_text("utf-8"))
        found = self.page.evaluate(f"async () => (await axe.run(document, {RULES})).violations")
        return [
            f"{each['id']}: {each['help']}: {node['target']} {node.get('failureSummary', '')}"
            for each in found
            for node in each["nodes"]
        ]
