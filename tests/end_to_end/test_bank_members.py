"""Members come and go under a bank: no money is made or lost, every transfer that was answered has happened, and who is
new orders transactions itself."""

import shutil
from pathlib import Path

import pytest

from epoxy import Client
from epoxy.model.errors import Unavailable
from epoxy.testing import ClusterNode, as_newcomer, change_members, cluster
from tests.end_to_end.bank import ACCOUNTS, TOTAL, Bank, balances, miscounted, total_of
from tests.end_to_end.recorder import PATIENCE_S

STEPS = 6
"""Answers at each region between two changes: of both doors, most likely."""


def test_transactions_follow_the_members_until_no_founder_is_left(tmp_path: Path) -> None:
    with cluster(3, folder=tmp_path) as grown:
        first, second, third = grown.nodes
        fourth, fifth, sixth = (grown.prepare() for _ in range(3))
        bank = Bank(grown.nodes)
        bank.open_accounts(first)
        with bank:
            bank.more(STEPS, grown.nodes)

            grown.join(fourth, fifth)
            bank.hire(fourth)
            bank.hire(fifth)
            bank.more(STEPS, grown.nodes)

            second.kill()
            shutil.rmtree(second.data_dir)
            third.kill()
            sixth.start(wait=False)
            sixth.wait_until(lambda status: status.state == "new", "there")
            change_members(first, add=[as_newcomer(sixth)], remove=[second.id])
            bank.hire(sixth)
            bank.more(STEPS, [first, fourth, fifth, sixth])

            third.start()
            bank.more(STEPS, [third])

            change_members(third, remove=[first.id, third.id])
            bank.more(STEPS, [fourth, fifth, sixth])
        left = [fourth, fifth, sixth]
        held = [balances(node) for node in left]
        shown = [values_here(node) for node in left]
        lost = miscounted(bank, sixth)
        refused_at(first)
    assert bank.wrong == []
    assert lost == []
    assert total_of(held[0]) == TOTAL
    assert held == [held[0]] * len(left)
    assert shown == held, "what was executed is what is shown"


def values_here(node: ClusterNode) -> tuple[bytes | None, ...]:
    """Without a transaction: what a reader of single keys is told."""
    with Client(node.url, timeout=PATIENCE_S) as client:
        found = [client.get(key) for key in ACCOUNTS]
    return tuple(each.value if each is not None else None for each in found)


def refused_at(node: ClusterNode) -> None:
    """Definitely: one that was removed orders nothing."""
    with pytest.raises(Unavailable, match="it was removed"), Client(node.url, timeout=PATIENCE_S) as client:
        client.txn(reads=ACCOUNTS)
