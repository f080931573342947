"""Counters over the Redis protocol, and accounts that transactions move amounts between: what is applied twice, lost or
applied in part shows in their sums."""

import itertools
import random
import threading
from collections.abc import Callable, Sequence

import redis
from msgspec import Struct
from redis.backoff import NoBackoff
from redis.retry import Retry

from epoxy import Client, EpoxyError
from epoxy.model.transactions import Add
from epoxy.testing.process_cluster import ClusterNode
from tests.end_to_end.crowd import Crowd
from tests.end_to_end.recorder import PATIENCE_S

COUNTERS = 6
ACCOUNTS = [b"account/%d" % i for i in range(6)]
TIMEOUT_S = 5.0
RETRY_S = 0.05
PACE_S = 0.02
"""Between two requests of one client: the machine has other work."""

DEFINITE = ("UNAVAILABLE", "BUSY")
"""Words of replies that say that nothing was done."""


class Increment(Struct, frozen=True):
    """One INCR: its reply, and when it began and ended by a counter that all share."""

    key: str
    began: int
    ended: int
    reply: int


class Sums(Crowd):
    """While it is entered, each node has clients that count, and one that moves amounts."""

    def __init__(self, nodes: Sequence[ClusterNode], seed: int, *, clients: int = 1) -> None:
        super().__init__()
        self._nodes = nodes
        self._seed = seed
        self._clients = clients
        self._ticks, self._lock = itertools.count(1), threading.Lock()
        self.counted: list[Increment] = []
        self.unknown: dict[str, int] = {}
        self.moves = self.unknown_moves = self.refused = self.totals = 0
        self.findings: list[str] = []

    def __enter__(self) -> "Sums":
        for node in self._nodes:
            for number in range(self._clients):
                self._begin(self._count, node, random.Random(f"count/{self._seed}/{node.name}/{number}"))
            self._begin(self._move, node, random.Random(f"move/{self._seed}/{node.name}"))
        return self

    def _count(self, node: ClusterNode, dice: random.Random) -> None:
        never = Retry(NoBackoff(), 0)  # by itself the library sends an INCR again that got no reply
        client = redis.Redis(port=node.resp_port, socket_timeout=TIMEOUT_S, retry=never)
        while not self._over.wait(PACE_S):
            key = f"counter/{dice.randrange(COUNTERS)}"
            began = next(self._ticks)
            try:
                reply = int(client.incr(key))
            except redis.RedisError as error:
                self._note_failure(key, error)
                self._over.wait(RETRY_S)
            else:
                with self._lock:
                    self.counted.append(Increment(key, began, next(self._ticks), reply))
        client.close()

    def _note_failure(self, key: str, error: redis.RedisError) -> None:
        """A connection that could not be made has carried nothing; anything else without a definite reply may."""
        words = str(error)
        with self._lock:
            if words.startswith(DEFINITE) or "Error 111" in words:
                self.refused += 1
            else:
                self.unknown[key] = self.unknown.get(key, 0) + 1

    def _move(self, node: ClusterNode, dice: random.Random) -> None:
        with Client(node.url, timeout=TIMEOUT_S) as client:
            while not self._over.wait(PACE_S):
                one, other = dice.sample(ACCOUNTS, 2)
                amount = dice.randrange(1, 100)
                try:
                    if dice.random() < 0.3:
                        self._check_total(client)
                    else:
                        client.txn(then=[Add(key=one, amount=-amount), Add(key=other, amount=amount)])
                        self.moves += 1
                except EpoxyError as error:
                    if error.definite:
                        self.refused += 1
                    else:
                        self.unknown_moves += 1
                    self._over.wait(RETRY_S)

    def _check_total(self, client: Client) -> None:
        found = client.txn(reads=ACCOUNTS).reads
        total = sum(int(value or b"0") for value in found)
        self.totals += 1
        if total:
            self.findings.append(f"the accounts hold {total} in all, and not 0: {found}")

    def judge(self, read: Callable[[str], int], client: Client) -> list[str]:
        """What is wrong, with the counters as they are now."""
        self._check_total(client)
        for number in range(COUNTERS):
            key = f"counter/{number}"
            of_key = sorted((each for each in self.counted if each.key == key), key=lambda each: each.reply)
            self.findings += judge_counter(key, of_key, self.unknown.get(key, 0), read(key))
        return self.findings


def judge_counter(key: str, counted: Sequence[Increment], unknown: int, last: int) -> list[str]:
    """`counted`: by their replies. Every reply is given once, later calls get larger ones, and the sum has every
    acknowledged one, and of the unknown ones some."""
    found = [f"{key}: {a} and {b} have one reply" for a, b in itertools.pairwise(counted) if a.reply == b.reply]
    latest = 0
    for each in counted:
        if each.ended < latest:
            found.append(f"{key}: {each} ended before one with a smaller reply began")
        latest = max(latest, each.began)
    if not len(counted) <= last <= len(counted) + unknown:
        found.append(f"{key} is {last}, with {len(counted)} acknowledged and {unknown} unknown")
    return found


def read_counter(node: ClusterNode) -> Callable[[str], int]:
    client = Client(node.url, timeout=PATIENCE_S)
    return lambda key: int(client.get(key, read="linearizable") or b"0")
