"""Clients at every node of datacenters, each asking one thing after another of the node it is at."""

import random
import time
from collections.abc import Iterable, Sequence
from typing import Self

from epoxy import Client
from epoxy.testing.process_cluster import ClusterNode
from epoxy_sim.history import Add, Delete, Failed, Kind, Outcome, Put, Read, Reserve, Unknown
from tests.end_to_end.crowd import Crowd
from tests.end_to_end.load import remember
from tests.end_to_end.recorder import Recorder

TIMEOUT_S = 5.0
"""Longer than a request waits for the owner of its key."""

RETRY_S = 0.05
"""Before a client knocks again at a door that is shut."""

HOT = 16
"""Keys that all clients are at: enough that every node owns some, few enough that they meet."""

ERA = 100
"""Steps of a client until it goes on to other hot keys: a judge reads short histories, and keys that were not read
before are loaded from the database."""

MAX_STEPS = 200_000
"""Of one client: more than it makes in the ten minutes of a campaign, so that no fault strikes without load. With the
former 20,000 one datacenter was without any after two minutes."""


class DatacenterLoad(Crowd):
    """While it is entered, every node has `clients`. They know this node, and `others` after it."""

    def __init__(
        self,
        recorder: Recorder,
        nodes: Sequence[ClusterNode],
        *,
        clients: int = 2,
        seed: int = 1,
        others: Sequence[str] = (),
        prefix: str = "",
    ) -> None:
        super().__init__()
        self._recorder = recorder
        self._others = others
        self._prefix = prefix.encode()
        self._hired = [(node, random.Random(f"{seed}/{node.name}/{i}")) for node in nodes for i in range(clients)]
        self.failures: list[Outcome] = []
        """Of all clients: what was refused, or is unknown."""
        self.slowest_s = 0.0

    def __enter__(self) -> Self:
        for node, dice in self._hired:
            self._begin(self._work, node, dice)
        return self

    def more(self, count: int, nodes: Iterable[ClusterNode]) -> None:
        """Until each of these nodes has answered `count` more requests."""
        self._recorder.more(count, [node.name for node in nodes])

    def _work(self, node: ClusterNode, dice: random.Random) -> None:
        known: dict[bytes, int] = {}
        with Client([node.url, *self._others], timeout=TIMEOUT_S) as client:
            for step in range(MAX_STEPS):
                if self._over.is_set():
                    return
                key, kind = draw(dice, step, node.name, known, self._prefix)
                began_s = time.monotonic()
                outcome = self._recorder.run(node.name, client, key, kind)
                self.slowest_s = max(self.slowest_s, time.monotonic() - began_s)
                remember(known, key, outcome)
                if isinstance(outcome, Failed | Unknown):
                    self.failures.append(outcome)
                    self._over.wait(RETRY_S)


def draw(dice: random.Random, step: int, who: str, known: dict[bytes, int], prefix: bytes) -> tuple[bytes, Kind]:
    """Every value is written once, so that a read tells whose it saw."""
    value = b"%s/%d/%d" % (who.encode(), step, dice.getrandbits(32))
    era = b"%s%d/" % (prefix, step // ERA)
    hot = era + b"hot/%d" % dice.randrange(HOT)
    match dice.randrange(12):
        case 0 | 1:
            return era + b"name/%d" % (step % ERA // 3), Reserve(value=value)
        case 2 | 3:
            return hot, Put(value=value)
        case 4:
            return hot, Put(value=value, if_version=known.get(hot, 0))
        case 5:
            return hot, Delete()
        case 6 | 7:
            return era + b"count/%d" % dice.randrange(HOT), Add(amount=1)
        case 8 | 9 | 10:
            return hot, Read()
        case _:
            return hot, Read(linearizable=False)
