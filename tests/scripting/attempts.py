"""Attempts to get out of the sandbox, to leave something behind in it, or to hold its node up: attempts/*.txt.

A script that gets what it wants returns "ESCAPED".
"""

from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent / "attempts"


class Attempt(NamedTuple):
    name: str
    source: str
    instead: str
    """What it gets instead of what it wants; how that is meant stands at the head of its file."""


def attempts(name: str) -> list[Attempt]:
    _, *blocks = HERE.joinpath(f"{name}.txt").read_text("utf-8").split("\n== ")
    return [attempt_of(block) for block in blocks]


def attempt_of(block: str) -> Attempt:
    head, source = block.split("\n", 1)
    name, instead = head.split(" => ")
    return Attempt(name, source.strip(), instead)


ESCAPES, HOLD_UPS, LEFT_BEHIND = attempts("escapes"), attempts("hold_ups"), attempts("left_behind")
