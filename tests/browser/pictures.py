"""`make pictures`: the pictures of docs/actors.md, taken of real pages of examples/rooms while a region is killed."""

import base64
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.browser.chromium import chromium
from tests.browser.rooms import RoomPage, rooms_running

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "img"
DESK = {"width": 860, "height": 640}
PHONE = {"width": 390, "height": 720}
SHOWN_WIDTH = 620
"""Of each page in the picture of two."""


def play(launched: Any, folder: Path) -> None:
    with rooms_running(folder, wan=True) as world:
        home, other, third = world.regions
        ada = RoomPage(launched, world, "ada", home, viewport=DESK, color_scheme="light")
        grace = RoomPage(launched, world, "grace", other, viewport=DESK, color_scheme="dark")
        niko = RoomPage(launched, world, "niko", third, viewport=PHONE, color_scheme="light")
        people = ("ada", "grace", "niko")
        for page in (ada, grace, niko):
            page.wait_open(*people)
        for page, line in (
            (ada, "Good morning from Virginia"),
            (grace, "Good afternoon from Dublin. The room lives with you, I read it through my own region."),
            (niko, "And good night from Tokyo"),
            (ada, "I pull the plug of us-east-1 now"),
        ):
            page.say(line)
        grace.wait_line("I pull the plug")
        beside(launched, [ada.page.screenshot(), grace.page.screenshot()], IMAGES / "rooms-two-regions.png")
        before = grace.text("generation")
        world.kill_node(home)
        for page in (ada, grace, niko):
            page.wait_generation(before)
            page.wait_open(*people)
        ada.say("Still here, and so is all we said")
        for page in (grace, niko):
            page.wait_line("Still here")
        ada.page.screenshot(path=IMAGES / "rooms-region-lost.png")
        niko.page.screenshot(path=IMAGES / "rooms-phone.png")


def beside(launched: Any, shots: list[bytes], file: Path) -> None:
    """Two pictures in one."""
    images = "".join(
        f'<img width={SHOWN_WIDTH} src="data:image/png;base64,{base64.b64encode(shot).decode()}">' for shot in shots
    )
    height = SHOWN_WIDTH * DESK["height"] // DESK["width"]
    page = launched.new_page(viewport={"width": len(shots) * SHOWN_WIDTH + 8 * (len(shots) - 1), "height": height})
    style = "margin:0;display:flex;gap:8px;align-items:flex-start;background:transparent"
    page.set_content(f'<!doctype html><body style="{style}">{images}')
    page.screenshot(path=file, omit_background=True)
    page.close()


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, chromium() as launched:
        play(launched, Path(folder) / "cluster")
    for file in sorted(IMAGES.glob("rooms-*.png")):
        print(f"{file.relative_to(IMAGES.parents[1])}  {file.stat().st_size / 1024:.0f} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
