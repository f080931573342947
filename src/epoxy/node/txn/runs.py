"""One flow of the ordered engine on its way."""

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, Protocol, TypeVar, assert_never

from epoxy.model.errors import StoreFailed
from epoxy.model.instances import InstanceId, OrderedRequest
from epoxy.model.messages import Reply
from epoxy.ports import Clock, Timer
from epoxy.protocol.txn.effects import (
    Also,
    Answer,
    Effect,
    Event,
    Expired,
    Flow,
    Home,
    News,
    Next,
    Open,
    Pause,
    Rescue,
    Tell,
)
from epoxy.runtime.flow_failures import FlowFailures

T = TypeVar("T")


class Engine(Protocol):
    """What a flow needs of whoever runs it."""

    clock: Clock
    failures: FlowFailures

    def perform(self, effect: Home, done: Callable[[object], None]) -> None: ...

    def send(self, to: int, request: OrderedRequest, answered: Callable[[Reply], None] | None) -> None: ...

    def rescue(self, ids: tuple[InstanceId, ...]) -> None: ...

    def watch(self, ids: tuple[InstanceId, ...], tell: Callable[[], None]) -> None: ...

    def unwatch(self, ids: tuple[InstanceId, ...], tell: Callable[[], None]) -> None: ...


class Run(Generic[T]):
    """One flow on its way. Results that arrive while it is running wait in line, so it is never re-entered.

    `finished` is called once, also if the flow raises; `broken` is its result then."""

    def __init__(self, engine: Engine, name: str, flow: Flow[T], broken: T, finished: Callable[[T], None]) -> None:
        self._engine = engine
        self._name = name
        self._flow = flow
        self._broken = broken
        self._finished = finished
        self._results: deque[object] = deque()
        self._events: deque[Event] = deque()
        self._round = 0
        self._timer: Timer | None = None
        self._pumping = False
        self._stopped = False
        self._waiting = False
        self._watching: tuple[InstanceId, ...] = ()

    def start(self) -> None:
        self._feed(None)

    def stop(self) -> None:
        """Whatever comes back from now on is nobody's. Its `finished` is not called."""
        self._stopped = True
        self._close()

    def news(self) -> None:
        if self._watching:
            self._happened(self._round, News())

    def _feed(self, result: object) -> None:
        self._results.append(result)
        if self._pumping or self._stopped:
            return
        self._pumping = True
        try:
            while self._results and not self._stopped:
                self._perform(self._flow.send(self._results.popleft()))
        except StopIteration as stop:
            self._finish(stop.value)
        except StoreFailed:
            raise
        except Exception as error:
            self._engine.failures.ended(self._name, error, partial(self._finish, self._broken))
        finally:
            self._pumping = False

    def _finish(self, result: T) -> None:
        """Once: what was asked for before the flow raised may still come back."""
        stopped, self._stopped = self._stopped, True
        self._close()
        if not stopped:
            self._finished(result)

    def _perform(self, effect: Effect) -> None:
        engine = self._engine
        match effect:
            case Next():
                self._watch(effect.watching)
                if self._events:
                    self._results.append(self._events.popleft())
                else:
                    self._waiting = True
            case Home():
                engine.perform(effect, self._feed)
            case Pause():
                engine.clock.call_later(effect.delay_ms, partial(self._feed, None))
            case _:
                self._perform_at_once(effect)
                self._results.append(None)

    def _perform_at_once(self, effect: Open | Also | Tell | Rescue) -> None:
        match effect:
            case Open():
                self._close()
                self._send(effect.envelopes)
                self._start_timer(effect.timer_ms)
            case Also():
                self._send(effect.envelopes)
                self._start_timer(effect.timer_ms)
            case Tell():
                for to, request in effect.envelopes.items():
                    self._engine.send(to, request, None)
            case Rescue():
                self._engine.rescue(effect.ids)
            case _:
                assert_never(effect)

    def _close(self) -> None:
        self._round += 1
        self._events.clear()
        self._watch(())
        self._stop_timer()

    def _watch(self, ids: tuple[InstanceId, ...]) -> None:
        if ids != self._watching:
            self._engine.unwatch(self._watching, self.news)
            self._watching = ids
            self._engine.watch(ids, self.news)

    def _start_timer(self, delay_ms: float) -> None:
        self._stop_timer()
        self._timer = self._engine.clock.call_later(delay_ms, partial(self._happened, self._round, Expired()))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self, envelopes: Mapping[int, OrderedRequest]) -> None:
        for to, request in envelopes.items():
            self._engine.send(to, request, partial(self._answered, self._round, to))

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
