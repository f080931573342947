"""A simulated datacenter: a disk that stays, and lives (processes) that come and go."""

import errno
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING, TypeVar

from epoxy.codec import wire
from epoxy.codec.plain_requests import Incoming
from epoxy.model.cluster import CONFIG_KEY, ClusterConfig, first_epoch
from epoxy.model.errors import RottenRow, StoreError, StoreFailed
from epoxy.model.incarnation import Greeting, Incarnation, MismatchCode, Sighting, StoreMismatch
from epoxy.model.members import FastVotesRead, MemberReply
from epoxy.model.messages import Failed, Reply, Request
from epoxy.model.records import KeyState
from epoxy.node.keys.driver import Driver
from epoxy.node.keys.replica import Replica
from epoxy.node.members.early_accepts import EarlyAccepts
from epoxy.node.members.member import fast_votes
from epoxy.node.members.peer_gate import GatedTransport, PeerGate
from epoxy.store.embedded.store import DELAY_MS
from epoxy.store.member_rows import MemberSpace
from epoxy.store.row_kinds import RowKind
from epoxy_sim.disk.embedded_disk import EmbeddedDisk
from epoxy_sim.disk.memory_disk import MemoryDisk
from epoxy_sim.disk.port import Disk, SimStore
from epoxy_sim.disk.rot import RottingStore
from epoxy_sim.keys.judge import Judge
from epoxy_sim.keys.plan import ClusterPlan, FaultKind
from epoxy_sim.trace_format import NAMES
from epoxy_sim.world import Action, Event, World

if TYPE_CHECKING:
    from epoxy_sim.keys.network import Network

T = TypeVar("T")

ROTS = {
    FaultKind.ROT: (RowKind.VALUE, RowKind.CHANGELOG),
    FaultKind.ROT_VOTES: (RowKind.VOTE, RowKind.BALLOT),
}
"""Which rows each of these faults changes."""

GREET_MS = 50.0
"""Between two attempts of a process to reach the others, until enough of them have recorded its start."""

AGAIN_MS = 3.0
"""Before a peer is asked again for fast votes: runs are short."""

OPEN_MS = 1.0
"""Between two checks of whether its start is durable."""

FEW_ROWS = 2
"""Of a page."""

PROBE_MS = 300.0
"""Between two probes after that, in runs in which positions matter."""


class Machine:
    """What survives a crash: its disk."""

    def __init__(self, machine_id: int, world: World, network: "Network", judge: Judge, plan: ClusterPlan) -> None:
        self.id = machine_id
        self.name = NAMES[machine_id]
        self.world = world
        self.network = network
        self.judge = judge
        self.config: ClusterConfig = first_epoch(plan.first_members, plan.policy)
        self.timing = plan.timing
        self.clock_rate = plan.skew[machine_id - 1]
        self.dice = Random(f"machine/{machine_id}/{plan.seed}")
        self.plan = plan
        self.start_dice = Random(f"start/{machine_id}/{plan.seed}")
        """For what happens at each start, so that the rest of a run does not depend on it."""
        self.disk_slow = False
        self.disk_full = False
        self.fsync_fails = False
        self.paused = False
        self.trap: FaultKind | None = None
        self.trap_count = 0
        self.life: Life | None = None
        self.rotten: set[bytes] | None = set() if any(fault.kind in ROTS for fault in plan.faults) else None
        """Rows of its disk; None: none rot in this run."""
        self.rots: FaultKind | None = None
        """What rots before the next process begins."""
        self.ended = ""
        """Why it takes no part any more; empty if it does."""
        self.stops: list[str] = []
        self._backlog: list[Action] = []
        self._embedded = plan.embedded
        self._disk_seed = f"{machine_id}/{plan.seed}"
        self._disks = 0
        self.disk = self.new_disk()
        self._counted: Counter[str] = Counter()
        self.lives = 0
        self.identity = 0
        """Of the store on its disk, as the last process found it."""
        self.remembered: dict[int, Sighting] = {}
        """What its disk held of other stores when the last process ended."""
        self.resumes: Incarnation | None = None
        """The start that the next process goes on with, because it is a snapshot of a running one."""
        self.strict_start = plan.strict_start
        self.went_back = False
        """Whether its disk was struck: it is not what it was."""
        self.is_original = False
        """Whether its process ran while a copy of its disk was started: that one is refused, and not this one."""
        self.copies: list[Machine] = []

    def start(self) -> None:
        if self.life is None and not self.ended and (life := self.begin_life()) is not None:
            self.life = life
            self.judge.started(self.id, life.load)
            self.run(life, life.tell_what_was_kept)

    def begin_life(self) -> "Life | None":
        """None: the store refuses to start, and the machine is down until it is started again."""
        self.lives += 1
        try:
            return self.new_life()
        except StoreError as refused:
            self.stops.append(str(refused))
            self.world.note(f"{self.name} does not start: {refused}")
            return None

    def new_life(self) -> "Life":
        return Life(self)

    def new_disk(self) -> Disk:
        self._disks += 1
        return EmbeddedDisk(f"{self._disk_seed}/{self._disks}", self.id) if self._embedded else MemoryDisk()

    def crash(self, keep: float = 0.0) -> None:
        """The process is gone, and with it what was not synced, except for the share `keep` of it."""
        if self.life is not None:
            with suppress(StoreFailed):
                self.remembered = self.life.remembered()
            self.disk.crash(keep)
            self._counted.update(self.life.counts)
            self.life.end()
            self.life = None
            self.paused = False
            self._backlog.clear()

    @property
    def counts(self) -> Counter[str]:
        """What all its processes counted of carried writes."""
        return self._counted + (self.life.counts if self.life is not None else Counter())

    @property
    def is_refused(self) -> bool:
        """For good: by itself, or by its store, which does not open."""
        return self.life.gate.refused != "" if self.life is not None else self.went_back

    def start_leniently(self) -> None:
        self.strict_start = False
        if self.life is not None and not self.life.gate.may_vote:
            self.crash()
            self.start()

    @property
    def voting(self) -> list["Life"]:
        """The processes under this id that vote: this one, and those of copies."""
        lives = [each.life for each in (self, *self.copies)]
        return [life for life in lives if life is not None and life.gate.may_vote]

    def copy_beside(self, disk: Disk) -> "Machine":
        """Another machine under the same id, with a copy of this disk. No message is addressed to it, and its disk does
        not count."""
        copy = type(self)(self.id, self.world, self.network, self.judge.for_copy(), self.plan)
        copy.name, copy.lives, copy.disk = f"{self.name}'", self.lives, disk.image()
        copy.start_dice = Random(f"copy/{len(self.copies)}/{self.id}/{self.plan.seed}")
        self.copies.append(copy)
        return copy

    def restore(self, image: Disk) -> None:
        """The process ends, and the disk is replaced by a copy of this image of it, or of another."""
        self.crash()
        self.disk = image.image()

    def lose_disk(self) -> None:
        self.crash()
        self.disk = self.new_disk()
        if self.rotten is not None:
            self.rotten.clear()
        self.judge.disk_lost(self.id)

    def rot(self, kind: FaultKind) -> None:
        if self.life is not None:
            self.life.rot(kind)
        else:
            self.rots = kind

    def end(self, reason: str) -> None:
        """For good: the process ends, and every later one serves nothing but its status."""
        self.ended = reason
        self.world.note(f"{self.name} ends for good: {reason}")
        self.judge.disk_lost(self.id)
        self.crash()

    def stop(self, reason: str, keep: float) -> None:
        """What production does when a write to the disk fails: end, with a line that says why."""
        self.stops.append(reason)
        self.world.note(f"{self.name} stops: {reason}")
        self.crash(keep)

    def spring(self, trap: FaultKind) -> None:
        """Crash in the middle of the current step, and lose all that is not synced."""
        if self.trap is not trap:
            return
        self.trap_count -= 1
        if self.trap_count <= 0:
            self.trap = None
            self.world.note(f"fault: {trap.value} springs at {self.name}")
            self.crash()

    def run(self, life: "Life", action: Action) -> None:
        """Every action of a process runs through here: a dead one does nothing, a paused one does it later."""
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
        except RottenRow:
            pass  # it was reported when it was read

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        """A paused process wakes up: all its messages and timers arrive at once."""
        self.paused = False
        backlog, self._backlog = self._backlog, []
        for action in backlog:
            self.world.after(0, action)


class Life:
    """One process, from start to crash. It is the production replica's clock, transport, dice and disk."""

    is_starting = False
    """Whether only what belongs to the start waits for the disk."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.hang_ups: list[Action] = []
        """Called when the process ends: its connections break."""
        self.store = self._open(machine)
        alarm = machine.judge.alarm
        self.replica = Replica(machine.id, self.store, machine.config, alarm)
        self.replica.watchers.append(self._watch)
        self.is_starting = True
        space = MemberSpace(self.replica.keyspace, machine.id)
        space.page_rows = FEW_ROWS
        self._space = space
        strict = machine.strict_start
        self.gate = PeerGate(self.replica, self.store, space, self, StartDice(machine.start_dice), strict=strict)
        if machine.resumes is not None:
            self.gate.incarnation, self.gate.is_cleared, machine.resumes = machine.resumes, True, None
        self.gate.alarm = machine.world.note
        machine.identity = self.gate.identity
        self.met: set[Life] = set()
        """Processes that are connected to this one."""
        self.store.when_durable(self._started)
        self.call_later(0 if machine.lives > 1 else GREET_MS, self._greet)
        self.transport = GatedTransport(self.gate, self)
        self.driver = Driver(self.replica, self.transport, self, self, machine.timing, alarm)
        if machine.plan.encoded:
            self.driver.encode_writes(self.send_encoded, lambda: self.gate.may_vote)
        if machine.plan.early:
            self.early = EarlyAccepts(self.driver, self.store, machine.disk.mark, self.ask_fast_votes)
            self.early.again_ms = AGAIN_MS
            self.call_later(0, self.early.start)

    def _open(self, machine: Machine) -> SimStore | RottingStore:
        store = machine.disk.open(self)
        if machine.rotten is None:
            return store
        rotting = RottingStore(store, machine.rotten)
        if machine.rots is not None:
            rotting.rot(rotting.rows_of(machine.id, ROTS[machine.rots]))
            machine.rots = None
        return rotting

    def rot(self, kind: FaultKind) -> None:
        assert isinstance(self.store, RottingStore), "a plan with this fault has such stores"
        self.store.rot(self.store.rows_of(self.machine.id, ROTS[kind]))

    def _started(self) -> None:
        self.is_starting = False

    def _greet(self) -> None:
        """Connect to the others, as links do, until this process may vote; then probe them from time to time."""
        if not self.gate.is_open and not self.gate.refused:
            self.call_later(OPEN_MS, self._greet)
            return
        config, me = self.replica.config, self.machine.id
        is_done = self.gate.may_vote and not self.machine.plan.probes
        if is_done or self.gate.refused:
            return
        if config.info(me) is not None:
            for other in config.replica_ids:
                if other != me:
                    self.machine.network.greet(self, other)
        self.call_later(PROBE_MS if self.gate.may_vote else GREET_MS, self._greet)

    def run(self, action: Action) -> None:
        self.machine.run(self, action)

    def answering(self, respond: Callable[[T], None]) -> Callable[[T], None]:
        def answer(outcome: T) -> None:
            respond(outcome)
            self.machine.spring(FaultKind.CRASH_ON_ANSWER)

        return answer

    def handle(self, requests: Sequence[Incoming], answered: Callable[[Reply], None]) -> None:
        self.replica.handle(requests, answered)
        self.machine.judge.adopted(self.machine.id, self.replica.config.epoch)

    @property
    def votes(self) -> bool:
        """Whether it takes requests of clients, by the configuration it knows."""
        return self.gate.may_vote and self.machine.id in self.replica.config.voters

    @property
    def is_forgetful(self) -> bool:
        """Whether it votes, and its fast rounds wait for answers of the others."""
        return self.driver.is_forgetful and self.votes

    def admits(self, other: "Life", greeting: Greeting, told: Sighting | None = None) -> StoreMismatch | None:
        """Judge a request or a reply of the other. The first one on a connection brings its greeting."""
        peer, nonce = other.machine.id, greeting.incarnation.nonce
        if other in self.met and self.gate.hear(peer, nonce, greeting.position):
            return None
        if other not in self.met and other.machine.life is other:
            # The handshake, which is over before the first frame leaves.
            other.gate.told(self.machine.id, self.gate.greeting(peer).known)
            if other.gate.refused:
                return StoreMismatch(MismatchCode.REFUSED_HERE, other.gate.refused)
        self.gate.told(peer, greeting.known)
        mismatch = self.gate.meet(peer, greeting, told)
        if mismatch is None and other not in self.met and other.machine.life is other:
            self.met.add(other)
            self.gate.connected(peer, nonce)
        return mismatch

    def refused_by(self, other: "Life", greeting: Greeting, mismatch: StoreMismatch) -> None:
        self.gate.told(other.machine.id, greeting.known)
        self.gate.objected(other.machine.id, mismatch.code)

    def hung_up(self, other: "Life") -> None:
        """The other process has ended, and its connections with it."""
        if other in self.met:
            self.met.discard(other)
            self.gate.disconnected(other.machine.id, other.gate.incarnation.nonce)

    def remembered(self) -> dict[int, Sighting]:
        """What is durable here about other stores."""
        return self._space.sightings(self.store.durable())

    @property
    def counts(self) -> Counter[str]:
        counts = self.driver.counts
        return Counter({"carried": counts.carried, "declined": counts.declined, "taken back": counts.taken_back})

    def truncate(self) -> None:
        """Throw the changelog away. There is none unless members change."""

    def tell_what_was_kept(self) -> None:
        """A crash may keep more than was durable, and the judge has not heard of that. It counts from the moment at
        which it is durable: a value that ends, for example, is counted by this process from then on."""
        if self.machine.rotten is not None:
            return  # reading finds what is rotten, and that is for the plan to do
        judge, view = self.machine.judge, self.store.newest()
        kept = [key for key, _ in self.replica.keyspace.everything(view, b"", None) if key != CONFIG_KEY]
        for key in kept:
            self.store.when_durable(partial(judge.durable, self.machine.id, key, self.load(key)), urgent=False)

    def load(self, key: bytes) -> KeyState:
        return self.store.transact(lambda tx: self.replica.keyspace.load(tx, key))

    def end(self) -> None:
        self.machine.network.hung_up(self)
        for hang_up in self.hang_ups:
            self.machine.world.after(0, hang_up)

    def ask_fast_votes(self, to: int, request: FastVotesRead, answered: Callable[[MemberReply], None]) -> None:
        waiting = [answered]

        def answer(reply: MemberReply) -> None:
            if waiting:
                waiting.pop()(reply)

        if not self.gate.answers(request):
            answer(Failed(reason="this node takes no part yet, or no longer"))
            return
        self.call_later(self.machine.timing.round_timeout_ms, lambda: answer(Failed(reason="timeout")))
        self.machine.network.ask_fast_votes(self, to, request, answer)

    def tell_fast_votes(self, request: FastVotesRead, answered: Callable[[MemberReply], None]) -> None:
        if self.gate.answers(request):
            self.store.when_durable(partial(answered, fast_votes(self.store, self._space, request)))
        else:
            self.store.when_durable(partial(answered, Failed(reason="this node takes no part yet, or no longer")))

    # Clock

    def now_ms(self) -> float:
        return self.machine.world.now_us * self.machine.clock_rate / 1000

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> Event:
        return self.machine.world.after(int(delay_ms * 1000 / self.machine.clock_rate), lambda: self.run(then))

    # Transport

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        self.machine.network.request(self, to, requests, answered)

    def send_encoded(self, to: int, requests: bytes, count: int, answered: Callable[[Reply], None] | None) -> None:
        frame = wire.decode_peer_request(wire.join_peer_request(self.machine.id, to, count, [requests]))
        self.send(to, frame.requests, answered)

    # Dice

    def uniform(self) -> float:
        return self.machine.dice.random()

    def nonce(self) -> int:
        return self.machine.dice.getrandbits(64)

    # Disk

    def wait_for_disk(self, then: Callable[[], None]) -> None:
        machine = self.machine
        slowest_us = 200_000 if machine.disk_slow else 500
        dice = machine.start_dice if self.is_starting else machine.dice
        machine.world.after(dice.randrange(50, slowest_us), lambda: self.run(then))

    def soon(self, then: Callable[[], None]) -> None:
        self.machine.world.after(0, lambda: self.run(then))

    def delay(self, then: Callable[[], None]) -> None:
        self.call_later(DELAY_MS, then)

    def disk_error(self) -> OSError | None:
        machine = self.machine
        if machine.disk_full:
            return OSError(errno.ENOSPC, "no space left on the disk")
        if machine.fsync_fails:
            machine.fsync_fails = False
            return OSError(errno.EIO, "fsync failed")
        return None

    def disk_failed(self, reason: str) -> None:
        self.machine.stop(reason, self.machine.dice.random())

    def _watch(self, key: bytes, before: KeyState, after: KeyState) -> None:
        judge, replica_id = self.machine.judge, self.machine.id
        judge.stepped(replica_id, key, before, after)
        self.store.when_durable(lambda: judge.durable(replica_id, key, after), urgent=False)


class StartDice:
    """Draws identities and nonces."""

    def __init__(self, dice: Random) -> None:
        self._dice = dice

    def uniform(self) -> float:
        return self._dice.random()

    def nonce(self) -> int:
        return self._dice.getrandbits(64)
