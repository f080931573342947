"""Transactions between five regions in virtual time: production's engine, the round trips between AWS regions, a disk
that takes a millisecond, and a machine that is never busy. `python -m benchmarks.txn_model`.

What is measured here is the protocol: how far messages have to go, and who waits for whom.
"""

from collections.abc import Callable, Sequence
from random import Random
from statistics import median

from benchmarks.stats import percentile
from epoxy.model.cluster import first_epoch
from epoxy.model.messages import Reply, Request
from epoxy.model.transactions import Add, Txn
from epoxy.model.writes import Path
from epoxy.node.keys.replica import Replica
from epoxy.node.txn.engine import OrderedEngine
from epoxy.protocol.txn.effects import TxnTiming
from epoxy.store.memory import MemoryStore
from epoxy.transport.wan.aws import floor_ms, rtt_ms
from epoxy_sim.world import Event, World

REGIONS = ("us-east-1", "us-west-2", "eu-west-1", "ap-northeast-1", "sa-east-1")
SYNC_MS = 1.0
VIRTUAL_S = 60
TIMING = TxnTiming(hedge_ms=500.0, round_timeout_ms=800.0, recover_ms=800.0)


class Model:
    def __init__(self) -> None:
        self.world = World()
        self.dice = Random(1)
        self.config = first_epoch(tuple(range(1, len(REGIONS) + 1)))
        self.nodes = {i: Node(self, i) for i in self.config.voters}

    def one_way_us(self, a: int, b: int) -> int:
        return int(rtt_ms(REGIONS[a - 1], REGIONS[b - 1]) * 500)

    def play(self, asks: Callable[[int, int, Random], bytes], clients: int) -> list[list[float]]:
        """`clients` in every region, each with one transaction at a time; how long each took, in milliseconds."""
        took: list[list[float]] = [[] for _ in REGIONS]
        end_us = self.world.now_us + VIRTUAL_S * 1_000_000

        def ask(region: int, client: int) -> None:
            began_us = self.world.now_us

            def answered(_: object) -> None:
                took[region].append((self.world.now_us - began_us) / 1000)
                if self.world.now_us < end_us:
                    self.world.after(0, lambda: ask(region, client))

            txn = Txn(then=(Add(key=asks(region, client, self.dice), amount=1),))
            self.nodes[region + 1].engine.txn(txn, answered)

        for region in range(len(REGIONS)):
            for client in range(clients):
                self.world.after(self.dice.randrange(300_000), lambda r=region, c=client: ask(r, c))  # type: ignore[misc]
        self.world.run_until(lambda: self.world.now_us >= end_us + 5_000_000, end_us + 6_000_000)
        return took

    def fast_share(self) -> float:
        fast = sum(node.engine.paths[Path.FAST] for node in self.nodes.values())
        return fast / sum(node.engine.paths.total() for node in self.nodes.values())


class Node:
    def __init__(self, model: Model, me: int) -> None:
        self._model = model
        self.me = me
        store = MemoryStore(lambda done: void(model.world.after(int(SYNC_MS * 1000), done)))
        self.replica = Replica(me, store, model.config, alarm)
        self.engine = OrderedEngine(me, store, model.config, self, self, self, alarm)
        self.engine.timing = TIMING
        self.replica.ordered = self.engine.handle
        self.engine.start()

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        world, way_us = self._model.world, self._model.one_way_us(self.me, to)

        def answer(reply: Reply) -> None:
            if answered is not None:
                world.after(way_us, lambda: answered(reply))

        world.after(way_us, lambda: self._model.nodes[to].replica.handle(requests, answer))

    def now_ms(self) -> float:
        return self._model.world.now_us / 1000

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> Event:
        return self._model.world.after(int(delay_ms * 1000), then)

    def uniform(self) -> float:
        return self._model.dice.random()

    def nonce(self) -> int:
        return self._model.dice.getrandbits(64)


def void(_: object) -> None:
    return None


def alarm(text: str) -> None:
    raise AssertionError(text)


def tell(title: str, model: Model, took: list[list[float]]) -> None:
    print(f"{title}; fast share {model.fast_share():.1%}")
    for region, each in zip(REGIONS, took, strict=True):
        each.sort()
        p50, p99, floor = median(each), percentile(each, 0.99), floor_ms(region, REGIONS)
        print(
            f"  {region:15} floor {floor:6.1f}  p50 {p50:6.1f}  p99 {p99:6.1f}  longest {each[-1]:6.1f}"
            f"  p50 over the floor {p50 - floor:6.1f} ms  {len(each)} transactions"
        )


def main() -> None:
    calm = Model()
    alone = calm.play(lambda region, client, _: b"own/%d/%d" % (region, client), 4)
    tell("no contention", calm, alone)
    some = Model()
    few = some.play(
        lambda region, client, dice: b"shared" if dice.random() < 0.02 else b"own/%d/%d" % (region, client), 4
    )
    tell("2 % on one shared key", some, few)
    for clients in (1, 4):
        hot = Model()
        all_on_one = hot.play(lambda *_: b"hot", clients)
        tell(f"all on one key, {clients} clients in each region", hot, all_on_one)
        all_latencies = sorted(took for each in all_on_one for took in each)
        p50 = median(took for each in alone for took in each)
        p99, regional = percentile(all_latencies, 0.99), sum(map(median, alone)) / len(alone)
        print(f"  p99 of all {p99:.0f} ms: {p99 / p50:.1f} times {p50:.0f}, the uncontended p50 of all; ", end="")
        print(f"{p99 / regional:.1f} times {regional:.0f}, the mean of the regions' p50")


if __name__ == "__main__":
    main()
