"""Three replicas that answer each other at once, with disks that rot."""

from collections.abc import Callable, Sequence

from epoxy.model.messages import Failed, Reply, Request
from epoxy.model.records import KeyState
from epoxy.model.writes import Consistency, Outcome, ReadOutcome, Write
from epoxy.node.keys.changelog_gc import ChangelogGc
from epoxy.node.keys.driver import Driver
from epoxy.node.keys.replica import Replica
from epoxy.node.scrub.repairs import Repairs
from epoxy.protocol.effects import Timing
from epoxy.store.member_rows import MemberSpace
from epoxy.store.memory import MemoryStore
from epoxy_sim.disk.rot import RottingStore
from tests.node.bench import HandClock
from tests.protocol.keys.harness import FixedDice, config_of

KEY = b"user/ada"


class RottenReplica:
    """One of them. `log`: what was reported."""

    def __init__(self, me: int, cluster: "Cluster") -> None:
        self.store = RottingStore(MemoryStore(), set())
        self.cluster = cluster
        self.alarms: list[str] = []
        self.replica = Replica(me, self.store, config_of(cluster.size), self.alarms.append)
        timing = Timing(retries=1)
        self.driver = Driver(self.replica, self, cluster.clock, FixedDice(first_nonce=me * 1000), timing, fail)
        self.space = MemberSpace(self.replica.keyspace, me)
        self.gc = ChangelogGc(self.replica, self.store, self.space, cluster.clock)
        self.gc._measure_some()
        self.repairs = Repairs(self.driver, self.store, self.space, self.gc, cluster.clock)
        self.store.on_rot = self.repairs.noticed
        self.log: list[tuple[str, str, str]] = []
        self.ended: list[str] = []
        self.repairs.report = lambda *told: self.log.append(told)
        self.repairs.end = self.ended.append

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        reply: Callable[[Reply], None] = answered or (lambda _: None)
        if to in self.cluster.down or self.replica.me in self.cluster.down:
            reply(Failed(reason="down"))
        else:
            self.cluster.replicas[to - 1].replica.handle(requests, reply)

    def write(self, value: bytes, key: bytes = KEY, *, mutable: bool = True) -> Outcome:
        outcomes: list[Outcome] = []
        self.driver.write(Write(key=key, value=value, mutable=mutable), outcomes.append)
        self.cluster.clock.advance(0)
        return outcomes[0]

    def read(self, key: bytes = KEY) -> ReadOutcome:
        outcomes: list[ReadOutcome] = []
        self.driver.read(key, Consistency.LINEARIZABLE, outcomes.append)
        self.cluster.clock.advance(5_000)
        return outcomes[0]

    def state(self, key: bytes = KEY) -> KeyState:
        return self.replica.keyspace.load(self.store.newest(), key)

    def rot(self, *rows: bytes) -> None:
        """As after a restart: no state of a key is cached."""
        self.replica._states.__init__()  # type: ignore[misc]
        self.store.rot(rows)


class Cluster:
    def __init__(self, size: int = 3) -> None:
        self.size = size
        self.clock = HandClock()
        self.down: set[int] = set()
        self.replicas = [RottenReplica(i, self) for i in range(1, size + 1)]


def fail(text: str) -> None:
    raise AssertionError(text)
