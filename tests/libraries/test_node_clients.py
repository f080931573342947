"""Clients for Node: ioredis, node-redis and redlock. They are pinned in tests/libraries/npm, and installed beside
python by `make libraries`."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from tests.end_to_end.recorder import PATIENCE_S
from tests.libraries.judge import Doors
from tools.libraries import NODE_MODULES

STORY = Path(__file__).with_name("npm") / "story.cjs"


def told(story: str, *ports: int) -> dict[str, Any]:
    command = ["node", str(STORY), story, *map(str, ports)]
    environment = os.environ | {"NODE_PATH": str(NODE_MODULES)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    seen: dict[str, Any] = json.loads(done.stdout)
    return seen


def test_ioredis(doors: Doors) -> None:
    seen = told("ioredis", *doors.ports[:2])
    assert (seen["taken"], seen["refused"]) == ("OK", None)
    assert 0 < seen["left"] <= 100_000
    assert (seen["notMine"], seen["mine"]) == (0, 1)
    assert seen["multi"] == [[None, "OK"], [None, 2], [None, 1]]
    assert seen["pipeline"] == [[None, "2"], [None, "x"]]
    assert seen["afterwards"] == ["OK", 8]
    assert seen["mset"] == ["OK", ["1", "2", None]]


def test_node_redis(doors: Doors) -> None:
    seen = told("noderedis", *doors.ports[:2])
    assert (seen["taken"], seen["refused"]) == ("OK", None)
    assert 0 < seen["left"] <= 100_000
    assert (seen["notMine"], seen["mine"]) == (0, 1)
    assert seen["multi"] == ["OK", 2, 1]
    assert seen["afterwards"] == ["OK", 8]
    assert (seen["getEx"], seen["getDel"]) == ("8", ["8", None])
    assert seen["mset"] == ["OK", ["1", "2", None]]


def test_redlock(doors: Doors) -> None:
    judged(told("redlock4", *doors.ports))


def test_the_next_redlock(doors: Doors) -> None:
    judged(told("redlock5", *doors.ports))


def judged(seen: dict[str, Any]) -> None:
    assert (seen["most"], seen["entered"]) == (1, 9)
    assert 60_000 < seen["left"] <= 600_000
    assert seen["free"] == 0
    assert seen["waited"]
