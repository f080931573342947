"""The bank for longer, in 3, 5 and 7 regions, near and far: `make bank`. Not part of `make test`."""

import os
import random
from pathlib import Path

import pytest

from tests.end_to_end.bank import TOTAL, Bank, balances, miscounted, total_of
from tests.end_to_end.world import in_touch, order, others, regions

KILLS = int(os.environ.get("KILLS", "10"))
STEPS = 10


@pytest.mark.parametrize("wan", [False, True], ids=["near", "wan"])
@pytest.mark.parametrize("size", [3, 5, 7])
def test_kills_by_chance(tmp_path: Path, size: int, wan: bool) -> None:
    dice = random.Random(size)
    with regions(tmp_path, size, wan=wan) as cluster:
        bank = Bank(cluster.nodes, seed=size)
        bank.open_accounts(cluster.nodes[0])
        with bank:
            for _ in range(KILLS):
                name = dice.choice(cluster.plan.names)
                order(cluster, "kill", name)
                bank.more(STEPS, others(cluster, name))
                order(cluster, "revive", name)
                in_touch(cluster)
                bank.more(STEPS, cluster.nodes)
        held = {balances(node) for node in cluster.nodes}
        lost = miscounted(bank, cluster.nodes[0])
    assert bank.wrong == []
    assert lost == []
    assert len(held) == 1
    assert total_of(held.pop()) == TOTAL
