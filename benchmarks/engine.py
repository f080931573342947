"""What the engine itself costs, without sockets and disks: `python -m benchmarks.engine [--json]`.

One process, one core. Each figure is the median of several rounds; the spread is the lowest and the highest. A commit
through three replicas is the whole of their work together: codec, transactions and rules of all three.
"""

import argparse
import json
import platform
import statistics
import subprocess
import time
from collections import deque
from collections.abc import Callable, Sequence
from random import Random

from epoxy.codec import wire
from epoxy.codec.plain_requests import read_peer_request
from epoxy.model.ballot import fast_ballot
from epoxy.model.cluster import first_epoch
from epoxy.model.messages import Accept, Reply, Request
from epoxy.model.records import FRESH, Proposal, ProposalId
from epoxy.model.writes import Consistency, Outcome, ReadOutcome, Write
from epoxy.node.keys.driver import Driver
from epoxy.node.keys.replica import Replica
from epoxy.protocol.effects import Timing
from epoxy.protocol.keys import acceptor
from epoxy.store.memory import MemoryStore
from epoxy_sim.keys.generate import generate
from epoxy_sim.keys.simulation import run

ROUNDS = 5
VALUE = b"eu-west-1"


class NoTimer:
    def cancel(self) -> None:
        pass


class Cluster:
    """Replicas in one process. Messages travel as bytes through a queue; nothing is ever late or lost."""

    def __init__(self, n: int) -> None:
        self.mail: deque[Callable[[], None]] = deque()
        config = first_epoch(tuple(range(1, n + 1)))
        self.replicas = {i: Replica(i, MemoryStore(), config, self._alarm) for i in config.active}
        self.drivers = {i: Driver(self.replicas[i], self, self, self, Timing(), self._alarm) for i in config.active}
        for driver in self.drivers.values():
            driver.encode_writes(self.send_encoded, lambda: True)
        self._dice = Random(1)

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        self.send_encoded(to, wire.encode_requests(requests), len(requests), answered)

    def send_encoded(self, to: int, requests: bytes, count: int, answered: Callable[[Reply], None] | None) -> None:
        """A frame for each. Of a link, one has many."""
        frame = wire.join_peer_request(0, to, count, [requests])

        def answer(reply: Reply) -> None:
            reply_bytes = wire.encode_reply(reply)
            if answered is not None:
                self.mail.append(lambda: answered(wire.decode_reply(reply_bytes)))

        self.mail.append(lambda: self.replicas[to].handle(read_peer_request(frame)[2], answer))

    def settle(self) -> None:
        while self.mail:
            self.mail.popleft()()

    def now_ms(self) -> float:
        return 0.0

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> NoTimer:  # noqa: ARG002 (the port's signature)
        """Timers never ring here: nothing is late."""
        return NoTimer()

    def uniform(self) -> float:
        return self._dice.random()

    def nonce(self) -> int:
        return self._dice.getrandbits(64)

    def _alarm(self, text: str) -> None:
        raise AssertionError(text)


def ignore(_: Outcome | ReadOutcome) -> None:
    pass


def commits(n: int, *, mutable: bool, key: Callable[[int], bytes]) -> Callable[[int], None]:
    cluster = Cluster(n)

    def work(count: int) -> None:
        for i in range(count):
            write = Write(key=key(i), value=VALUE, mutable=mutable)
            cluster.drivers[1 + i % n].write(write, ignore)
            cluster.settle()

    return work


def local_reads(count: int) -> None:
    cluster = Cluster(3)
    cluster.drivers[1].write(Write(key=b"name", value=VALUE), ignore)
    cluster.settle()
    for _ in range(count):
        cluster.drivers[1].read(b"name", Consistency.OPTIMISTIC, ignore)


def accept_votes(count: int) -> None:
    proposal = Proposal(value=VALUE, version=1, mutable=False, proposal_id=ProposalId(1, 7))
    message = Accept(key=b"user/ada", epoch=1, ballot=fast_ballot(1), proposal=proposal)
    config = first_epoch((1, 2, 3))
    for _ in range(count):
        acceptor.step(FRESH, message, config)


def accept_codec(count: int) -> None:
    proposal = Proposal(value=VALUE, version=1, mutable=False, proposal_id=ProposalId(1, 7))
    message = Accept(key=b"user/ada", epoch=1, ballot=fast_ballot(1), proposal=proposal)
    for _ in range(count):
        wire.decode_request(wire.encode_request(message))


def simulated_seeds(count: int) -> None:
    for seed in range(count):
        assert run(generate(seed, "per-key")).failure is None


def fresh(prefix: str) -> Callable[[int], bytes]:
    """Unused keys, across rounds too."""
    serial = iter(range(1 << 62))
    return lambda _: b"%s/%d" % (prefix.encode(), next(serial))


WORK: tuple[tuple[str, int, Callable[[int], None]], ...] = (
    ("acceptor: one fast vote", 20_000, accept_votes),
    ("codec: one Accept there and back", 20_000, accept_codec),
    ("commit of a fresh key, 1 replica", 2_000, commits(1, mutable=False, key=fresh("one"))),
    ("commit of a fresh key, 3 replicas", 1_000, commits(3, mutable=False, key=fresh("three"))),
    ("commit of a fresh key, 5 replicas", 500, commits(5, mutable=False, key=fresh("five"))),
    ("overwrite of one key, 3 replicas", 1_000, commits(3, mutable=True, key=lambda _: b"hot")),
    ("local read of a committed key", 10_000, local_reads),
    ("one simulated seed of per-key", 60, simulated_seeds),
)


def measure(count: int, work: Callable[[int], None]) -> list[float]:
    """Microseconds for each, in every round."""
    figures = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        work(count)
        figures.append((time.process_time() - begin) / count * 1e6)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    as_json = parser.parse_args().json
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    rows = [(name, measure(count, work)) for name, count, work in WORK]
    if as_json:
        print(json.dumps({"commit": commit.stdout.strip(), "python": platform.python_version(), "cpu_us": dict(rows)}))
        return
    print(f"CPU microseconds for each, median of {ROUNDS} rounds (lowest to highest)")
    print(f"commit {commit.stdout.strip() or 'unknown'}, Python {platform.python_version()}, {platform.machine()}")
    for name, figures in rows:
        print(f"  {name:36} {statistics.median(figures):9.1f}  ({min(figures):.1f} to {max(figures):.1f})")


if __name__ == "__main__":
    main()
