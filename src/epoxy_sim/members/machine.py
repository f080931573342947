"""A simulated datacenter whose members change: it learns, is admitted or not, and keeps a changelog for learners."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from epoxy.model.cluster import CONFIG_KEY
from epoxy.model.members import NO_STAMP, ChangelogRead, CursorTruncated, MemberReply, MemberRequest, SnapshotRead
from epoxy.model.records import KeyState
from epoxy.node.members.member import Membership
from epoxy.node.scrub.repairs import Repairs
from epoxy.protocol.members.retention import UNLIMITED, RetentionCeiling, RetentionFloor, learners
from epoxy.store.embedded.scrub import ScrubPage
from epoxy.store.member_rows import ChangelogSize
from epoxy_sim.disk.rot import RottingStore
from epoxy_sim.keys.judge import Judge
from epoxy_sim.keys.machine import Life, Machine
from epoxy_sim.keys.plan import ClusterPlan, FaultKind
from epoxy_sim.world import World

if TYPE_CHECKING:
    from epoxy_sim.members.network import MembersNetwork

PAGE_ROWS = 2
"""A few keys must make several pages, or nothing can happen between two of them."""

PAGE_MS = 5.0
"""As long as a page takes in production, so that learning and comparing keep the pace they have there."""

KEPT_COMMITS = (0, 3, 1 << 20)
"""A changelog that keeps only what a learner still reads, one that keeps a little, and one that keeps everything."""

KEPT_BYTES = (1 << 40, 300)
"""A changelog that may take any space, and one that may take that of four rows."""

SWEEP_MS = 200.0
"""Between two sweeps of the changelog: a few in each phase of a change."""

SCRUB_MS = 20.0
"""From rot to the scrub that finds it: a few messages come before it."""

MANY_ROWS = 1 << 20
"""More than any run makes."""


class MembersMachine(Machine):
    network: "MembersNetwork"

    def __init__(
        self, machine_id: int, world: World, network: "MembersNetwork", judge: Judge, plan: ClusterPlan
    ) -> None:
        super().__init__(machine_id, world, network, judge, plan)
        self.truncated = False
        self.kept_commits = KEPT_COMMITS[plan.seed % len(KEPT_COMMITS)]
        self.kept_bytes = KEPT_BYTES[plan.seed // len(KEPT_COMMITS) % len(KEPT_BYTES)]

    def start(self) -> None:
        is_new = self.life is None
        super().start()
        if is_new and isinstance(self.life, MembersLife):
            self.run(self.life, self.life.member.start)

    def new_life(self) -> Life:
        return MembersLife(self)


class MembersLife(Life):
    machine: MembersMachine

    def __init__(self, machine: MembersMachine) -> None:
        super().__init__(machine)
        self.member = Membership(self.driver, self.store, self, self, self.gate)
        self.reading: dict[int, bytes] = {}
        """How far each learner has read here, for as long as it is a learner."""
        self.begun: dict[int, bytes] = {}
        """From where each replica has read here."""
        self.member.space.page_rows = PAGE_ROWS
        self.member.key_sync.pace.page_ms = PAGE_MS
        self.member.key_sync.gc.floor = RetentionFloor(commits=machine.kept_commits, age_ms=0.0)
        self.member.key_sync.gc.ceiling = lambda: RetentionCeiling(size=machine.kept_bytes, pinned_size=UNLIMITED)
        self.member.key_sync.gc.look_ms = SWEEP_MS
        self.replica.commit_watchers.append(self._reconfigured)
        self.repairs = Repairs(self.driver, self.store, self.member.space, self.member.key_sync.gc, self)
        self.repairs.report = lambda _, row, words: machine.world.note(f"{machine.name}: {row}: {words}")
        self.repairs.end = machine.end
        if isinstance(self.store, RottingStore):
            self.store.on_rot = self.repairs.noticed
            self._scrub_soon(self.store)

    def rot(self, kind: FaultKind) -> None:
        super().rot(kind)
        assert isinstance(self.store, RottingStore)
        self._scrub_soon(self.store)

    def _scrub_soon(self, store: RottingStore) -> None:
        if store.rotten:
            self.machine.truncated = True
            self.call_later(SCRUB_MS, partial(store.scrub, b"", MANY_ROWS, self._scrubbed))

    def _scrubbed(self, page: ScrubPage) -> None:
        for row in page.rotten:
            self.repairs.noticed(row)

    def ask(self, to: int, request: MemberRequest, answered: Callable[[MemberReply], None]) -> None:
        """The transport of member requests."""
        self.machine.network.ask(self, to, request, answered)

    def _reconfigured(self, key: bytes, _before: KeyState, _after: KeyState) -> None:
        if key == CONFIG_KEY:
            still = learners(self.replica.config)
            self.reading = {reader: after for reader, after in self.reading.items() if reader in still}

    def lost_rows(self, request: MemberRequest, reply: MemberReply) -> bool:
        """Whether a learner that reads here is told that its place in the changelog is gone, although no fault took it.
        A request that arrives after the next one was answered does not count."""
        if not isinstance(request, SnapshotRead | ChangelogRead):
            return False
        after = request.after if isinstance(request, ChangelogRead) else NO_STAMP
        furthest = self.reading.get(request.reader)
        self.begun.setdefault(request.reader, after)
        if isinstance(reply, CursorTruncated):
            return furthest is not None and after >= furthest and not self.machine.truncated
        if request.reader in learners(self.replica.config):
            self.reading[request.reader] = max(after, furthest or NO_STAMP)
        return False

    def is_overlong(self) -> bool:
        """Whether the changelog takes more than it may, and begins with a row that no replica has ever read here, or is
        still to read."""
        view, space = self.store.newest(), self.member.space
        oldest, newest = self.replica.keyspace.truncated(view), space.newest(view)
        whole = space.measure(view, ChangelogSize(through=oldest, size=0), newest, MANY_ROWS, UNLIMITED)
        is_wanted = learners(self.replica.config) or oldest >= min(self.begun.values(), default=newest)
        return whole.size > self.machine.kept_bytes and not is_wanted

    def truncate(self) -> None:
        self.machine.truncated = True
        newest = self.member.space.newest(self.store.newest())
        self.member.key_sync.gc.remove(newest, MANY_ROWS, UNLIMITED)
