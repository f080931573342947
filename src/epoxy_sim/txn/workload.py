"""What clients ask for: transfers between accounts, or anything."""

from random import Random

from epoxy.model.transactions import Add, Compare, Delete, Get, Operation, Put, Txn
from epoxy_sim.txn.plan import TxnClientPlan, TxnStep

ACCOUNT = b"acct/"
"""The sum of keys with this prefix never changes."""


def draw_clients(dice: Random, n: int, until_us: int, slowest_us: int) -> tuple[TxnClientPlan, ...]:
    steps = dice.randint(2, 6)
    keys = dice.choice((1, 2, 3, 5))
    draw = dice.choice((transfer, transfer, anything))
    pace_us = until_us // (steps + 1)
    apart_us = dice.choice((100, slowest_us, 3 * slowest_us, pace_us))
    homes = dice.choice((list(range(1, n + 1)), [dice.randint(1, n) for _ in range(dice.randint(2, 5))]))
    return tuple(
        TxnClientPlan(
            home=home,
            steps=tuple(
                TxnStep(at_us=i * pace_us + dice.randrange(apart_us), txn=draw(dice, keys, 100 * client + i))
                for i in range(steps)
            ),
        )
        for client, home in enumerate(homes, start=1)
    )


def transfer(dice: Random, keys: int, _: int) -> Txn:
    """Between two accounts, or a look at all of them."""
    accounts = [ACCOUNT + b"%d" % i for i in range(keys + 1)]
    if dice.random() < 0.3:
        return Txn(reads=tuple(accounts))
    giver, taker = dice.sample(accounts, k=2)
    amount = dice.randint(1, 9)
    moved = (Add(key=giver, amount=amount, negative=True), Add(key=taker, amount=amount))
    return Txn(then=moved, reads=tuple(accounts) if dice.random() < 0.3 else ())


def anything(dice: Random, keys: int, value: int) -> Txn:
    names = [b"key-%d" % i for i in range(keys)]
    operations = tuple(draw_operation(dice, dice.choice(names), value) for _ in range(dice.randint(1, 3)))
    compares: tuple[Compare, ...] = ()
    if dice.random() < 0.5:
        compares = (Compare(key=dice.choice(names), values=(b"%d" % dice.randint(1, 9),), absent=dice.random() < 0.7),)
    otherwise = (Get(key=dice.choice(names)),) if compares else ()
    return Txn(compares=compares, then=operations, otherwise=otherwise)


def draw_operation(dice: Random, key: bytes, value: int) -> Operation:
    kind = dice.choice((Get, Put, Put, Delete, Add))
    if kind is Put:
        return Put(key=key, value=b"%d" % value)
    if kind is Add:
        return Add(key=key, amount=dice.randint(1, 9), negative=dice.random() < 0.5)
    return Get(key=key) if kind is Get else Delete(key=key)
