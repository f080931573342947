"""Runs flows: generators that yield effects (`protocol.effects`) and are resumed with their results.

The runner has no event loop of its own. Everything happens in callbacks of the store, the transport and the clock, one
at a time, so production (asyncio) and simulation (virtual time) run this same code.

A flow that raises has a bug, or met one. It ends with a result that says so: its client is answered, what waits behind
it goes on, and what must run for ever is begun again. It is counted, and reported once with its traceback. Only
`StoreFailed` passes through: the process ends without another answer.
"""

from collections import Counter, deque
from collections.abc import Callable, Generator, Mapping
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from epoxy.model.errors import InvariantViolation, RottenRow, StoreFailed, StoreUnavailable
from epoxy.model.instances import InstanceId
from epoxy.model.messages import Reply
from epoxy.ports import Clock, Timer
from epoxy.protocol.effects import Also, Answer, Event, Expired, Local, News, Next, Open, Pause, Tell

T = TypeVar("T")

Done = Callable[[object], None]

EXPIRED = Expired()
NEWS = News()

FLOWS = ("write", "read", "transaction", "recovery", "term_end", "learner", "coordinator", "mirror", "backup")
"""The names under which failures are counted."""


def propagate(_flow: str, error: Exception) -> None:
    """The default of `FlowFailures.report`: tests and simulations stop at the exception."""
    raise error


def reason_of(error: Exception) -> str:
    """For the client of a flow that raised."""
    return (
        str(error) if isinstance(error, InvariantViolation | RottenRow | StoreUnavailable) else f"failed at {error!r}"
    )


class FlowFailures:
    """Of one node. `count`: by the name of the flow."""

    def __init__(self, alarm: Callable[[str], None]) -> None:
        self.count: Counter[str] = Counter(dict.fromkeys(FLOWS, 0))
        self.report: Callable[[str, Exception], None] = propagate
        self._alarm = alarm

    def ended(self, flow: str, error: Exception, end: Callable[[], None]) -> None:
        """To be called in the `except` block, so that the report has the traceback. `end` gives the flow its result. A
        rotten row is no bug, and is reported when it is found; so is a database that does not answer."""
        if isinstance(error, RottenRow | StoreUnavailable):
            end()
            return
        self.count[flow] += 1
        try:
            end()
        finally:
            if isinstance(error, InvariantViolation):
                self._alarm(str(error))
            else:
                self.report(flow, error)


class FlowHost(Protocol):
    """The engine that a flow belongs to: it sends, and performs effects that only its own flows yield."""

    @property
    def clock(self) -> Clock: ...

    @property
    def failures(self) -> FlowFailures: ...

    def perform(self, effect: Any, done: Done) -> None:
        """Call `done` once, now or later, with the result."""

    def send(self, to: int, message: Any, answered: Callable[[Reply], None] | None) -> None: ...


class InstanceWatcher(Protocol):
    """The engine of flows that wait with `Next(watching=...)`."""

    def watch(self, ids: tuple[InstanceId, ...], tell: Callable[[], None]) -> None: ...

    def unwatch(self, ids: tuple[InstanceId, ...], tell: Callable[[], None]) -> None: ...


class FlowRunner(Generic[T]):
    """Runs one flow. A result that arrives while the flow is running waits in line, so the flow is never re-entered.

    `finished` is called once, with what the flow returned, or with `failed(reason)` if it raised. After `stop` it is
    not called."""

    def __init__(
        self,
        host: FlowHost,
        name: str,
        flow: Generator[Any, Any, T],
        failed: Callable[[str], T],
        finished: Callable[[T], None],
        watcher: InstanceWatcher | None = None,
    ) -> None:
        self._host = host
        self._name = name
        self._flow = flow
        self._failed = failed
        self._finished = finished
        self._watcher = watcher
        self._watched: tuple[InstanceId, ...] = ()
        self._results: deque[object] = deque()
        self._events: deque[Event] = deque()
        self._round = 0
        self._timer: Timer | None = None
        self._running = False
        self._waiting = False
        self._over = False

    def start(self) -> None:
        self._resume(None)

    def stop(self) -> None:
        """Cancel: later replies and results are ignored, and `finished` is not called."""
        self._over = True
        self._close_round()

    def _resume(self, result: object) -> None:
        self._results.append(result)
        if self._running or self._over:
            return
        self._running = True
        try:
            while self._results and not self._over:
                self._perform(self._flow.send(self._results.popleft()))
        except StopIteration as stop:
            self._finish(stop.value)
        except StoreFailed:
            raise
        except Exception as error:
            self._host.failures.ended(self._name, error, partial(self._finish, self._failed(reason_of(error))))
        finally:
            self._running = False

    def _finish(self, result: T) -> None:
        if not self._over:
            self.stop()
            self._finished(result)

    def _perform(self, effect: object) -> None:
        """The commonest first: this runs for every step of every contended write."""
        match effect:
            case Next():
                if effect.watching or self._watched:
                    self._watch(effect.watching)
                if self._events:
                    self._results.append(self._events.popleft())
                else:
                    self._waiting = True
            case Local():
                self._host.perform(effect, self._resume)
            case Open():
                self._close_round()
                self._start_timer(effect.timer_ms)
                self._send(effect.envelopes)
                self._results.append(None)
            case Tell():
                for to, message in effect.envelopes.items():
                    self._host.send(to, message, None)
                self._results.append(None)
            case Also():
                self._ask_more(effect)
                self._results.append(None)
            case Pause() if effect.key is None:
                self._host.clock.call_later(effect.delay_ms, partial(self._resume, None))
            case _:
                self._host.perform(effect, self._resume)

    def _ask_more(self, effect: Also[Any]) -> None:
        if effect.timer_ms is not None and effect.key is not None:
            self._stop_timer()
            pause = Pause(delay_ms=effect.timer_ms, key=effect.key, version=effect.version)
            self._host.perform(pause, partial(self._rang, self._round))
        elif effect.timer_ms is not None:
            self._start_timer(effect.timer_ms)
        self._send(effect.envelopes)

    def _close_round(self) -> None:
        self._round += 1
        self._events.clear()
        if self._watched:
            self._watch(())
        self._stop_timer()

    def _watch(self, ids: tuple[InstanceId, ...]) -> None:
        if ids != self._watched:
            assert self._watcher is not None, "only flows of an engine that watches instances wait for news"
            self._watcher.unwatch(self._watched, self._news)
            self._watched = ids
            self._watcher.watch(ids, self._news)

    def _news(self) -> None:
        if self._watched:
            self._happened(self._round, NEWS)

    def _start_timer(self, delay_ms: float) -> None:
        self._stop_timer()
        self._timer = self._host.clock.call_later(delay_ms, partial(self._happened, self._round, EXPIRED))

    def _rang(self, round_number: int, _: object) -> None:
        self._happened(round_number, EXPIRED)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self, envelopes: Mapping[int, Any]) -> None:
        for to, message in envelopes.items():
            self._host.send(to, message, partial(self._answered, self._round, to))

    def _answered(self, round_number: int, sender: int, reply: Reply) -> None:
        self._happened(round_number, Answer(sender, reply))

    def _happened(self, round_number: int, event: Event) -> None:
        if round_number != self._round:
            return
        if self._waiting:
            self._waiting = False
            self._resume(event)
        else:
            self._events.append(event)
