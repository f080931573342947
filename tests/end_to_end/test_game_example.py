"""The load of examples/game, as a newcomer runs it: no acknowledged move is lost, and none counts twice."""

import json
import os
import subprocess
import sys
from pathlib import Path

from epoxy.cli.demo.cluster import DemoCluster
from tests.end_to_end.recorder import PROCESS_S

GAME = Path(__file__).resolve().parents[2] / "examples" / "game" / "game.py"


def test_games_in_three_regions(trio: DemoCluster) -> None:
    done = subprocess.run(
        [sys.executable, str(GAME), "--rooms", "6", "--players", "2", "--seconds", "0.5", "--json"],
        env={**os.environ, "EPOXY_URL": trio.nodes[0].url},
        capture_output=True,
        text=True,
        timeout=PROCESS_S,
        check=False,
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    told = json.loads(done.stdout)
    assert (told["lost"], told["counted_twice"], told["killed"]) == (0, 0, None)
    assert told["acknowledged"] >= told["players"] == 12
    assert sorted(told["homes"].values()) == [2, 2, 2]
