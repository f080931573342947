"""A worker's side of the envoy protocol, without IO: its messages to its node, and which actors run when.

`Worker` gives it a socket, the event loop's clock and actors that are tasks. The simulator gives it virtual ones, and
so tests this very code.
"""

from collections.abc import Callable
from typing import Protocol, assert_never

from msgspec.structs import replace

from epoxy.client.hosted import Request
from epoxy.model.actors import ActorRequest as Asked
from epoxy.model.actors import (
    Draining,
    EnvoyHello,
    FromEnvoy,
    Goodbye,
    Held,
    Ping,
    Pong,
    Rejected,
    Response,
    Running,
    Start,
    Stop,
    Stopped,
    ToEnvoy,
    Welcome,
)
from epoxy.model.errors import InvalidRequest

STOP_MS = 5_000
"""For an actor to finish what it is doing when it is told to stop; then it is cancelled."""

DRAIN_MS = 30_000
"""For actors to move before a worker leaves anyway. A supervisor that kills after 30 seconds is common."""


WELCOME_MS = 10_000
"""For a node to answer a hello. After that the connection is closed, and another is tried."""


class WorkerRefused(InvalidRequest):
    """The node refuses this worker as it is configured; trying again would not help."""


class WorkerTimer(Protocol):
    def cancel(self) -> None: ...


class WorkerClock(Protocol):
    """Monotonic: setting the wall clock does not move it."""

    def now_ms(self) -> float: ...

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> WorkerTimer: ...


class Task(Protocol):
    """The code of one actor, as it runs in this process."""

    def ask(self, request: Request) -> None: ...

    def finish(self) -> None:
        """It gets no more requests, and may finish those it has."""

    def cancel(self) -> None:
        """It is interrupted now. It has ended when its clean-up (`finally`) has."""


Ended = Callable[[bool], None]
"""Called once, when the code has ended, clean-up and all; with whether it failed."""

Begin = Callable[[Start, Ended], Task | None]
"""Runs the code of an actor. None: this worker has none under that name."""

Send = Callable[[FromEnvoy], None]


Name = tuple[str, str, str]


def name_of(start: Start) -> Name:
    return start.namespace, start.name, start.key


class Hosted:
    """One actor in this process, until its code has really ended. `successor`: a later generation, or the next actor of
    the name, which waits for that; `successor_stopped`: and was told to stop meanwhile."""

    def __init__(self, start: Start) -> None:
        self.id = start.actor_id
        self.generation = start.generation
        self.name = name_of(start)
        self.task: Task | None = None
        self.stopping = False
        self.cancelled = False
        self.successor: Start | None = None
        self.successor_stopped = False
        self.stop_timer: WorkerTimer | None = None


class EnvoyProtocol:
    """`left` is called when this worker has nothing more to do: it drained, or waited long enough."""

    def __init__(self, hello: EnvoyHello, clock: WorkerClock, begin: Begin, left: Callable[[], None]) -> None:
        self.welcome: Welcome | None = None
        self.connected = False
        self.draining = False
        self.leaving = False
        self.departed = False
        self.hello = hello
        self.warn: Callable[[str], None] = lambda _: None
        self._clock = clock
        self._begin_code = begin
        self._left = left
        self._hosted: dict[str, Hosted] = {}
        self._named: dict[Name, Hosted] = {}
        self._awaited: dict[str, Hosted] = {}
        """By the id of a successor: what it waits for."""
        self._send: Send | None = None
        self._drop: Callable[[], None] | None = None
        self._hello_ms = 0.0
        self._acknowledged_ms = 0.0
        self._rtt_ms = 0
        self._ping_due_ms = 0.0
        self._ping_timer: WorkerTimer | None = None
        self._fence_timer: WorkerTimer | None = None
        self._welcome_timer: WorkerTimer | None = None

    @property
    def hosted(self) -> list[Hosted]:
        return list(self._hosted.values())

    # The connection

    def opened(self, send: Send, drop: Callable[[], None]) -> None:
        """Sends the hello; what changes later is sent after it. `drop` aborts the connection: a dead one may look open
        for a quarter of an hour."""
        held = tuple(Held(each.id, each.generation) for each in self.hosted)
        self._hello_ms = self._clock.now_ms()
        self._send, self._drop = send, drop
        self._welcome_timer = self._clock.call_later(WELCOME_MS, drop)
        send(replace(self.hello, running=held))

    def closed(self) -> None:
        self._send = self._drop = None
        self.connected = False
        for timer in (self._ping_timer, self._welcome_timer):
            if timer is not None:
                timer.cancel()
        self._ping_timer = self._welcome_timer = None
        self._ping_due_ms = 0.0

    def heard(self, message: ToEnvoy) -> None:
        """Raises WorkerRefused. A process that stood still reads messages before its timers fire, so the fence is
        checked first."""
        self._look_at_fence()
        match message:
            case Welcome():
                self._welcomed(message)
            case Pong():
                self._acknowledged_ms = max(self._acknowledged_ms, float(message.sent_ms))
                self._rtt_ms = max(0, int(self._clock.now_ms()) - message.sent_ms)
                self._watch_fence()
            case Start():
                self._start(message)
            case Stop():
                self._stop(message)
            case Asked():
                self._ask(message)
            case Rejected():
                if not message.expired:
                    raise WorkerRefused(f"the node refused this worker: {message.message}")
            case _:
                assert_never(message)

    def _welcomed(self, welcome: Welcome) -> None:
        self.welcome = welcome
        self.connected = True
        if self._welcome_timer is not None:
            self._welcome_timer.cancel()
        self._acknowledged_ms = max(self._acknowledged_ms, self._hello_ms)
        if self.draining:
            self._say(Draining())
        self._watch_fence()
        self._ping()

    def _say(self, message: FromEnvoy) -> None:
        if self._send is not None:
            self._send(message)

    # The lease: pings, and the fence at its end

    def _ping(self) -> None:
        """By a timer of its own, whatever other messages there are: pings renew the lease of all actors here."""
        if self.connected and self.welcome is not None:
            self._tell_if_late(self.welcome)
            self._ping_due_ms = self._clock.now_ms() + self.welcome.ping_every_ms
            self._say(Ping(sent_ms=int(self._clock.now_ms()), rtt_ms=self._rtt_ms))
            self._ping_timer = self._clock.call_later(self.welcome.ping_every_ms, self._ping)

    def _tell_if_late(self, welcome: Welcome) -> None:
        """Code that blocks the event loop delays every actor of this process, and in the end costs them their lease."""
        late_ms = self._clock.now_ms() - self._ping_due_ms if self._ping_due_ms else 0.0
        if late_ms > welcome.ping_every_ms:
            lost_s = welcome.lost_after_ms / 1000
            self.warn(
                f"a ping is {late_ms / 1000:.1f} s late: this process stood still, or an actor's code blocks the event"
                f" loop; after {lost_s:g} s all actors here are cancelled"
            )

    def _watch_fence(self) -> None:
        if self._fence_timer is None and self.welcome is not None:
            left_ms = self._acknowledged_ms + self.welcome.lost_after_ms - self._clock.now_ms()
            self._fence_timer = self._clock.call_later(max(0.0, left_ms) + 1, self._fence_due)

    def _fence_due(self) -> None:
        self._fence_timer = None
        if not self._look_at_fence():
            self._watch_fence()

    def _look_at_fence(self) -> bool:
        """A node that gets no pings soon counts this worker as lost, and starts its actors elsewhere. Two of one actor
        must never run, so this worker cancels them first, and connects anew."""
        if not self._is_cut_off():
            return False
        running = sum(not each.cancelled for each in self.hosted)
        if running:
            silent_s = (self._clock.now_ms() - self._acknowledged_ms) / 1000
            self.warn(
                f"no ping of the last {silent_s:.1f} s was answered, so the lease is over: {running} actors cancelled"
            )
        for each in self.hosted:
            self._succeed(each, None)
            self._cancel(each)
        if self.connected and self._drop is not None:
            self._drop()
        return True

    def _is_cut_off(self) -> bool:
        welcome = self.welcome
        return welcome is not None and self._clock.now_ms() - self._acknowledged_ms > welcome.lost_after_ms

    # Actors

    def _start(self, start: Start) -> None:
        """A new generation, or the next actor of a name, waits until what runs here under that name has ended, its
        clean-up included."""
        held = self._named.get(name_of(start))
        if held is None:
            self._begin(start)
        elif held.id != start.actor_id or held.generation < start.generation:
            self._succeed(held, start)
            self._cancel(held)
        elif not held.cancelled:
            self._say(Running(actor_id=held.id, generation=held.generation))

    def _begin(self, start: Start) -> None:
        """Not after the lease has ended, while the message or a clean-up was waiting: the node sends the start again
        with the next lease, if the actor is still this worker's."""
        if self.leaving or self._is_cut_off():
            return
        held = Hosted(start)
        held.task = self._begin_code(start, lambda failed: self._ended(held, failed=failed))
        if held.task is None:
            self._say(Stopped(actor_id=start.actor_id, generation=start.generation, failed=True))
            return
        self._hosted[held.id] = self._named[held.name] = held
        self._say(Running(actor_id=held.id, generation=held.generation))

    def _succeed(self, held: Hosted, start: Start | None) -> None:
        """None: no successor waits any more."""
        if held.successor is not None:
            del self._awaited[held.successor.actor_id]
        held.successor, held.successor_stopped = start, False
        if start is not None:
            self._awaited[start.actor_id] = held

    def _stop(self, stop: Stop) -> None:
        """For a successor, `Stopped` is sent when its predecessor has ended: only then may others start it."""
        held, before = self._hosted.get(stop.actor_id), self._awaited.get(stop.actor_id)
        if before is not None and before.successor is not None and before.successor.generation <= stop.generation:
            before.successor_stopped = True
        if held is not None and held.generation <= stop.generation:
            self._finish(held)
        if held is None and before is None:
            self._say(Stopped(actor_id=stop.actor_id, generation=stop.generation))

    def _finish(self, held: Hosted) -> None:
        """It may finish what it has begun and what waits for it, but not for ever."""
        if not held.stopping and not held.cancelled and held.task is not None:
            held.stopping = True
            held.stop_timer = self._clock.call_later(STOP_MS, lambda: self._cancel(held))
            held.task.finish()

    def _cancel(self, held: Hosted) -> None:
        if not held.cancelled and held.task is not None:
            held.cancelled = True
            held.task.cancel()

    def _ended(self, held: Hosted, *, failed: bool) -> None:
        if held.stop_timer is not None:
            held.stop_timer.cancel()
        del self._hosted[held.id], self._named[held.name]
        cancelled = held.cancelled
        self._say(
            Stopped(actor_id=held.id, generation=held.generation, failed=failed or cancelled, cancelled=cancelled)
        )
        after, stopped = held.successor, held.successor_stopped
        self._succeed(held, None)
        if after is not None and stopped:
            self._say(Stopped(actor_id=after.actor_id, generation=after.generation))
        elif after is not None:
            self._begin(after)
        self._depart_if_empty()

    def _ask(self, asked: Asked) -> None:
        request = Request(asked.request_id, asked.body, self._respond)
        held = self._hosted.get(asked.actor_id)
        if held is None or held.task is None or held.generation != asked.generation:
            request.refuse("the actor is not here any more")
        elif held.stopping or held.cancelled:
            request.refuse("the actor is stopping")
        else:
            held.task.ask(request)

    def _respond(self, response: Response) -> None:
        self._say(response)

    # The end

    def drain(self) -> None:
        """Takes nothing new, and leaves when its actors have moved. Asked a second time, it cancels them."""
        if self.draining:
            self._leave()
            return
        self.draining = True
        self._say(Draining())
        self._clock.call_later(DRAIN_MS, self._leave)
        self._depart_if_empty()

    def _leave(self) -> None:
        """Without waiting for actors to move. Their clean-up is interrupted too, but it has to end: a node that hears
        a goodbye starts them elsewhere at once."""
        self.leaving = True
        for each in self.hosted:
            self._succeed(each, None)
            each.cancelled = True
            if each.task is not None:
                each.task.cancel()
        self._depart_if_empty()

    def _depart_if_empty(self) -> None:
        if self.draining and not self._hosted and not self.departed:
            self.leaving = self.departed = True
            self._say(Goodbye())
            self._left()
