"""A simulated datacenter: a disk that stays, and lives (processes) that come and go."""

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, TypeVar

from epoxy.model.cluster import CONFIG_KEY, ClusterConfig
from epoxy.model.errors import StoreFailed
from epoxy.model.members import NO_STAMP, ChangelogRead, CursorTruncated, MemberReply, MemberRequest, SnapshotRead
from epoxy.model.messages import Reply, Request, UpdateConfig
from epoxy.model.records import KeyState
from epoxy.node.keys.driver import Driver
from epoxy.node.keys.replica import Replica
from epoxy.node.members.member import Membership
from epoxy.protocol.effects import Timing
from epoxy.protocol.members.retention import RetentionFloor, learners
from epoxy.store.memory import MemoryStore
from epoxy_sim.keys.judge import Judge
from epoxy_sim.keys.plan import FaultKind
from epoxy_sim.trace_format import NAMES
from epoxy_sim.world import Action, Event, World

if TYPE_CHECKING:
    from epoxy_sim.network import Network

T = TypeVar("T")

PAGE_ROWS = 2
"""A few keys must make several pages, or nothing can happen between two of them."""

PAGE_MS = 5.0
"""What a page of production costs, so that learners and those who compare keep the pace they have there."""

KEPT_COMMITS = (0, 3, 1 << 20)
"""A changelog that keeps nothing but what somebody reads, one that keeps a little, and one that keeps everything."""

SWEEP_MS = 200.0
"""Between two sweeps: a few for each phase of a change."""

MANY_ROWS = 1 << 20
"""More than any run makes."""


class Machine:
    """What survives a crash: the synced part of the disk."""

    def __init__(
        self,
        machine_id: int,
        world: World,
        network: "Network",
        judge: Judge,
        *,
        seed: int,
        config: ClusterConfig,
        timing: Timing,
        clock_rate: float,
        changing: bool = False,
    ) -> None:
        self.id = machine_id
        self.name = NAMES[machine_id]
        self.world = world
        self.network = network
        self.judge = judge
        self.config = config
        self.timing = timing
        self.clock_rate = clock_rate
        self.changing = changing
        self.dice = Random(f"machine/{machine_id}/{seed}")
        self.disk_slow = False
        self.disk_full = False
        self.fsync_fails = False
        self.paused = False
        self.truncated = False
        self.kept_commits = KEPT_COMMITS[seed % len(KEPT_COMMITS)]
        self.trap: FaultKind | None = None
        self.trap_count = 0
        self.life: Life | None = None
        self.stops: list[str] = []
        self._backlog: list[Action] = []
        self._contents: dict[bytes, bytes] = {}
        self.lives = 0

    def start(self) -> None:
        if self.life is None:
            self.lives += 1
            self.life = Life(self, self._contents)
            self.judge.started(self.id, self.life.load)
            if self.life.member is not None:
                self.run(self.life, self.life.member.start)

    def crash(self, keep: float = 0.0) -> None:
        """The process is gone, and of the unsynced transactions all but a first part of them."""
        if self.life is not None:
            self._contents = self.life.end(keep)
            self.life = None
            self.paused = False
            self._backlog.clear()

    def lose_disk(self) -> None:
        self.crash()
        self._contents = {}
        self.judge.disk_lost(self.id)

    def stop(self, reason: str, keep: float) -> None:
        """What production does when a write fails: end, with a line that says why."""
        self.stops.append(reason)
        if self.world.trace is not None:
            self.world.note(f"{self.name} stops: {reason}")
        self.crash(keep)

    def spring(self, trap: FaultKind) -> None:
        """Crash here and now, in the middle of whatever it is doing, and lose all that is not synced."""
        if self.trap is not trap:
            return
        self.trap_count -= 1
        if self.trap_count <= 0:
            self.trap = None
            if self.world.trace is not None:
                self.world.note(f"fault: {trap.value} springs at {self.name}")
            self.crash()

    def run(self, life: "Life", action: Action) -> None:
        """Everything a process does passes here: a dead one does nothing, a paused one does it later."""
        if life is not self.life:
            return
        if self.paused:
            self._backlog.append(lambda: self.run(life, action))
            return
        try:
            action()
        except StoreFailed:
            if life is self.life:
                raise

    def resume(self) -> None:
        """A paused process wakes up and finds all its mail and all its timers at once."""
        self.paused = False
        backlog, self._backlog = self._backlog, []
        for action in backlog:
            self.world.after(0, action)


class Life:
    """One process, from start to crash. It is the production replica's clock, transport, dice and disk."""

    def __init__(self, machine: Machine, contents: dict[bytes, bytes]) -> None:
        self.machine = machine
        self.farewells: list[Action] = []
        self.store = MemoryStore(self._flush, contents=contents)
        alarm = machine.judge.alarm
        self.replica = Replica(machine.id, self.store, machine.config, alarm)
        self.replica.watchers.append(self._watch)
        self.driver = Driver(self.replica, self, self, self, machine.timing, alarm)
        self.member = Membership(self.driver, self.store, self, self) if machine.changing else None
        self.served: dict[int, bytes] = {}
        """Newcomers that have begun to read here, and are still newcomers."""
        if self.member is not None:
            self.member.space.page_rows = PAGE_ROWS
            self.member.copier.page_ms = PAGE_MS
            self.member.copier.sweeper.floor = RetentionFloor(commits=machine.kept_commits, age_ms=0.0)
            self.member.copier.sweeper.look_ms = SWEEP_MS
            self.replica.commit_watchers.append(self._reconfigured)

    def run(self, action: Action) -> None:
        self.machine.run(self, action)

    def answering(self, respond: Callable[[T], None]) -> Callable[[T], None]:
        def answer(outcome: T) -> None:
            respond(outcome)
            self.machine.spring(FaultKind.CRASH_ON_ANSWER)

        return answer

    def handle(self, requests: Sequence[Request], answered: Callable[[Reply], None]) -> None:
        self.replica.handle(requests, answered)
        self.machine.judge.adopted(self.machine.id, self.replica.config.epoch)

    @property
    def votes(self) -> bool:
        """As far as it knows."""
        admitted = self.member is None or self.member.guard.may_vote
        return admitted and self.machine.id in self.replica.config.voters

    def admits(self, other: "Life") -> bool:
        """Whether what the other sends is dealt with."""
        if self.member is None or other.member is None:
            return True
        return self.member.guard.admits(other.machine.id, other.member.guard.identity)

    def serves(self, requests: Sequence[Request]) -> bool:
        """One that may not speak for itself yet listens to configurations alone."""
        admitted = self.member is None or self.member.guard.may_vote
        return admitted or all(isinstance(request, UpdateConfig) for request in requests)

    def heard_from(self, other: "Life") -> None:
        if self.member is not None:
            self.member.guard.answered(other.machine.id)

    def _reconfigured(self, key: bytes, _before: KeyState, _after: KeyState) -> None:
        if key == CONFIG_KEY:
            still = learners(self.replica.config)
            self.served = {reader: after for reader, after in self.served.items() if reader in still}

    def has_swept_away(self, request: MemberRequest, reply: MemberReply) -> bool:
        """Whether a newcomer that reads here is told that its place is gone, and no fault took it. A question that
        arrives after the next one was answered is nobody's any more."""
        if not isinstance(request, SnapshotRead | ChangelogRead):
            return False
        after = request.after if isinstance(request, ChangelogRead) else NO_STAMP
        furthest = self.served.get(request.reader)
        if isinstance(reply, CursorTruncated):
            return furthest is not None and after >= furthest and not self.machine.truncated
        if request.reader in learners(self.replica.config):
            self.served[request.reader] = max(after, furthest or NO_STAMP)
        return False

    def truncate(self) -> None:
        """Throw the changelog away."""
        self.machine.truncated = True
        if self.member is not None:
            space = self.member.space
            self.store.transact(lambda tx: space.expire(tx, space.newest(tx), MANY_ROWS))

    def load(self, key: bytes) -> KeyState:
        return self.store.transact(lambda tx: self.replica.keyspace.load(tx, key))

    def end(self, keep: float) -> dict[bytes, bytes]:
        survivors = self.store.survivors(int(self.store.pending * keep))
        self.store.close()
        for hang_up in self.farewells:
            self.machine.world.after(0, hang_up)
        return survivors

    # Clock

    def now_ms(self) -> float:
        return self.machine.world.now_us * self.machine.clock_rate / 1000

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> Event:
        return self.machine.world.after(int(delay_ms * 1000 / self.machine.clock_rate), lambda: self.run(then))

    # Transport

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        self.machine.network.request(self, to, requests, answered)

    def ask(self, to: int, request: MemberRequest, answered: Callable[[MemberReply], None]) -> None:
        self.machine.network.ask(self, to, request, answered)

    # Dice

    def uniform(self) -> float:
        return self.machine.dice.random()

    def nonce(self) -> int:
        return self.machine.dice.getrandbits(64)

    # Disk

    def _flush(self, done: Callable[[], None]) -> None:
        machine = self.machine
        slowest_us = 200_000 if machine.disk_slow else 500
        machine.world.after(machine.dice.randrange(50, slowest_us), lambda: self.run(lambda: self._synced(done)))

    def _synced(self, done: Callable[[], None]) -> None:
        machine = self.machine
        if machine.disk_full:
            machine.stop("no space left on the disk", machine.dice.random())
        elif machine.fsync_fails:
            machine.fsync_fails = False
            machine.stop("fsync failed", machine.dice.random())
        else:
            done()

    def _watch(self, key: bytes, before: KeyState, after: KeyState) -> None:
        judge, replica_id = self.machine.judge, self.machine.id
        judge.stepped(replica_id, key, before, after)
        self.store.when_durable(lambda: judge.durable(replica_id, key, after))
