"""A bank: transfers from every region at once, half of them over HTTP and half as Redis transactions, while auditors
add everything up. Money moves, and none is made or lost; and every teller counts its transfers where they are made."""

import random
import time
from collections import Counter
from collections.abc import Iterable
from typing import Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from epoxy import Add, Client, Put
from epoxy.model.errors import EpoxyError
from epoxy.testing import ClusterNode
from tests.end_to_end.crowd import Crowd
from tests.end_to_end.recorder import PATIENCE_S
from tests.end_to_end.world import until

ACCOUNTS = [f"acct/{i}" for i in range(8)]
DEPOSIT = 100
TOTAL = DEPOSIT * len(ACCOUNTS)

TIMEOUT_S = 10.0
"""What is under way when a region is killed is decided long before, unless the machine is very busy."""

RETRY_S = 0.05

ONCE = Retry(NoBackoff(), 0)
"""No retries: a teller counts its requests, and redis-py would repeat them by default."""


class Bank(Crowd):
    """Once it is entered, every region has two tellers and an auditor. `done` counts what each region answered, `told`
    what each teller was, and `tried` what it asked for; `wrong` has every total that was not right."""

    def __init__(self, nodes: Iterable[ClusterNode], seed: int = 1) -> None:
        super().__init__()
        self.done: Counter[str] = Counter()
        self.told: Counter[str] = Counter()
        self.tried: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._nodes = list(nodes)
        self._seed = seed

    def open_accounts(self, node: ClusterNode) -> None:
        with Client(node.url, timeout=PATIENCE_S) as client:
            client.txn(then=[Put(key=key.encode(), value=b"%d" % DEPOSIT) for key in ACCOUNTS])

    def hire(self, node: ClusterNode) -> None:
        """For a region that is new."""
        for i, work in enumerate((self._by_http, self._by_redis, self._audit)):
            dice = random.Random(f"{self._seed}/{node.datacenter}/{i}")
            self._begin(work, node, dice)

    def __enter__(self) -> Self:
        for node in self._nodes:
            self.hire(node)
        return self

    def more(self, count: int, nodes: Iterable[ClusterNode]) -> None:
        """Until each of these regions has answered `count` more."""
        goals = {node.datacenter: self.done[node.datacenter] + count for node in nodes}
        until(
            lambda: all(self.done[name] >= goal for name, goal in goals.items()),
            f"{count} more answers at {list(goals)}",
        )

    def _by_http(self, node: ClusterNode, dice: random.Random) -> None:
        teller = f"count/{node.datacenter}/http"
        with Client(node.url, timeout=TIMEOUT_S) as client:
            while not self._over.is_set():
                giver, taker = (name.encode() for name in dice.sample(ACCOUNTS, k=2))
                amount = dice.randint(1, 9)
                moved = [Add(key=giver, amount=amount, negative=True), Add(key=taker, amount=amount)]
                self.tried[teller] += 1
                try:
                    client.txn(then=[*moved, Add(key=teller.encode(), amount=1)])
                except EpoxyError:
                    self._over.wait(RETRY_S)
                else:
                    self._answered(node, teller)

    def _by_redis(self, node: ClusterNode, dice: random.Random) -> None:
        teller = f"count/{node.datacenter}/redis"
        door = redis.Redis("127.0.0.1", node.resp_port, socket_timeout=TIMEOUT_S, retry=ONCE)
        while not self._over.is_set():
            giver, taker = dice.sample(ACCOUNTS, k=2)
            amount = dice.randint(1, 9)
            self.tried[teller] += 1
            try:
                pipe = door.pipeline(transaction=True)
                pipe.decrby(giver, amount)
                pipe.incrby(taker, amount)
                pipe.incr(teller)
                pipe.execute()
            except redis.RedisError:
                door.connection_pool.disconnect()
                self._over.wait(RETRY_S)
            else:
                self._answered(node, teller)
        door.close()

    def _answered(self, node: ClusterNode, teller: str) -> None:
        self.told[teller] += 1
        self.done[node.datacenter] += 1

    def _audit(self, node: ClusterNode, _: random.Random) -> None:
        with Client(node.url, timeout=TIMEOUT_S) as client:
            while not self._over.is_set():
                try:
                    found = client.txn(reads=ACCOUNTS).reads
                except EpoxyError:
                    self._over.wait(RETRY_S)
                    continue
                self._add_up(node.datacenter, found)

    def _add_up(self, who: str, found: tuple[bytes | None, ...]) -> None:
        total = sum(int(value or b"0") for value in found)
        if total != TOTAL:
            self.wrong.append(f"{who} saw {total} at {time.monotonic()}: {found}")


def miscounted(bank: Bank, node: ClusterNode) -> list[str]:
    """Tellers whose count is not between what they were told and what they tried: each transfer that was answered has
    happened, and none has happened twice."""
    tellers = sorted(bank.tried)
    with Client(node.url, timeout=PATIENCE_S) as client:
        found = client.txn(reads=[teller.encode() for teller in tellers]).reads
    counts = {teller: int(value or b"0") for teller, value in zip(tellers, found, strict=True)}
    return [
        f"{teller}: {count} where {bank.told[teller]} to {bank.tried[teller]} may be"
        for teller, count in counts.items()
        if not bank.told[teller] <= count <= bank.tried[teller]
    ]


def balances(node: ClusterNode) -> tuple[bytes | None, ...]:
    with Client(node.url, timeout=PATIENCE_S) as client:
        return client.txn(reads=ACCOUNTS).reads


def total_of(found: tuple[bytes | None, ...]) -> int:
    return sum(int(value or b"0") for value in found)
