"""Counters that are handed over to transactions while processes are killed: `make bank`. Not part of `make test`.

Every region counts new keys all the time, alone and in MULTI of two keys, so that hand-overs are under way at each
kill. What was answered is counted, and nothing is counted twice; each addition has a version of its own."""

import os
import random
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import pytest
import redis

from epoxy.testing import ClusterNode
from tests.end_to_end.bank import ONCE, RETRY_S, TIMEOUT_S
from tests.end_to_end.crowd import Crowd
from tests.end_to_end.recorder import PATIENCE_S
from tests.end_to_end.world import in_touch, order, others, regions, until

KILLS = int(os.environ.get("KILLS", "10"))
STEPS = 30
"""Answers at each region between two faults."""

KEYS, USES = 6, 60
"""Keys at a time, and additions after which they are left for new ones."""


class Counting(Crowd):
    """`told`: additions that were answered, by key; `tried`: that were asked for."""

    def __init__(self, nodes: Iterable[ClusterNode], seed: int) -> None:
        super().__init__()
        self.done: Counter[str] = Counter()
        self.told: Counter[str] = Counter()
        self.tried: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        """By the first words of replies; "gone": there was none."""
        self._lock = threading.Lock()
        self._nodes = list(nodes)
        self._seed = seed

    def __enter__(self) -> Self:
        for node in self._nodes:
            for i, keys in enumerate((1, 2)):
                dice = random.Random(f"{self._seed}/{node.datacenter}/{i}")
                self._begin(self._count, node, dice, keys)
        return self

    def more(self, count: int, nodes: Iterable[ClusterNode]) -> None:
        goals = {node.datacenter: self.done[node.datacenter] + count for node in nodes}
        until(lambda: all(self.done[name] >= goal for name, goal in goals.items()), f"{count} more answers")

    def _count(self, node: ClusterNode, dice: random.Random, keys: int) -> None:
        """One key alone, or two in a transaction."""
        door = redis.Redis("127.0.0.1", node.resp_port, socket_timeout=TIMEOUT_S, retry=ONCE)
        while not self._over.is_set():
            age = sum(self.done.values()) // USES
            chosen = [f"count/{age}/{i}" for i in dice.sample(range(KEYS), k=keys)]
            with self._lock:
                self.tried.update(chosen)
            try:
                pipe = door.pipeline(transaction=keys > 1)
                for key in chosen:
                    pipe.incr(key)
                pipe.execute()
            except redis.RedisError as error:
                with self._lock:
                    self.errors[str(error).split(" ")[0] if isinstance(error, redis.ResponseError) else "gone"] += 1
                door.connection_pool.disconnect()
                self._over.wait(RETRY_S)
            else:
                with self._lock:
                    self.told.update(chosen)
                    self.done[node.datacenter] += 1
        door.close()


def wrong_at(node: ClusterNode, counting: Counting) -> list[str]:
    found = []
    with redis.Redis("127.0.0.1", node.resp_port, socket_timeout=PATIENCE_S, decode_responses=True) as door:
        door.execute_command("READCONSISTENT")
        for key in sorted(counting.tried):
            value, told, tried = int(door.get(key) or 0), counting.told[key], counting.tried[key]
            version = door.execute_command("EPOXY.VERSION", key)
            if not told <= value <= tried:
                found.append(f"{key} is {value} where {told} to {tried} may be")
            if value and int(version) != value:
                found.append(f"{key} is {value} at version {version}")
    return found


@pytest.mark.parametrize("wan", [False, True], ids=["near", "wan"])
def test_kills_while_keys_are_handed_over(tmp_path: Path, wan: bool) -> None:
    dice = random.Random(3)
    with regions(tmp_path, 3, wan=wan) as cluster:
        with Counting(cluster.nodes, seed=3) as counting:
            for _ in range(KILLS):
                name = dice.choice(cluster.plan.names)
                counting.more(STEPS, cluster.nodes)
                order(cluster, "kill", name)
                counting.more(STEPS, others(cluster, name))
                order(cluster, "revive", name)
                in_touch(cluster)
        wrong = [each for node in cluster.nodes for each in wrong_at(node, counting)]
        told, tried = sum(counting.told.values()), sum(counting.tried.values())
        print(f"{told} of {tried} additions, {len(counting.tried)} keys, {dict(counting.errors)}")
    assert wrong == []
    assert "WRONGENGINE" not in counting.errors
