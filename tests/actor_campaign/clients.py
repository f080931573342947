"""Clients that change and read actors through random regions, and write down what they were told."""

import random
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack

import msgspec

from epoxy import Client, EpoxyError
from epoxy.client.actor_calls import Which
from epoxy.testing import ClusterNode
from tests.actor_campaign.counters import LOG, NAME, POOL
from tests.actor_campaign.history import Attempt, Line, Told
from tests.end_to_end.crowd import Crowd

TIMEOUT_S = 8.0
"""For one attempt. The next goes to another region, with the same idempotency key."""

PATIENCE_S = 120.0
"""For one change, from its first attempt to its answer: several faults one after the other."""

RETRY_S = 0.1
READS = 0.2
"""Of requests that read."""


class Clients(Crowd):
    """`rate`: changes in a second that all of them try together. `keyless`: a planted fault, they ask again without
    idempotency keys."""

    def __init__(
        self, nodes: Sequence[ClusterNode], *, count: int, actors: int, rate: float, seed: int, keyless: bool
    ) -> None:
        super().__init__()
        self.attempts: list[Attempt] = []
        """Appended to by all threads: an append is atomic."""
        self.given_up = 0
        self.names = [f"{i}" for i in range(actors)]
        self._acknowledged = 0
        self._lock = threading.Lock()
        self._nodes = nodes
        self._keyless = keyless
        self._pause_s = count / rate
        for number in range(count):
            self._begin(self._work, number, random.Random(f"{seed}/{number}"))

    @property
    def acknowledged(self) -> int:
        return self._acknowledged

    def _work(self, number: int, dice: random.Random) -> None:
        with ExitStack() as stack:
            clients = [stack.enter_context(Client(node.url, timeout=TIMEOUT_S)) for node in self._nodes]
            changes = 0
            while not self._over.wait(dice.uniform(0, 2 * self._pause_s)):
                actor = dice.choice(self.names)
                if dice.random() < READS:
                    self._ask(dice.choice(clients), actor, "")
                    continue
                changes += 1
                self._change(clients, actor, f"{number}.{changes}", dice)

    def _change(self, clients: Sequence[Client], actor: str, change: str, dice: random.Random) -> None:
        """Until it is acknowledged."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._ask(dice.choice(clients), actor, change):
            if time.monotonic() > deadline or self._over.is_set():
                with self._lock:
                    self.given_up += 1
                return
            time.sleep(dice.uniform(0, 2 * RETRY_S))
        with self._lock:
            self._acknowledged += 1

    def _ask(self, client: Client, actor: str, change: str) -> bool:
        which, key = Which(name=NAME, key=actor), "" if self._keyless else change
        began_s = time.monotonic()
        told, definite = None, False
        try:
            answer = client.actors.request(which, change.encode(), pool=POOL, idempotency_key=key)
            told = msgspec.json.decode(answer, type=Told)
        except EpoxyError as error:
            definite = error.definite
        ended_s = time.monotonic()
        self.attempts.append(
            Attempt(actor=actor, change=change, began_s=began_s, ended_s=ended_s, told=told, definite=definite)
        )
        return told is not None


def log_at(node: ClusterNode, actor: str) -> list[Line]:
    """The whole log, by a request through this region."""
    deadline = time.monotonic() + PATIENCE_S
    with Client(node.url, timeout=TIMEOUT_S) as client:
        while True:
            try:
                answer = client.actors.request(Which(name=NAME, key=actor), LOG, pool=POOL)
                return msgspec.json.decode(answer, type=list[Line])
            except EpoxyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(RETRY_S)
