"""The judge of what actors keep: on a clock of its own, and with all that replicas ever held before it."""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable

from epoxy.codec import home_records
from epoxy.model.actors import RESERVATION_KEYS
from epoxy.model.envoy_messages import Start
from epoxy.model.homes import DATACENTER_KEYS, HOME_KEYS, STATE_KEYS, HomeRecord, StateRecord
from epoxy.model.records import KeyState, Proposal
from epoxy.model.writes import Committed, Outcome, ReadAnswer, ReadResult, VersionMismatch
from epoxy_sim.keys.judge import Judge
from epoxy_sim.placement.workload import CHANGES, ActorDoes, ActorReport, ActorTask, Form, form_of
from epoxy_sim.simulation import Violation
from epoxy_sim.world import World

MARK = re.compile(rb"#\d{6}")


class AcknowledgedList:
    """What clients were told of one list, in the order of time. All they were told are beginnings of `longest`."""

    def __init__(self) -> None:
        self.longest: tuple[str, ...] = ()
        self.changes: set[str] = set()
        """Marks whose requests were acknowledged."""
        self._told_us: list[int] = []
        self._most: list[int] = []
        """How long the longest was at each of these times."""

    def told(self, now_us: int, marks: tuple[str, ...]) -> None:
        if len(marks) > len(self.longest):
            self.longest = marks
        self._told_us.append(now_us)
        self._most.append(len(self.longest))

    def before(self, asked_us: int) -> int:
        """How long the longest was that was told before then."""
        at = bisect_left(self._told_us, asked_us)
        return self._most[at - 1] if at else 0


class StateJudge(Judge):
    """One for all replicas of a run."""

    def __init__(self, world: World, held: Callable[[int], bytes | None]) -> None:
        """`held`: the incarnation of the lease that a datacenter believes in now."""
        super().__init__()
        self._world = world
        self._held_by = held
        self._leases: dict[int, dict[int, bytes | None]] = defaultdict(dict)
        """By datacenter, the incarnation in each version of its lease; None: over."""
        self.over: set[bytes] = set()
        """Incarnations of leases that are over."""
        self._named: set[bytes] = set()
        """Incarnations that a record of a home names."""
        self._documents: dict[bytes, dict[int, StateRecord]] = defaultdict(dict)
        """By actor, the record of each version of its state that was seen."""
        self._floors: dict[bytes, dict[int, int]] = defaultdict(dict)
        """By actor, the version with which a generation began: what is written above it is its own, or later."""
        self._homes: dict[bytes, dict[int, HomeRecord]] = defaultdict(dict)
        """By name, the home of each epoch."""
        self._held: dict[bytes, set[str]] = defaultdict(set)
        """By actor, the marks in any version of its state."""
        self._lists: dict[str, AcknowledgedList] = defaultdict(AcknowledgedList)
        self.broken: set[str] = set()
        """Marks of turns that fail after they have added them."""
        self.saves = self.answers = self.alarms = 0

    # What replicas hold

    def durable(self, replica: int, key: bytes, state: KeyState) -> None:
        super().durable(replica, key, state)
        self._look(key, state.committed)

    def told(self, key: bytes, outcome: Outcome | ReadAnswer) -> None:
        """A node was answered: a write is decided before any replica holds it as committed."""
        if isinstance(outcome, Committed):
            self._look(key, outcome.proposal)
        elif isinstance(outcome, VersionMismatch | ReadResult):
            self._look(key, outcome.committed)

    def _look(self, key: bytes, committed: Proposal | None) -> None:
        if committed is not None and key.startswith(DATACENTER_KEYS):
            self._leased(int.from_bytes(key[len(DATACENTER_KEYS) :], "big"), committed)
        if committed is None or committed.value is None:
            return
        if key.startswith(STATE_KEYS):
            self._saved(key[len(STATE_KEYS) :], committed.version, home_records.decode_state(committed.value))
        elif key.startswith(HOME_KEYS):
            self._moved(key, home_records.decode_home(committed.value))
        elif key.startswith(RESERVATION_KEYS):
            self._named.add(home_records.decode_home(committed.value).lease)

    def _saved(self, actor_id: bytes, version: int, record: StateRecord) -> None:
        """Versions are written by generations that do not fall, and none below the generation that began there."""
        known = self._documents[actor_id]
        if version in known:
            return
        for other, before in known.items():
            first, second = (before, record) if other < version else (record, before)
            if (before.generation, before.number) == (record.generation, record.number) and before != record:
                raise Violation("one-writer", f"{actor_id.hex()}: {record.generation}, save {record.number}, twice")
            if first.generation > second.generation:
                what = f"version {other} of generation {before.generation}, {version} of {record.generation}"
                raise Violation("one-writer", f"{actor_id.hex()}: {what}")
        known[version] = record
        self._held[actor_id] |= marks_in(record.document)
        self.saves += 1
        self._above_floors(actor_id)

    def starts(self, start: Start) -> None:
        """A generation is told to begin with this state."""
        actor_id = bytes.fromhex(start.actor_id)
        form = form_of(start.name)
        if form is not Form.LOCAL:
            self._floors[actor_id].setdefault(start.version, start.generation)
            self._above_floors(actor_id)
        held = marks_in(start.state or b"")
        begins = ActorReport(form=form, actor_id=start.actor_id, generation=start.generation, marks=())
        missing = self._lists[begins.life].changes - held
        if missing:
            what = f"generation {start.generation} begins with version {start.version}, without {sorted(missing)}"
            raise Violation("lost", f"{start.actor_id}: {what}, which were acknowledged")

    def _above_floors(self, actor_id: bytes) -> None:
        """A raise leaves the record of an earlier generation as it is."""
        known = self._documents[actor_id]
        for floor, generation in self._floors[actor_id].items():
            left = [record for version, record in known.items() if version <= floor]
            for version, record in known.items():
                if version > floor and record.generation < generation and record not in left:
                    what = f"generation {record.generation} wrote version {version}"
                    raise Violation("one-writer", f"{actor_id.hex()}: {what}, and {generation} began with {floor}")

    def _leased(self, label: int, committed: Proposal) -> None:
        """When the end of a lease is decided, its datacenter does not believe in it any more. It is written again only
        if no record names it: its datacenter never learned that it had it."""
        known = self._leases[label]
        if committed.version in known:
            return
        value = committed.value
        known[committed.version] = home_records.decode_lease(value).incarnation if value is not None else None
        newest = known[max(known)]
        if newest in self.over:
            if newest in self._named:
                raise Violation("lease", f"datacenter {label} took {newest.hex()} again, whose end was decided")
            self.over.discard(newest)
        for incarnation in {each for each in known.values() if each is not None and each != newest} - self.over:
            self.over.add(incarnation)
            if self._held_by(label) == incarnation:
                raise Violation("lease", f"datacenter {label} believes in {incarnation.hex()}, whose end is decided")

    def serves(self, label: int) -> None:
        """A datacenter passes something on to an actor: only while its lease is in force."""
        incarnation = self._held_by(label)
        if incarnation is None or incarnation in self.over:
            raise Violation("lease", f"datacenter {label} serves an actor, and holds no lease")

    def _moved(self, name: bytes, record: HomeRecord) -> None:
        self._named.add(record.lease)
        known = self._homes[name].setdefault(record.epoch, record)
        if known != record:
            raise Violation("one-home", f"{name!r} has two homes in epoch {record.epoch}: {known} and {record}")

    # What clients are told

    def leaves(self, report: ActorReport) -> None:
        """An answer leaves its worker: what it rests on is decided."""
        if report.form is Form.LOCAL:
            return
        actor_id = bytes.fromhex(report.actor_id)
        missing = [mark for mark in report.marks if mark not in self._held[actor_id]]
        if missing:
            raise Violation("too-soon", f"{report.actor_id} answers with {missing}, which no replica holds")

    def overdue(self, actor_id: bytes, now_ms: int) -> bool:
        """Whether its state has an alarm that should have rung."""
        known = self._documents[actor_id]
        alarm_ms = known[max(known)].alarm_ms if known else 0
        return 0 < alarm_ms < now_ms

    def rang(self, actor_id: str, at_ms: int, now_ms: int) -> None:
        """Its alarm, which the state says is due then."""
        self.alarms += 1
        if now_ms < at_ms:
            raise Violation("alarm", f"{actor_id} rang at {now_ms} for {at_ms}")

    def answered(self, asked_us: int, task: ActorTask, report: ActorReport) -> None:
        """All answers of an actor are beginnings of one list, in the order of time, with each mark once."""
        self.answers += 1
        if len(set(report.marks)) != len(report.marks):
            raise Violation("doubled", f"{report.actor_id} has {report.marks}")
        if task.does in CHANGES and task.mark not in report.marks:
            raise Violation("lost", f"{report.actor_id} was given {task.mark}, and says {report.marks}")
        if broken := self.broken & set(report.marks):
            raise Violation("not-undone", f"{report.actor_id} has {broken}, of turns that failed")
        if task.does is not ActorDoes.NOTHING:
            self._agree(asked_us, task, report)

    def _agree(self, asked_us: int, task: ActorTask, report: ActorReport) -> None:
        known, marks = self._lists[report.life], report.marks
        shorter = min(len(known.longest), len(marks))
        if known.longest[:shorter] != marks[:shorter]:
            raise Violation("two-lists", f"{report.actor_id}: {known.longest} and {marks}")
        if len(marks) < known.before(asked_us):
            what = f"{task.mark} was told {marks}, and before it was asked another was told more"
            raise Violation("lost", f"{report.actor_id}: {what}")
        known.told(self._world.now_us, marks)
        if task.does in CHANGES:
            known.changes.add(task.mark)


def marks_in(document: bytes) -> set[str]:
    """Marks are found in a document of any form."""
    return {mark.decode() for mark in MARK.findall(document)}
