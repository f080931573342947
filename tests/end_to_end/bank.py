"""A bank: transfers from every region at once, half of them over HTTP and half as Redis transactions, while auditors
add everything up. Money moves, and none is made or lost."""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterable
from types import TracebackType
from typing import Self

import redis

from epoxy import Add, Client, Put
from epoxy.cli.demo.cluster import DemoCluster
from epoxy.cli.demo.region import RegionNode
from epoxy.model.errors import EpoxyError
from tests.end_to_end.recorder import PATIENCE_S
from tests.end_to_end.world import until

ACCOUNTS = [f"acct/{i}" for i in range(8)]
DEPOSIT = 100
TOTAL = DEPOSIT * len(ACCOUNTS)

TIMEOUT_S = 10.0
"""What is under way when a region is killed is decided long before, unless the machine is very busy."""

RETRY_S = 0.05


class Bank:
    """While it is entered, every region has two tellers and an auditor. `done` counts what each region answered;
    `wrong` has every total that was not right."""

    def __init__(self, cluster: DemoCluster, seed: int = 1) -> None:
        self.done: Counter[str] = Counter()
        self.wrong: list[str] = []
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=work, args=(node, random.Random(f"{seed}/{node.datacenter}/{i}")), daemon=True)
            for node in cluster.nodes
            for i, work in enumerate((self._by_http, self._by_redis, self._audit))
        ]

    def open_accounts(self, node: RegionNode) -> None:
        with Client(node.url, timeout=PATIENCE_S) as client:
            client.txn(then=[Put(key=key.encode(), value=b"%d" % DEPOSIT) for key in ACCOUNTS])

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def more(self, count: int, nodes: Iterable[RegionNode]) -> None:
        """Until each of these regions has answered `count` more."""
        goals = {node.datacenter: self.done[node.datacenter] + count for node in nodes}
        until(
            lambda: all(self.done[name] >= goal for name, goal in goals.items()),
            f"{count} more answers at {list(goals)}",
        )

    def _by_http(self, node: RegionNode, dice: random.Random) -> None:
        with Client(node.url, timeout=TIMEOUT_S) as client:
            while not self._over.is_set():
                giver, taker = (name.encode() for name in dice.sample(ACCOUNTS, k=2))
                amount = dice.randint(1, 9)
                try:
                    client.txn(then=[Add(key=giver, amount=amount, negative=True), Add(key=taker, amount=amount)])
                except EpoxyError:
                    self._over.wait(RETRY_S)
                else:
                    self.done[node.datacenter] += 1

    def _by_redis(self, node: RegionNode, dice: random.Random) -> None:
        address = node.url.removeprefix("http://").split(":")
        door = redis.Redis(address[0], int(address[1]) + 1, socket_timeout=TIMEOUT_S)
        while not self._over.is_set():
            giver, taker = dice.sample(ACCOUNTS, k=2)
            amount = dice.randint(1, 9)
            try:
                pipe = door.pipeline(transaction=True)
                pipe.decrby(giver, amount)
                pipe.incrby(taker, amount)
                pipe.execute()
            except redis.RedisError:
                door.connection_pool.disconnect()
                self._over.wait(RETRY_S)
            else:
                self.done[node.datacenter] += 1
        door.close()

    def _audit(self, node: RegionNode, _: random.Random) -> None:
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


def balances(node: RegionNode) -> tuple[bytes | None, ...]:
    with Client(node.url, timeout=PATIENCE_S) as client:
        return client.txn(reads=ACCOUNTS).reads


def total_of(found: tuple[bytes | None, ...]) -> int:
    return sum(int(value or b"0") for value in found)
