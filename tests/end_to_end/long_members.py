"""Members come, go, die and hang by chance, for as long as one likes: `make e2e-long`. Not part of `make test`.

The seed decides what happens in which order; the rest is up to the machine, so a seed does not repeat a run. The
history of one that fails is kept.
"""

import os
import random
import shutil
from pathlib import Path

import pytest

from epoxy.model.errors import ClientError
from epoxy.testing import Cluster, ClusterNode, as_newcomer, cluster
from tests.end_to_end.members_load import Writers, agree
from tests.end_to_end.recorder import Recorder, judge
from tests.end_to_end.world import until

RUNS = int(os.environ.get("RUNS", "4"))
CHANGES = 8
STEPS = 15
LARGEST = 5


@pytest.mark.parametrize("seed", range(RUNS))
def test_members_by_chance(tmp_path: Path, seed: int) -> None:
    dice, recorder = random.Random(seed), Recorder()
    with cluster(3, folder=tmp_path) as grown:
        nodes = [grown.prepare() for _ in range(CHANGES)]
        urls = [node.url for node in (*grown.nodes, *nodes)]
        with Writers(recorder, seed=seed) as writers:
            for i in range(3):
                writers.http(f"client-{i}", urls[i:] + urls[:i])
            for node in nodes:
                writers.more(STEPS, ["client-0"])
                change(grown, node, dice)
        agree(recorder, grown)
    assert judge(recorder.history, tmp_path) > STEPS


def change(grown: Cluster, newcomer: ClusterNode, dice: random.Random) -> None:
    """Somebody comes, or goes, or both; the one that was asked, or another, dies or hangs meanwhile."""
    leaves = dice.choice(grown.nodes) if len(grown) > 3 or dice.random() < 0.3 else None
    comes = newcomer if leaves is None or len(grown) <= 3 or dice.random() < 0.5 else None
    if comes is not None and len(grown) >= LARGEST and leaves is None:
        leaves = dice.choice(grown.nodes)
    is_dead = leaves is not None and dice.random() < 0.5
    if leaves is not None and is_dead:
        leaves.kill()
        shutil.rmtree(leaves.data_dir)
    staying = [node for node in grown if node is not leaves]
    order(dice.choice(staying), comes, leaves)
    hurt(dice.choice(staying), dice)
    grown.nodes = staying + ([comes] if comes is not None else [])
    until(lambda: all(is_member(node, grown) for node in grown), f"{[node.id for node in grown]}")
    if leaves is not None and not is_dead:
        leaves.stop()


def order(asked: ClusterNode, comes: ClusterNode | None, leaves: ClusterNode | None) -> None:
    if comes is not None:
        comes.start(wait=False)
        comes.wait_until(lambda status: status.state == "new", "there")
    with asked.client() as client:
        client.change_members(
            add=[as_newcomer(comes)] if comes is not None else [], remove=[leaves.id] if leaves is not None else []
        )


def hurt(node: ClusterNode, dice: random.Random) -> None:
    match dice.randrange(3):
        case 0:
            node.kill()
            node.start(wait=False)
        case 1:
            node.pause()
            node.resume()
        case _:
            pass


def is_member(node: ClusterNode, grown: Cluster) -> bool:
    try:
        with node.client(timeout=5.0) as client:
            seen = client.members(progress=True)
            wanted = tuple(sorted(each.id for each in grown))
            return client.status().ready and bool(seen.settled) and tuple(row.id for row in seen.replicas) == wanted
    except ClientError:
        return False
