"""Transactions while members change, on whole nodes in virtual time."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from epoxy.model.transactions import Add, Executed, OrderedValue, Put, Txn, TxnOutcome, TxnRefused
from tests.node.members.town import Town

ACCOUNTS = [b"acct/%d" % i for i in range(4)]
DEPOSIT = 100
TOTAL = DEPOSIT * len(ACCOUNTS)


def balances(town: Town, at: int) -> list[int]:
    return [int(value or b"0") for value in town.txn(at, Txn(reads=tuple(ACCOUNTS))).found]


def held(town: Town, at: int) -> list[bytes | None]:
    """Without a transaction."""
    return [town.lives[at].node.ordered.held(key).value for key in ACCOUNTS]


def terms(town: Town) -> set[int]:
    return {life.node.status().txn_term for life in town.lives.values()}


class Bank:
    """A transfer every few milliseconds, at whoever is there, until it is closed."""

    def __init__(self, town: Town, seed: int) -> None:
        self.town, self.dice = town, Random(f"bank/{seed}")
        self.answered: Counter[int] = Counter()
        self.tried: Counter[int] = Counter()
        self.closed = False
        town.txn(1, Txn(then=tuple(Put(key=key, value=b"%d" % DEPOSIT) for key in ACCOUNTS)))
        self._next()

    def _next(self) -> None:
        if self.closed:
            return
        at = self.dice.choice(sorted(self.town.lives))
        giver, taker = self.dice.sample(ACCOUNTS, k=2)
        amount = self.dice.randint(1, 9)
        self.tried[at] += 1
        moved = (Add(key=giver, amount=amount, negative=True), Add(key=taker, amount=amount))
        counted = Add(key=b"count/%d" % at, amount=1)
        self.town.lives[at].node.txn(Txn(then=(*moved, counted)), lambda outcome: self._heard(at, outcome))
        self.town.world.after(self.dice.randint(1000, 20_000), self._next)

    def _heard(self, at: int, outcome: TxnOutcome) -> None:
        if isinstance(outcome, Executed):
            self.answered[at] += 1
        elif isinstance(outcome, TxnRefused):
            self.tried[at] -= 1

    def more(self, count: int, members: Sequence[int]) -> None:
        goals = {at: self.answered[at] + count for at in members}
        self.town.until(lambda: all(self.answered[at] >= goal for at, goal in goals.items()), f"more at {members}")

    def close(self, members: Sequence[int]) -> None:
        """Everything adds up, everywhere, and whoever was told so has moved its money, once."""
        self.closed = True
        self.town.run(15_000)
        assert sum(balances(self.town, members[0])) == TOTAL
        for at in members:
            balances(self.town, at)
        assert len({tuple(held(self.town, at)) for at in members}) == 1
        counts = self.town.txn(members[0], Txn(reads=tuple(b"count/%d" % at for at in sorted(self.tried)))).found
        for at, count in zip(sorted(self.tried), counts, strict=True):
            assert self.answered[at] <= int(count or b"0") <= self.tried[at]


def test_one_more_takes_over_what_there_is_and_orders_with_the_others() -> None:
    town = Town()
    town.txn(1, Txn(then=(Put(key=b"k", value=b"v"), Put(key=b"gone", value=b"v"))))
    town.change(1, add=[4])
    assert terms(town) == {1}
    assert town.lives[4].node.ordered.held(b"k") == OrderedValue(value=b"v", version=1)
    assert town.txn(4, Txn(reads=(b"k", b"gone"))).found == (b"v", b"v")
    town.txn(4, Txn(then=(Add(key=b"n", amount=1),)))
    town.change(2, remove=[1])
    assert terms(town) >= {2}
    assert town.txn(4, Txn(reads=(b"n",))).found == (b"1",)
    told: list[TxnOutcome] = []
    town.lives[1].node.txn(Txn(reads=(b"k",)), told.append)
    assert isinstance(told[0], TxnRefused), "definitely, and at once"
    assert town.lives[1].node.status().txn_state == "out"


@pytest.mark.parametrize("seed", range(2))
def test_the_total_never_changes_whoever_comes_and_goes(seed: int) -> None:
    town = Town(seed=seed)
    bank = Bank(town, seed)
    bank.more(3, [1, 2, 3])
    town.change(1, add=[4, 5])
    bank.more(3, [1, 2, 3, 4, 5])
    town.kill(2)
    town.kill(3)
    town.change(1, add=[6], remove=[2])
    bank.more(3, [1, 4, 5, 6])
    town.start(3)
    bank.more(3, [3])
    town.change(5, remove=[1, 3])
    bank.more(3, [4, 5, 6])
    bank.close([4, 5, 6])


@pytest.mark.parametrize("seed", range(3))
def test_a_change_that_is_given_up_changes_nothing(seed: int) -> None:
    """The newcomer dies in the middle, at another moment for each seed, and is not wanted any more."""
    town = Town(seed=seed)
    bank = Bank(town, seed)
    bank.more(3, [1, 2, 3])
    town.order(1, add=[4])
    town.run(100 + 150 * seed)
    town.kill(4)
    town.change(2, remove=[4])
    bank.more(3, [1, 2, 3])
    bank.close([1, 2, 3])


@pytest.mark.parametrize("seed", range(3))
def test_who_dies_in_the_middle_of_a_change_goes_on_with_it(seed: int) -> None:
    """Old and new, one after the other, at other moments for each seed."""
    town = Town(seed=seed)
    bank = Bank(town, seed)
    town.order(1, add=[4], remove=[2])
    for me in (4, 3, 1, 4):
        town.run(40 + 60 * seed)
        if me in town.lives:
            town.kill(me)
        town.run(100)
        town.start(me)
    wanted = (1, 3, 4)
    town.until(lambda: all(town.lives[me].holds(wanted) for me in wanted), "members")
    bank.more(3, wanted)
    bank.close(wanted)


def test_who_was_removed_may_come_back_with_its_disk() -> None:
    town = Town()
    bank = Bank(town, 1)
    bank.more(3, [1, 2, 3])
    town.change(1, add=[4])
    town.change(1, remove=[3])
    bank.more(3, [1, 2, 4])
    town.kill(3)
    town.change(1, add=[3])
    bank.more(3, [1, 2, 3, 4])
    bank.close([1, 2, 3, 4])


def test_who_died_with_transactions_under_way_and_was_removed_answers_for_all_keys_when_it_is_back() -> None:
    town = Town()
    keys = [b"key/%d" % i for i in range(12)]
    for key in keys:
        town.txn(1, Txn(then=(Add(key=key, amount=1),)))
    for key in keys:
        town.lives[3].node.txn(Txn(then=(Add(key=key, amount=1),)), lambda _: None)
    town.run(0.5)
    assert town.lives[3].node.ordered.in_flight, "put forward, and not decided"
    town.kill(3)
    town.change(1, add=[4])
    town.change(1, remove=[3])
    town.start(3)
    town.run(1000)
    town.change(1, add=[3])
    for key in keys:
        assert town.txn(3, Txn(reads=(key,))).found[0] in (b"1", b"2")
