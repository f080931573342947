"""Runs flows: turns their effects into transactions, messages and timers, and feeds the results back.

No event loop of its own. Everything happens in callbacks of the store, the transport and the clock, one at a time, so
production (asyncio) and simulation (virtual time) run this same code.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar, assert_never

from epoxy.model.errors import StoreFailed
from epoxy.model.messages import Prepare, Reply
from epoxy.model.records import KeyState, Proposal
from epoxy.model.writes import ConsensusFailed, Consistency, Outcome, ReadFailed, ReadOutcome, Refused, Write
from epoxy.node.keys.quiet_read import QuietRead
from epoxy.node.keys.replica import Replica
from epoxy.node.keys.uncontended import RoundPlan, Uncontended
from epoxy.node.observer import Observer, Unobserved
from epoxy.ports import Clock, Dice, Timer, Transport
from epoxy.protocol.keys import reader
from epoxy.protocol.keys.effects import (
    Also,
    Answer,
    Context,
    Effect,
    Envelopes,
    Event,
    Expired,
    Flow,
    Home,
    Next,
    Open,
    Pause,
    Tell,
    Timing,
)
from epoxy.runtime.flow_failures import FlowFailures, reason_of

T = TypeVar("T")

EXPIRED = Expired()

Change = Callable[[Proposal | None], Write | None]
"""From the newest version this replica holds to the write that is to replace it. None: nothing is to be written."""

UNBEGUN = Refused(reason="its turn among the writes of its key did not come in time; it was dropped")

UNCHANGED = Refused(reason="nothing was to be written")

MAX_QUEUED_PER_KEY = 256
"""Writes of one key that wait for each other here. A WAN round takes 100 ms, so the last would wait half a minute."""


class Turn(Protocol):
    """Of a write that waits for others."""

    def wait(self) -> None:
        """It does."""

    def begin(self) -> bool:
        """It could begin now. False: nobody wants it any more, and it must not."""


class AnyTime:
    """What nobody's patience limits."""

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
        self._standing: RoundPlan | None = None
        # By key, what begins the writes that wait for the one under way; None: there are none.
        self._queues: dict[bytes, deque[Callable[[], None]] | None] = {}
        self._sleepers: dict[bytes, list[tuple[int, Callable[[], None]]]] = {}
        replica.commit_watchers.append(self._wake)

    def write(self, write: Write, answered: Callable[[Outcome], None], turn: Turn = AT_ANY_TIME) -> None:
        """Writes of one key queue here: rivals within a replica would only cost each other the fast round. `turn`: who
        says whether one that had to wait is still wanted."""
        key = write.key
        if key not in self._queues:
            self._queues[key] = None
            self._begin(write, answered)
        else:
            self._enqueue(key, partial(self._begin, write, answered), answered, turn)

    def update(
        self,
        key: bytes,
        change: Change,
        answered: Callable[[Outcome], None],
        *,
        again: bool,
        turn: Turn = AT_ANY_TIME,
    ) -> None:
        """A write that follows from the version before it. It is worked out when its turn among the writes of its key
        has come: otherwise each one that waits here would be overtaken by all those before it. One that was overtaken
        from elsewhere is tried `again` before those that still wait."""
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
            QuietRead(self, key, self.current(), answered).start()
        else:
            self.reading(reader.read(key, consistency, self._context()), answered)

    def reading(self, flow: Flow[ReadOutcome], answered: Callable[[ReadOutcome], None]) -> None:
        Run(self, "read", flow, lambda reason: ReadFailed(reason=reason), answered).start()

    def sleep(self, pause: Pause, wake: Callable[[], None]) -> None:
        """Until the time is over or the key has moved on, whichever is first."""
        entry = (pause.version, wake)
        sleepers = self._sleepers.setdefault(pause.key, [])
        sleepers.append(entry)

        def time_is_over() -> None:
            if entry in sleepers:
                sleepers.remove(entry)
                if not sleepers and self._sleepers.get(pause.key) is sleepers:
                    del self._sleepers[pause.key]
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

    def flow(self, flow: Flow[Outcome], finished: Callable[[Outcome], None]) -> "Run[Outcome]":
        """A write, from wherever the flow begins."""
        return Run(self, "write", flow, lambda reason: ConsensusFailed(reason=reason), finished)

    def finished(self, write: Uncontended, outcome: Outcome) -> None:
        path = None if isinstance(outcome, ConsensusFailed | Refused) else outcome.path
        prepares = write.run.prepares if write.run is not None else 0
        seconds, retries = (self.clock.now_ms() - write.begun_ms) / 1000, max(0, prepares - 1)
        self.observer.proposal_done(
            type(outcome).__name__, path, seconds, prepares=prepares, retries=retries, bumps=retries
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
        """Whatever the change comes to, those who wait for the key have their turn."""
        try:
            write = change(self.replica.newest(key))
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
        Uncontended(self, write, self.current(), self.clock.now_ms(), answered).start()

    def current(self) -> RoundPlan:
        standing, config = self._standing, self.replica.config
        if standing is None or standing.config is not config or standing.timing is not self.timing:
            standing = self._standing = RoundPlan(self._context())
        return standing

    def _context(self) -> Context:
        return Context(me=self.replica.me, config=self.replica.config, dice=self._dice, timing=self.timing)


class Run(Generic[T]):
    """One flow on its way. Results that arrive while the flow is running wait in line, so it is never re-entered."""

    def __init__(
        self,
        driver: Driver,
        name: str,
        flow: Flow[T],
        broken: Callable[[str], T],
        finished: Callable[[T], None],
    ) -> None:
        self._driver = driver
        self._name = name
        self._flow = flow
        self._broken = broken
        self._finished = finished
        self._results: deque[object] = deque()
        self._events: deque[Event] = deque()
        self.prepares = 0
        self._round = 0
        self._timer: Timer | None = None
        self._pumping = False
        self._waiting = False
        self._over = False

    def start(self) -> None:
        self._feed(None)

    def _feed(self, result: object) -> None:
        """What was asked for before a flow raised may still come back: to one that is over it means nothing."""
        self._results.append(result)
        if self._pumping or self._over:
            return
        self._pumping = True
        try:
            while self._results:
                self._perform(self._flow.send(self._results.popleft()))
        except StopIteration as stop:
            self._finish(stop.value)
        except StoreFailed:
            raise
        except Exception as error:
            self._driver.failures.ended(self._name, error, partial(self._finish, self._broken(reason_of(error))))
        finally:
            self._pumping = False

    def _finish(self, value: T) -> None:
        self._over = True
        self._close_round()
        self._finished(value)

    def _perform(self, effect: Effect) -> None:
        """The commonest first: this is walked through for every step of every write."""
        match effect:
            case Next():
                if self._events:
                    self._results.append(self._events.popleft())
                else:
                    self._waiting = True
            case Home():
                self._driver.replica.perform(effect.op, self._feed)
            case Open():
                self._open_round(effect)
                self._results.append(None)
            case Tell():
                for to, requests in effect.envelopes.items():
                    self._driver.transport.send(to, requests, None)
                self._results.append(None)
            case Also():
                self._send(effect.envelopes)
                self._results.append(None)
            case Pause():
                self._driver.sleep(effect, partial(self._feed, None))
            case _:
                assert_never(effect)

    def _open_round(self, effect: Open) -> None:
        self._close_round()
        if is_prepare(effect.envelopes):
            self.prepares += 1
        self._timer = self._driver.clock.call_later(effect.timer_ms, partial(self._happened, self._round, EXPIRED))
        self._send(effect.envelopes)

    def _close_round(self) -> None:
        self._round += 1
        self._events.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self, envelopes: Envelopes) -> None:
        """Own messages never touch the network."""
        replica, transport = self._driver.replica, self._driver.transport
        for to, requests in envelopes.items():
            answered = partial(self._answered, self._round, to)
            if to == replica.me:
                replica.handle(requests, answered)
            else:
                transport.send(to, requests, answered)

    def _answered(self, round_number: int, sender: int, reply: Reply) -> None:
        self._happened(round_number, Answer(sender, reply))

    def _happened(self, round_number: int, event: Event) -> None:
        if round_number != self._round:
            return
        if self._waiting:
            self._waiting = False
            self._feed(event)
        else:
            self._events.append(event)


def is_prepare(envelopes: Envelopes) -> bool:
    """A round asks everybody for the same."""
    for requests in envelopes.values():
        return isinstance(requests[-1], Prepare)
    return False
