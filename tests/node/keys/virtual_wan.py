"""Five regions in virtual time: production drivers, a network with the round trips of AWS, disks that take a
millisecond or two. What a rule of the writing path costs is measured without a busy machine in the way."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

from epoxy.model.cluster import ClusterConfig, first_epoch
from epoxy.model.messages import Reply, Request
from epoxy.model.records import KeyState
from epoxy.model.writes import Committed, Outcome, Write
from epoxy.node.keys.driver import Driver
from epoxy.node.keys.replica import Replica
from epoxy.node.timing import key_timing
from epoxy.store.memory import MemoryStore
from epoxy.transport.wan.aws import floor_ms, rtt_ms
from epoxy_sim.world import Event, World

FIVE = ("us-east-1", "us-west-2", "eu-west-1", "ap-northeast-1", "sa-east-1")

LAZY_MS = 2.0
"""A message that no answer is awaited of waits for others so long (`transport.peers.peer`)."""

THINK_MS = 0.3
"""Between an answer and the next request of a client."""

Action = Callable[[], None]
Envelope = tuple[Sequence[Request], Callable[[Reply], None]]


class Answered:
    def __init__(self, region: str, began_ms: float, took_ms: float, outcome: Outcome) -> None:
        self.region = region
        self.began_ms = began_ms
        self.took_ms = took_ms
        self.outcome = outcome

    @property
    def ok(self) -> bool:
        return isinstance(self.outcome, Committed)


class Region:
    """One process: the clock, dice, disk and transport of its driver. While it is stopped, everything waits."""

    def __init__(self, wan: "VirtualWan", me: int, name: str, config: ClusterConfig) -> None:
        self.wan, self.me, self.name = wan, me, name
        self.ticked: Action = lambda: None
        self.stopped = False
        self.known_ms: dict[bytes, float] = {}
        """When it learned the first decision of a key."""
        self._dice = Random(f"{name}/{wan.seed}")
        self._backlog: list[Action] = []
        self._links: dict[int, list[Envelope]] = {}
        self._arrival_us: dict[int, int] = {}
        self.replica = Replica(me, MemoryStore(self._flush), config, wan.alarm)
        self.replica.commit_watchers.append(self._learned)
        self.driver = Driver(self.replica, self, self, self, key_timing(config, me, self, 0.0), wan.alarm)

    def _learned(self, key: bytes, _before: KeyState, _after: KeyState) -> None:
        self.known_ms.setdefault(key, self.wan.now_ms)

    def run(self, action: Action) -> None:
        if self.stopped:
            self._backlog.append(action)
        else:
            action()

    def _flush(self, done: Action) -> None:
        self.wan.world.after(500 + int(1_500 * self._dice.random()), partial(self.run, done))

    # Clock and dice

    def now_ms(self) -> float:
        return self.wan.now_ms

    def call_later(self, delay_ms: float, then: Action) -> Event:
        return self.wan.world.after(int(delay_ms * 1000), partial(self.run, then))

    def uniform(self) -> float:
        return self._dice.random()

    def nonce(self) -> int:
        return self._dice.getrandbits(64)

    # Transport: messages of a link arrive in order, and one that expects no answer goes with the next that does.

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        link = self._links.setdefault(to, [])
        link.append((tuple(requests), partial(self._reply, to, answered)))
        if answered is not None:
            self._leave(to, link)
        elif len(link) == 1:
            self.wan.world.after(int(1000 * LAZY_MS), partial(self._leave, to, link))

    def _leave(self, to: int, link: list[Envelope]) -> None:
        batch = link[:]
        link.clear()
        if batch:
            world, there = self.wan.world, self.wan.regions[to]
            at_us = max(world.now_us + self.wan.one_way_us(self.name, there.name), self._arrival_us.get(to, 0))
            self._arrival_us[to] = at_us
            world.after(at_us - world.now_us, partial(there.run, partial(there.arrived, batch)))

    def arrived(self, batch: Sequence[Envelope]) -> None:
        for requests, reply in batch:
            self.replica.handle(requests, reply)

    def _reply(self, there: int, answered: Callable[[Reply], None] | None, reply: Reply) -> None:
        if answered is not None:
            delay_us = self.wan.one_way_us(self.wan.regions[there].name, self.name)
            self.wan.world.after(delay_us, partial(self.run, partial(answered, reply)))

    # What the transport knows of peers

    def rtt_ms(self, peer: int) -> float | None:
        return rtt_ms(self.name, self.wan.names[peer - 1])

    def lag_ms(self, peer: int) -> float:  # noqa: ARG002 (the port's signature)
        return 0.0

    waited_ms = silent_ms = lag_ms

    def reachable(self, peer: int) -> bool:  # noqa: ARG002
        return True

    def trouble(self, peer: int) -> str:  # noqa: ARG002
        return ""


class VirtualWan:
    def __init__(self, seed: int, names: Sequence[str] = FIVE) -> None:
        self.names, self.seed = names, seed
        self.world = World()
        self.answers: list[Answered] = []
        self._dice = Random(f"wan/{seed}")
        config = first_epoch(tuple(range(1, len(names) + 1)))
        self.regions = {number: Region(self, number, name, config) for number, name in enumerate(names, 1)}
        self.by_name = {region.name: region for region in self.regions.values()}
        self.pass_ms(100)

    def alarm(self, text: str) -> None:
        raise AssertionError(text)

    @property
    def now_ms(self) -> float:
        return self.world.now_us / 1000

    def floor(self, name: str) -> float:
        return floor_ms(name, self.names)

    def way(self, name: str, owner: str) -> float:
        return self.floor(owner) + (rtt_ms(name, owner) if name != owner else 0.0)

    def one_way_us(self, here: str, there: str) -> int:
        return int(500 * rtt_ms(here, there) * (1 + 0.02 * self._dice.random()))

    def pass_ms(self, ms: float) -> None:
        end_us = self.world.now_us + int(ms * 1000)
        self.world.after(int(ms * 1000), lambda: None)
        self.world.run_until(lambda: self.world.now_us >= end_us, end_us)

    def write(self, region: str, key: bytes, *, mutable: bool = True, then: Action = lambda: None) -> None:
        node, began_ms = self.by_name[region], self.now_ms

        def answered(outcome: Outcome) -> None:
            self.answers.append(Answered(region, began_ms, self.now_ms - began_ms, outcome))
            then()

        write = Write(key=key, value=region.encode(), mutable=mutable)
        node.run(lambda: node.driver.write(write, answered))

    def loop(self, region: str, key: bytes, until_ms: float) -> None:
        """A client that writes again when it is answered."""

        def again() -> None:
            if self.now_ms < until_ms:
                begin = partial(self.write, region, key, then=again)
                self.world.after(int(1000 * THINK_MS), begin)

        again()

    def pace(self, region: str, key: bytes, every_ms: float, until_ms: float) -> None:
        if self.now_ms < until_ms:
            self.write(region, key)
            self.world.after(int(1000 * every_ms), partial(self.pace, region, key, every_ms, until_ms))


def middle(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]
