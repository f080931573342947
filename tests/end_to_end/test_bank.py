"""Transactions on real processes: kill -9, and the total stays what it was."""

from pathlib import Path

from tests.end_to_end.bank import TOTAL, Bank, balances, miscounted, total_of
from tests.end_to_end.world import in_touch, order, others, regions

STEPS = 8
"""Answers at each region between two faults."""


def test_the_total_never_changes_whichever_region_is_killed(tmp_path: Path) -> None:
    with regions(tmp_path) as cluster:
        bank = Bank(cluster.nodes)
        bank.open_accounts(cluster.nodes[0])
        with bank:
            bank.more(STEPS, cluster.nodes)
            for name in cluster.plan.names[:2]:
                order(cluster, "kill", name)
                bank.more(STEPS, others(cluster, name))
                order(cluster, "revive", name)
                bank.more(STEPS, cluster.nodes)
        in_touch(cluster)
        held = {balances(node) for node in cluster.nodes}
        lost = miscounted(bank, cluster.nodes[0])
    assert bank.wrong == []
    assert lost == []
    assert len(held) == 1
    assert total_of(held.pop()) == TOTAL
