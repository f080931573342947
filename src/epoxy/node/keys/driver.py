"""The per-key engine of one replica: queues the writes of a key, and hosts the flows of writes and reads."""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Protocol

from epoxy.model.errors import RottenRow
from epoxy.model.messages import Reply
from epoxy.model.records import KeyState, Proposal
from epoxy.model.writes import ConsensusFailed, Consistency, Outcome, ReadFailed, ReadOutcome, Refused, Write
from epoxy.node.keys.direct_round import RoundPlan
from epoxy.node.keys.quiet_read import QuietRead
from epoxy.node.keys.replica import Replica
from epoxy.node.keys.uncontended import Uncontended
from epoxy.node.observer import Observer, Unobserved
from epoxy.ports import Clock, Dice, Transport
from epoxy.protocol.effects import Context, Local, Pause, Timing
from epoxy.protocol.keys import reader
from epoxy.protocol.keys.effects import Effect, Flow, Requests
from epoxy.protocol.keys.restoring import highest_seen, read_from_others
from epoxy.runtime.flow import Done, FlowFailures, FlowRunner

Change = Callable[[Proposal | None], Write | None]
"""From the newest version this replica holds to the write that is to replace it. None: nothing is to be written."""

UNBEGUN = Refused(reason="its turn among the writes of its key did not come in time; it was dropped")

UNCHANGED = Refused(reason="nothing was to be written")

MAX_QUEUED_PER_KEY = 256
"""Writes of one key that wait for each other here. A WAN round takes 100 ms, so the last would wait half a minute."""


class Turn(Protocol):
    """Of a write in the queue of its key. A Ticket of `runtime.admission` is one."""

    def wait(self) -> None:
        """The write was queued."""

    def begin(self) -> bool:
        """The write could begin now. False: its client was answered that it was dropped, so it must not."""


class AnyTime:
    """For writes without a time limit."""

    def wait(self) -> None:
        pass

    def begin(self) -> bool:
        return True


AT_ANY_TIME = AnyTime()


class Driver:
    def __init__(
        self,
        replica: Replica,
        transport: Transport,
        clock: Clock,
        dice: Dice,
        timing: Timing,
        alarm: Callable[[str], None],
    ) -> None:
        self.replica = replica
        self.transport = transport
        self.clock = clock
        self._dice = dice
        self.timing = timing
        self.failures = FlowFailures(alarm)
        self.observer: Observer = Unobserved()
        self._plan: RoundPlan | None = None
        # By key, the functions that begin the writes queued behind the one under way; None: there are none.
        self._queues: dict[bytes, deque[Callable[[], None]] | None] = {}
        self._sleepers: dict[bytes, list[tuple[int, Callable[[], None]]]] = {}
        replica.commit_watchers.append(self._wake)

    def write(self, write: Write, answered: Callable[[Outcome], None], turn: Turn = AT_ANY_TIME) -> None:
        """Writes of one key queue here: rivals within a replica would only cost each other the fast round. `turn` says
        whether a write that had to wait may still begin."""
        key = write.key
        if key not in self._queues:
            self._queues[key] = None
            self._begin(write, answered)
        else:
            self._enqueue(key, partial(self._begin, write, answered), answered, turn)

    def update(
        self, key: bytes, change: Change, answered: Callable[[Outcome], None], *, again: bool, turn: Turn = AT_ANY_TIME
    ) -> None:
        """A write that follows from the version before it. It is computed when its turn among the writes of its key has
        come: otherwise each write in the queue would be overtaken by all those before it. A write that was overtaken by
        one of another replica is tried `again` before those in the queue."""
        begin = partial(self._begin_update, key, change, answered)
        if key not in self._queues:
            self._queues[key] = None
            begin()
        elif again:
            turn.wait()
            self._queue_of(key).appendleft(partial(self._begin_if_wanted, key, begin, answered, turn))
        else:
            self._enqueue(key, begin, answered, turn)

    def _enqueue(self, key: bytes, begin: Callable[[], None], answered: Callable[[Outcome], None], turn: Turn) -> None:
        queue = self._queue_of(key)
        if len(queue) + 1 >= MAX_QUEUED_PER_KEY:
            answered(Refused(reason=f"{len(queue) + 1} writes are waiting for this key already"))
        else:
            turn.wait()
            queue.append(partial(self._begin_if_wanted, key, begin, answered, turn))

    def _queue_of(self, key: bytes) -> deque[Callable[[], None]]:
        queue = self._queues[key]
        if queue is None:
            queue = self._queues[key] = deque()
        return queue

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadOutcome], None]) -> None:
        if consistency is Consistency.LINEARIZABLE:
            QuietRead(self, key, self.plan(), answered).start()
        else:
            self.run_read(reader.read(key, consistency, self._context()), answered)

    def read_from_others(self, key: bytes, answered: Callable[[ReadOutcome], None]) -> None:
        """What a quorum without this replica knows of a key, whose committed row cannot be read here."""
        above = highest_seen(*self.replica.in_flight(key))
        self.run_read(read_from_others(key, above, self._context()), answered)

    def run_read(self, flow: Flow[ReadOutcome], answered: Callable[[ReadOutcome], None]) -> None:
        FlowRunner(self, "read", flow, lambda reason: ReadFailed(reason=reason), answered).start()

    def perform(self, effect: Effect, done: Done) -> None:
        if isinstance(effect, Local):
            self.replica.perform(effect.op, done)
        else:
            assert isinstance(effect, Pause), "the runner performs all others"
            self.sleep(effect, partial(done, None))

    def send(self, to: int, requests: Requests, answered: Callable[[Reply], None] | None) -> None:
        """A request to this replica itself does not touch the network; it has an answer then."""
        if to == self.replica.me and answered is not None:
            self.replica.handle(requests, answered)
        else:
            self.transport.send(to, requests, answered)

    def sleep(self, pause: Pause, wake: Callable[[], None]) -> None:
        """Until the time is over, or the key has the version, whichever is first."""
        key, entry = pause.key, (pause.version, wake)
        assert key is not None
        sleepers = self._sleepers.setdefault(key, [])
        sleepers.append(entry)

        def time_is_over() -> None:
            if entry in sleepers:
                sleepers.remove(entry)
                if not sleepers and self._sleepers.get(key) is sleepers:
                    del self._sleepers[key]
                wake()

        self.clock.call_later(pause.delay_ms, time_is_over)

    def _wake(self, key: bytes, _before: KeyState, after: KeyState) -> None:
        if key not in self._sleepers:
            return
        sleepers = self._sleepers[key]
        for entry in [entry for entry in sleepers if entry[0] <= after.version]:
            sleepers.remove(entry)
            self.clock.call_later(0, entry[1])
        if not sleepers:
            del self._sleepers[key]

    def finished(self, write: Uncontended, outcome: Outcome) -> None:
        path = None if isinstance(outcome, ConsensusFailed | Refused) else outcome.path
        seconds, retries = (self.clock.now_ms() - write.begun_ms) / 1000, max(0, write.prepares - 1)
        self.observer.proposal_done(
            type(outcome).__name__, path, seconds, prepares=write.prepares, retries=retries, bumps=retries
        )
        self._pass_on(write.key)

    def _pass_on(self, key: bytes) -> None:
        if self._queues[key]:
            self.clock.call_later(0, partial(self._next, key))
        else:
            del self._queues[key]

    def _next(self, key: bytes) -> None:
        queue = self._queues[key]
        assert queue is not None
        queue.popleft()()

    def _begin_if_wanted(
        self, key: bytes, begin: Callable[[], None], answered: Callable[[Outcome], None], turn: Turn
    ) -> None:
        if turn.begin():
            begin()
        else:
            self._pass_on(key)
            answered(UNBEGUN)

    def _begin_update(self, key: bytes, change: Change, answered: Callable[[Outcome], None]) -> None:
        """Whatever comes of the change, the next write in the queue of the key begins."""
        try:
            write = change(self.replica.newest(key))
        except RottenRow as rot:
            self._pass_on(key)
            answered(Refused(reason=str(rot)))
            return
        except Exception as error:
            self._pass_on(key)
            answered(Refused(reason=f"failed at {error!r}"))
            raise
        if write is not None:
            self._begin(write, answered)
        else:
            self._pass_on(key)
            answered(UNCHANGED)

    def _begin(self, write: Write, answered: Callable[[Outcome], None]) -> None:
        Uncontended(self, write, self.plan(), self.clock.now_ms(), answered).start()

    def plan(self) -> RoundPlan:
        """For the configuration and the timing in force."""
        plan = self._plan
        if plan is None or plan.config is not self.replica.config or plan.timing is not self.timing:
            plan = self._plan = RoundPlan(self._context())
        return plan

    def _context(self) -> Context:
        return Context(me=self.replica.me, config=self.replica.config, dice=self._dice, timing=self.timing)
