"""Whether clients notice restarts and upgrades: 50,000 writes at three nodes that are replaced one after the other.

    python -m tests.end_to_end.upgrade_campaign [--writes 50000] [--clients 24] [--parts restart,upgrade]

`restart`: nodes of this build, each stopped with SIGTERM and started again, in turn, until so many writes are done.
`upgrade`: nodes of the last release become nodes of this build and go back, in turn, the same. `hot`: as `restart`,
with eight counters that all clients of all nodes add to; how many outcomes are unknown then is a figure, no verdict.
Exit status 1 if a write failed, has an unknown outcome, or is not what all nodes hold in the end.
"""

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from epoxy.model.quorum import QuorumPolicy
from epoxy.testing import Cluster, lay_out
from tests.end_to_end.rolling import MAX_WRITES, RollingLoad, replace_build
from tools.previous_release import previous_python

NODES = 3
ADDS = 6
"""To one counter, where nodes of 0.1.0 are restarted: after more than eight writes of a key while such a node was away
it cannot tell the outcome of the next."""

PAUSE = 200
"""Writes between two steps, so that clients have come back to the node."""


def roll(builds: Iterable[str], first: str, writes: int, clients: int, adds: int, hot: bool) -> tuple[RollingLoad, int]:
    """Give nodes these builds, one after the other in turn, under `writes` writes."""
    with tempfile.TemporaryDirectory(prefix="epoxy-upgrade-") as name:
        folder = Path(name)
        cluster = Cluster(lay_out(folder, NODES, QuorumPolicy.OPTIMAL), folder)
        for node in cluster:
            node.python = first
        steps = 0
        try:
            cluster.start()
            with RollingLoad(cluster, clients=clients, adds=adds, hot=hot) as load:
                for index, build in zip(itertools.cycle(range(NODES)), builds, strict=False):
                    load.more(PAUSE)
                    if load.writes >= writes:
                        break
                    replace_build(cluster, index, build)
                    steps += 1
            load.judge(cluster)
        finally:
            cluster.stop()
    return load, steps


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writes", type=int, default=50_000)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--parts", default="restart,upgrade")
    given = parser.parse_args()
    parts = given.parts.split(",")
    if unknown := set(parts) - {"restart", "upgrade", "hot"}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    if not 1 <= given.writes <= MAX_WRITES:
        parser.error(f"--writes is a number from 1 to {MAX_WRITES}")
    here, last = sys.executable, str(previous_python())
    plans: dict[str, tuple[Iterable[str], str, int]] = {
        "restart": (itertools.repeat(here), here, given.writes),
        "hot": (itertools.repeat(here), here, given.writes),
        "upgrade": (itertools.cycle([here] * NODES + [last] * NODES), last, ADDS),
    }
    status = 0
    for part in parts:
        began = time.monotonic()
        builds, first, adds = plans[part]
        load, steps = roll(builds, first, given.writes, given.clients, adds, part == "hot")
        print(f"{part}: {steps} nodes replaced in {time.monotonic() - began:.0f} s; {load.told()}", flush=True)
        if part == "hot":
            load.unknown.clear()
        for finding in load.verdict():
            status = 1
            print(f"  {finding}", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
