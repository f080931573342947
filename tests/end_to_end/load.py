"""Clients in every region at once, each asking one thing after another."""

import random
from collections.abc import Iterable
from typing import Self

from epoxy import Client
from epoxy.cli.demo.cluster import DemoCluster
from epoxy.cli.demo.region import RegionNode
from epoxy_sim.history import Delete, Failed, Found, Kind, Outcome, Put, Read, Reserve
from tests.end_to_end.crowd import Crowd
from tests.end_to_end.recorder import Recorder

TIMEOUT_S = 3.0
"""A client that waits no longer than this for a region that is paused or cut off meets some faults in a short test, and
one of a region that is only slow is answered."""

WAN_TIMEOUT_S = 5.0
"""Where a quarter of a second is one round trip, some take a few of them."""

RETRY_S = 0.05
"""Before a client knocks again at a door that is shut."""

HOT = [b"hot/%d" % i for i in range(4)]
"""Few enough that all regions are always at the same ones."""

MAX_STEPS = 5_000
"""Of one client: a history that the judge reads in a second or two."""


class Load(Crowd):
    """While it is entered, every region has `clients`, each with a region of its own and no other."""

    def __init__(self, recorder: Recorder, cluster: DemoCluster, *, clients: int = 2, seed: int = 1) -> None:
        super().__init__()
        self._recorder = recorder
        self._timeout_s = WAN_TIMEOUT_S if cluster.plan.wan else TIMEOUT_S
        self._hired = [
            (node, random.Random(f"{seed}/{node.datacenter}/{i}")) for node in cluster.nodes for i in range(clients)
        ]

    def __enter__(self) -> Self:
        for node, dice in self._hired:
            self._begin(self._work, node, dice)
        return self

    def more(self, count: int, nodes: Iterable[RegionNode]) -> None:
        """Until each of these regions has answered `count` more requests."""
        self._recorder.more(count, [node.datacenter for node in nodes])

    def tries(self, count: int) -> None:
        """Until `count` more requests came to an end, whatever end."""
        goal = len(self._recorder.history) + count
        self._recorder.wait_for(lambda: len(self._recorder.history) >= goal, f"{count} more requests")

    def _work(self, node: RegionNode, dice: random.Random) -> None:
        known: dict[bytes, int] = {}
        with Client(node.url, timeout=self._timeout_s) as client:
            for step in range(MAX_STEPS):
                if self._over.is_set():
                    return
                key, kind = draw(dice, step, node.datacenter, known)
                outcome = self._recorder.run(node.datacenter, client, key, kind)
                remember(known, key, outcome)
                if isinstance(outcome, Failed):
                    self._over.wait(RETRY_S)


def draw(dice: random.Random, step: int, who: str, known: dict[bytes, int]) -> tuple[bytes, Kind]:
    """Every value is written once, so that a read tells whose it saw."""
    value = b"%s/%d/%d" % (who.encode(), step, dice.getrandbits(32))
    hot = dice.choice(HOT)
    match dice.randrange(10):
        case 0 | 1 | 2:
            return b"name/%d" % (step // 3), Reserve(value=value)
        case 3 | 4:
            return hot, Put(value=value)
        case 5:
            return hot, Put(value=value, if_version=known.get(hot, 0))
        case 6:
            return hot, Delete()
        case 7 | 8:
            return hot, Read()
        case _:
            return hot, Read(linearizable=False)


def remember(known: dict[bytes, int], key: bytes, outcome: Outcome) -> None:
    if isinstance(outcome, Found):
        known[key] = outcome.version
