"""`make console-pictures`: the console's pages, taken of a real cluster while clients write to every region."""

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.browser.chromium import chromium
from tests.browser.console import ConsolePage, ConsoleWorld, console_running
from tests.browser.test_console_world import Writer

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "img"
DESK = {"width": 1240, "height": 972}
REGIONS = 5
WRITERS = 2
"""In each region: enough for figures everywhere, and little for a machine that runs five regions and a browser."""

SETTLED_MS = 12_000
"""What is shown is of the last seconds, and these should all be alike."""


@contextmanager
def written(world: ConsoleWorld) -> Iterator[None]:
    writers = [Writer(world.url(name), f"user/{name}-{n}-") for name in world.regions for n in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        yield
    finally:
        for writer in writers:
            writer.end()


def take(launched: Any, world: ConsoleWorld, place: str, file: str, scheme: str) -> None:
    tab = ConsolePage(launched, world, place, viewport=DESK, color_scheme=scheme)
    tab.wait("document.querySelectorAll('.world-map .label').length >= 3")
    tab.page.wait_for_timeout(SETTLED_MS)
    tab.page.screenshot(path=IMAGES / file)
    assert tab.complaints == [], tab.complaints
    tab.close()


def main() -> int:
    with (
        tempfile.TemporaryDirectory() as folder,
        chromium() as launched,
        console_running(Path(folder) / "demo", regions=REGIONS, wan=True) as world,
        written(world),
    ):
        take(launched, world, "#/world", "console-world.png", "light")
        take(launched, world, "#/world", "console-world-dark.png", "dark")
        take(launched, world, "#/commits", "console-commits.png", "dark")
    for file in sorted(IMAGES.glob("console-*.png")):
        print(f"{file.relative_to(IMAGES.parents[1])}  {file.stat().st_size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
