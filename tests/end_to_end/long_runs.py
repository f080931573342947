"""Faults by chance, for as long as one likes: `make e2e-long`. Not part of `make test`: each run takes tens of seconds.

The seed decides which faults come in which order; what else happens is up to the machine, so a seed does not repeat a
run. The history of one that fails is kept, and that is judged the same every time.
"""

import os
import random
from pathlib import Path

import pytest

from epoxy.cli.demo.cluster import DemoCluster
from tests.end_to_end.load import Load
from tests.end_to_end.recorder import Recorder, judge
from tests.end_to_end.settle import agree_on_all
from tests.end_to_end.world import in_touch, order, regions

RUNS = int(os.environ.get("RUNS", "4"))
"""Of each size, with a WAN and without."""

FAULTS = 30
STEPS = 10
"""Answers at every region that can give them, between two faults."""

MENDS = {"kill": "revive", "pause": "resume", "cut": "heal"}


@pytest.mark.parametrize("wan", [False, True], ids=["near", "wan"])
@pytest.mark.parametrize("size", [3, 5, 7])
@pytest.mark.parametrize("seed", range(RUNS))
def test_faults_by_chance(tmp_path: Path, size: int, wan: bool, seed: int) -> None:
    recorder, dice = Recorder(), random.Random(seed)
    with regions(tmp_path, size, wan=wan) as cluster:
        with Load(recorder, cluster, seed=seed) as load:
            hurt: dict[str, str] = {}
            for _ in range(FAULTS):
                fault(cluster, hurt, dice)
                go_on(cluster, load)
            for name in list(hurt):
                mend(cluster, hurt, name)
            in_touch(cluster)
            load.more(STEPS, cluster.nodes)
        agree_on_all(recorder, cluster)
    assert judge(recorder.history, tmp_path) > STEPS


def fault(cluster: DemoCluster, hurt: dict[str, str], dice: random.Random) -> None:
    """As many regions as are whole on average may be hurt at once, so at times there is no majority."""
    name = dice.choice(cluster.plan.names)
    if name in hurt:
        mend(cluster, hurt, name)
    else:
        hurt[name] = dice.choice(list(MENDS))
        order(cluster, hurt[name], name)


def mend(cluster: DemoCluster, hurt: dict[str, str], name: str) -> None:
    verb = MENDS[hurt.pop(name)]
    if verb == "heal" and not any(name in link for link in cluster.cuts):
        return  # those on the other sides were healed, and their links with them
    order(cluster, verb, name)


def go_on(cluster: DemoCluster, load: Load) -> None:
    slow = cluster.plan.sizes.slow
    able = [node for node in cluster.nodes if len(cluster.within_reach(node.datacenter)) >= slow]
    if able:
        load.more(STEPS, able)
    else:
        load.tries(STEPS)
