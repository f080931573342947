"""One node whose disk, clock and network are moved by hand."""

from collections import deque
from collections.abc import Callable, Sequence

from msgspec import Struct

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus
from epoxy.model.messages import Reply, Request
from epoxy.model.records import KeyState, Proposal
from epoxy.model.writes import Consistency, Outcome, ReadOutcome, Write
from epoxy.node.keys.driver import Driver
from epoxy.node.keys.replica import Replica
from epoxy.protocol.effects import Timing
from epoxy.protocol.keys.operations import LocalOp
from epoxy.store.memory import MemoryStore
from tests.protocol.keys.harness import KEY, A, FixedDice, config_of

Callback = Callable[[], None]


class Disk:
    """Flushes begin by themselves and end when a test says so."""

    def __init__(self) -> None:
        self.flushes: deque[Callback] = deque()
        self.delays: deque[Callback] = deque()

    def flush(self, done: Callback) -> None:
        self.flushes.append(done)

    def sync_once(self) -> None:
        self.flushes.popleft()()

    def sync(self) -> None:
        """Until nothing is left to write."""
        while self.flushes or self.delays:
            while self.delays:
                self.delays.popleft()()
            if self.flushes:
                self.sync_once()


class Bell:
    def __init__(self, at_ms: float, ring: Callback) -> None:
        self.at_ms = at_ms
        self.ring: Callback | None = ring

    def cancel(self) -> None:
        self.ring = None


class HandClock:
    def __init__(self) -> None:
        self.now = 0.0
        self._bells: list[Bell] = []

    def now_ms(self) -> float:
        return self.now

    def call_later(self, delay_ms: float, then: Callback) -> Bell:
        bell = Bell(self.now + delay_ms, then)
        self._bells.append(bell)
        return bell

    @property
    def pending(self) -> list[float]:
        return sorted(bell.at_ms for bell in self._bells if bell.ring is not None)

    def advance(self, by_ms: float) -> None:
        until = self.now + by_ms
        while due := [bell for bell in self._bells if bell.ring is not None and bell.at_ms <= until]:
            bell = min(due, key=lambda bell: bell.at_ms)
            self.now, ring = max(self.now, bell.at_ms), bell.ring
            bell.cancel()
            assert ring is not None
            ring()
        self.now = until


class Sent(Struct, frozen=True):
    to: int
    requests: tuple[Request, ...]
    answered: Callable[[Reply], None] | None

    def answer(self, reply: Reply) -> None:
        assert self.answered is not None, "nobody waits for this answer"
        self.answered(reply)


class HandTransport:
    def __init__(self) -> None:
        self.sent: list[Sent] = []

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        self.sent.append(Sent(to, tuple(requests), answered))

    def take(self) -> dict[int, Sent]:
        """What was sent since the last time, by receiver."""
        taken, self.sent = self.sent, []
        by_receiver = {each.to: each for each in taken}
        assert len(by_receiver) == len(taken), "two messages to one receiver: look at `sent`"
        return by_receiver


def with_learner(me: int = A, *, epoch: int = 1) -> ClusterConfig:
    """`me` is learning; three others vote."""
    learner = ReplicaInfo(id=me, status=ReplicaStatus.LEARNING)
    voters = (ReplicaInfo(id=i) for i in range(me + 1, me + 4))
    return ClusterConfig(epoch=epoch, coordinator_id=me + 1, replicas=(learner, *voters))


class Node:
    """Starts with the operator's configuration on its disk already."""

    def __init__(
        self,
        *,
        config: ClusterConfig | None = None,
        timing: Timing | None = None,
        contents: dict[bytes, bytes] | None = None,
    ) -> None:
        self.disk = Disk()
        self.clock = HandClock()
        self.transport = HandTransport()
        self.alarms: list[str] = []
        self.outcomes: list[Outcome] = []
        self.reads: list[ReadOutcome] = []
        self.store = MemoryStore(self.disk.flush, contents=contents, delay=self.disk.delays.append)
        self.replica = Replica(A, self.store, config or config_of(), self.alarms.append)
        self.disk.sync()
        self.driver = Driver(
            self.replica, self.transport, self.clock, FixedDice(), timing or Timing(), self.alarms.append
        )

    def handle(self, *requests: Request) -> list[Reply]:
        """The list fills when the answer leaves."""
        replies: list[Reply] = []
        self.replica.handle(requests, replies.append)
        return replies

    def handle_now(self, *requests: Request) -> Reply:
        replies = self.handle(*requests)
        self.disk.sync()
        (reply,) = replies
        return reply

    def perform(self, op: LocalOp) -> list[object]:
        results: list[object] = []
        self.replica.perform(op, results.append)
        return results

    def write(self, value: bytes | None = b"v", *, key: bytes = KEY, mutable: bool = False) -> None:
        self.driver.write(Write(key=key, value=value, mutable=mutable), self.outcomes.append)

    def read(self, consistency: Consistency, *, key: bytes = KEY) -> None:
        self.driver.read(key, consistency, self.reads.append)

    def state(self, key: bytes = KEY) -> KeyState:
        return self.store.transact(lambda tx: self.replica.keyspace.load(tx, key))

    def cached(self) -> Proposal | None:
        return self.replica.keyspace.cached(self.store.durable(), KEY)
