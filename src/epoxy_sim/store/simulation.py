"""One run of the store: its commits, its crashes, and what each start finds.

The model is the list of states, one after each commit. What a start finds must be one of them, whole, and none older
than the newest that was acknowledged. A disk that is not what it was may be refused; if it is not, every read is right
or raises RottenRow, and acknowledged commits are missing only if the store's position is lower than it was: that is how
other replicas notice.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

from epoxy.model.errors import RottenRow, StoreError
from epoxy.store.embedded.scrub import ScrubPage
from epoxy.store.embedded.store import DELAY_MS, EmbeddedStore
from epoxy_sim.disk import damage
from epoxy_sim.disk.embedded_disk import FOLDER, EmbeddedDisk
from epoxy_sim.simulation import Simulation, Violation
from epoxy_sim.store.plan import StorePlan, StoreStep, StoreStepKind
from epoxy_sim.world import World

State = dict[bytes, bytes]

END = b"\xff"
MANY_ROWS = 10_000
SCRUBBED_ROWS = 7
SECOND_US = 1_000_000

DAMAGE: dict[StoreStepKind, Callable[..., None]] = {
    StoreStepKind.FLIP: damage.flip_bit,
    StoreStepKind.SECTOR: damage.change_sector,
    StoreStepKind.ZERO: damage.zero_tail,
    StoreStepKind.SHORTEN: damage.shorten,
    StoreStepKind.ROT_VALUE: damage.rot_value,
    StoreStepKind.ROT_KEY: damage.rot_key,
}

LOSING = (StoreStepKind.LIE, StoreStepKind.RESTORE, StoreStepKind.ZERO)
"""What may take acknowledged commits, if the position falls with them."""


class StoreProcess:
    """The store's clock and threads, from a start to a crash."""

    def __init__(self, world: World, dice: Random) -> None:
        self.failed: str | None = None
        self.full = self.fails = self.ended = False
        self._world = world
        self._dice = dice

    def wait_for_disk(self, then: Callable[[], None]) -> None:
        self._world.after(self._dice.randrange(50, 500), lambda: self._run(then))

    def soon(self, then: Callable[[], None]) -> None:
        self._world.after(0, lambda: self._run(then))

    def delay(self, then: Callable[[], None]) -> None:
        self._world.after(int(DELAY_MS * 1000), lambda: self._run(then))

    def disk_error(self) -> OSError | None:
        if self.full:
            return OSError(28, "no space left on the disk")
        return OSError(5, "fsync failed") if self.fails else None

    def disk_failed(self, reason: str) -> None:
        self.failed = reason

    def _run(self, then: Callable[[], None]) -> None:
        if not self.ended:
            then()


class CommitCounter:
    sent = 0


class StoreSimulation(Simulation[StorePlan]):
    network: CommitCounter

    def __init__(self, plan: StorePlan, *, tracing: bool) -> None:
        super().__init__(plan, tracing=tracing)
        self.network = CommitCounter()
        self.struck: Counter[str] = Counter()
        self.verdicts: Counter[str] = Counter()
        self._dice = Random(f"store/run/{plan.seed}")
        self._disk = EmbeddedDisk(f"store/{plan.seed}", 1, log_bytes=plan.log_bytes)
        self._copy: EmbeddedDisk | None = None
        self._states: list[State] = [{}]
        self._acknowledged = 0
        self._position = 0
        """The highest that the store reported."""
        self._done: StoreStepKind | None = None
        """What was done to the disk."""
        self._over = False

    def play(self) -> None:
        self._start()
        for step in self.plan.steps:
            if self._over:
                return
            self.world.note(step.words)
            self._play(step)
        if not self._over:
            self._crash(0.0)

    def counts(self) -> dict[str, Any]:
        return {
            "operations": self.network.sent,
            "paths": {},
            "faults": dict(self.struck),
            "verdicts": dict(self.verdicts),
        }

    def _play(self, step: StoreStep) -> None:
        match step.kind:
            case StoreStepKind.COMMIT | StoreStepKind.DELAYED:
                self._commit(step)
                return
            case StoreStepKind.WAIT:
                self._wait(int(1000 * step.share))
                return
            case StoreStepKind.FULL | StoreStepKind.FAIL:
                self._fail(step)
            case StoreStepKind.CRASH:
                self._crash(step.share)
            case StoreStepKind.LIE:
                self._done = step.kind
                self._disk.lie()
            case StoreStepKind.COPY:
                self._copy = self._disk.image()
            case StoreStepKind.RESTORE:
                self._restore()
            case _:
                self._damage(step.kind)
        self.struck[step.kind.value] += 1

    def _commit(self, step: StoreStep) -> None:
        self.network.sent += 1
        number, state = self.network.sent, dict(self._states[-1])
        rows: dict[bytes, bytes | None] = {}
        for key, size in step.rows:
            # A long key is cut in the tree; every other value is long runs of zeros.
            name = b"%02d" % key + (b"k" * 600 if key % 4 == 0 else b"")
            rows[name] = (b"%d." % number).ljust(size, b"\x00" if number % 2 else b"v") if size >= 0 else None
        for name, value in rows.items():
            if value is None:
                state.pop(name, None)
            else:
                state[name] = value
        urgent = step.kind is StoreStepKind.COMMIT
        self._store.put(rows, None, urgent=urgent)
        self._states.append(state)
        newest, process = len(self._states) - 1, self._process
        self._store.when_durable(lambda: self._acknowledge(newest, process), urgent=urgent)

    def _acknowledge(self, state: int, process: StoreProcess) -> None:
        if process.failed is not None:
            raise Violation("acknowledged after a failure", f"commit {state}, although {process.failed}")
        self._acknowledged = max(self._acknowledged, state)

    def _wait(self, for_us: int) -> None:
        """Ends early with the process."""
        until_us = self.world.now_us + for_us
        over: list[bool] = []
        self.world.after(for_us, lambda: over.append(True))
        self.world.run_until(lambda: bool(over) or self._process.failed is not None, until_us)
        if self._process.failed is not None:
            self._crash(self._dice.random())
        else:
            self._position = max(self._position, self._store.position())

    def _fail(self, step: StoreStep) -> None:
        self._process.full = step.kind is StoreStepKind.FULL
        self._process.fails = step.kind is StoreStepKind.FAIL
        process = self._process
        self._wait(SECOND_US)
        if self._process is process and not self._over:
            self._crash(step.share)

    def _end_process(self, keep: float) -> None:
        if self._process.failed is None:
            self._position = max(self._position, self._store.position())
        self._process.ended = True
        self._disk.crash(keep)

    def _crash(self, keep: float) -> None:
        self._end_process(keep)
        self._start()

    def _restore(self) -> None:
        if self._copy is None:
            return
        self._done = StoreStepKind.RESTORE
        self._end_process(0.0)
        self._disk = self._copy
        self._start()

    def _damage(self, kind: StoreStepKind) -> None:
        self._done = kind
        self._wait(SECOND_US)
        self._end_process(0.0)
        DAMAGE[kind](self._disk.volume.folder(FOLDER), self._dice)
        self._start()

    # Judgement

    def _start(self) -> None:
        self._process = StoreProcess(self.world, self._dice)
        self.world.note("start")
        try:
            self._store: EmbeddedStore = self._disk.open(self._process)
        except StoreError as refused:
            self._refused(refused)
            return
        found = self._read()
        if found is None:
            self._is_scrubbed()
            return
        if self._done is StoreStepKind.ROT_KEY and found != self._states[-1]:
            self._is_scrubbed()
            return
        self._judge(found)
        if self._done is not None:
            self._over = True

    def _refused(self, refused: StoreError) -> None:
        self._over = True
        if self._done is None:
            raise Violation("refused for nothing", str(refused))
        self.verdicts["refused"] += 1
        self.world.note(f"refused: {refused}")

    def _read(self) -> State | None:
        """Everything; None if a row is rotten. A row that can be read is right."""
        view, found, rotten = self._store.newest(), dict[bytes, bytes](), False
        known = sorted({key for state in self._states for key in state})
        for key in known:
            try:
                value = view.get(key)
            except RottenRow:
                rotten = True
                continue
            if value is not None:
                found[key] = value
            is_hidden = value is None and self._done is StoreStepKind.ROT_KEY
            if not is_hidden and all(state.get(key) != value for state in self._states):
                raise Violation("wrong value", f"{key[:10]!r} is {value!r}, which was never committed")
        rows = self._range()
        if not rotten and rows not in (None, found):
            raise Violation("wrong value", "a range and lookups differ")
        if self._done is None and (rotten or rows is None):
            raise Violation("rotten for nothing", "a row is rotten, and nothing was done to the disk")
        if rotten:
            self.verdicts["rotten rows"] += 1
        return None if rotten else found

    def _range(self) -> State | None:
        """None: a row is rotten, perhaps below a newer one that lookups find in memory."""
        try:
            return dict(self._store.newest().range(b"", END, limit=MANY_ROWS))
        except RottenRow:
            return None

    def _judge(self, found: State) -> None:
        possible = [index for index, state in enumerate(self._states) if state == found]
        if not possible:
            raise Violation("not a state", f"{sorted(found)} was never all there was")
        position = self._store.position()
        self.world.note(f"found commit {possible[-1]} of {len(self._states) - 1}, position {position}")
        if possible[-1] < self._acknowledged:
            self._lost(possible[-1], position)
        elif self._done is None and position < self._position:
            raise Violation("position falls", f"from {self._position} to {position}, and nothing is lost")
        del self._states[possible[-1] + 1 :]
        self._acknowledged = possible[-1]
        self._position = max(self._position, position)

    def _lost(self, found: int, position: int) -> None:
        missing = f"commit {self._acknowledged} was acknowledged, {found} is the last"
        if self._done is None:
            raise Violation("acknowledged is lost", missing)
        if self._done not in LOSING:
            raise Violation("damage not noticed", f"{missing}, after {self._done.value}")
        if position >= self._position:
            raise Violation("loss not noticed", f"{missing}, and the position is {position}, as before")
        self.verdicts["lower position"] += 1

    def _is_scrubbed(self) -> None:
        """A scrub finds what rotted."""
        self._over = True
        rotten: list[bytes] = []
        ended: list[bool] = []

        def scrubbed(page: ScrubPage) -> None:
            rotten.extend(page.rotten)
            if page.last is None:
                ended.append(True)
            else:
                self._store.scrub(page.last, SCRUBBED_ROWS, scrubbed)

        self._store.scrub(b"", SCRUBBED_ROWS, scrubbed)
        self.world.run_until(lambda: bool(ended) or self._process.failed is not None, self.world.now_us + SECOND_US)
        if not rotten and self._process.failed is None:
            raise Violation("rot not noticed", "a row is rotten, and a scrub of all rows finds none")
        self.verdicts["scrubbed"] += 1
