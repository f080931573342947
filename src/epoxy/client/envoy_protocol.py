"""A worker's side of the envoy protocol, without IO: its messages to its node, and which actors run when.

`Worker` gives it a socket, the event loop's clock and actors that are tasks. The simulator gives it virtual ones, and
so tests this very code.
"""

from collections.abc import Callable
from typing import assert_never

from msgspec.structs import replace

from epoxy.client.hosted.activation import refused
from epoxy.client.hosted.link import ActorLink, Ending, FromActor, ToActor, WorkerClock, WorkerTimer
from epoxy.client.hosted.routing import ActorRouting, Hosted, HostedLink, Name, Task, name_of
from epoxy.client.watchdog import WorkerLease
from epoxy.model.envoy_messages import ActorRequest as Asked
from epoxy.model.envoy_messages import (
    AlarmDue,
    AskAnswer,
    Draining,
    EnvoyHello,
    FromEnvoy,
    Goodbye,
    Held,
    Opened,
    Ping,
    Pong,
    Rejected,
    Running,
    Saved,
    SaveRefused,
    Start,
    Stop,
    Stopped,
    ToEnvoy,
    Welcome,
)
from epoxy.model.errors import InvalidRequest
from epoxy.model.exchanges import Credit, Head, Piece, Reset

STOP_MS = 5_000
"""For an actor to finish what it is doing when it is told to stop; then it is cancelled."""

DRAIN_MS = 30_000
"""For actors to move before a worker leaves anyway. A supervisor that kills after 30 seconds is common."""


CLEAN_UP_MS = 10_000
"""For cancelled code to end, its clean-up included, while others wait for that. Then the process ends: nothing else
ends such code, and no later generation may run beside it."""

WELCOME_MS = 10_000
"""For a node to answer a hello. After that the connection is closed, and another is tried."""


class WorkerRefused(InvalidRequest):
    """The node refuses this worker as it is configured; trying again would not help."""


Ended = Callable[[Ending], None]
"""Called once, when the code has ended, clean-up and all."""

Begin = Callable[[Start, ActorLink, Ended], Task | None]
"""Runs the code of an actor. None: this worker has none under that name."""

Send = Callable[[FromEnvoy], None]


class EnvoyProtocol:
    """`left` is called when this worker has nothing more to do: it drained, or waited long enough. `end_process` must
    end the process at once, with this reason: code that was cancelled goes on in it."""

    def __init__(self, hello: EnvoyHello, clock: WorkerClock, begin: Begin, left: Callable[[], None]) -> None:
        self.welcome: Welcome | None = None
        self.connected = False
        self.draining = False
        self.leaving = False
        self.departed = False
        self.hello = hello
        self.warn: Callable[[str], None] = lambda _: None
        self.end_process: Callable[[str], None] = lambda _: None
        self.clock = clock
        self._begin_code = begin
        self._left = left
        self._hosted: dict[str, Hosted] = {}
        self._named: dict[Name, Hosted] = {}
        self._awaited: dict[str, Hosted] = {}
        """By the id of a successor: what it waits for."""
        self._routing = ActorRouting(clock, self._say_for, self._interrupt)
        self._send: Send | None = None
        self._drop: Callable[[], None] | None = None
        self._hello_ms = 0.0
        self.acknowledged_ms = 0.0
        """When the last ping that was answered was sent: the lease is counted from then."""
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
        self._hello_ms = self.clock.now_ms()
        self._send, self._drop = send, drop
        self._welcome_timer = self.clock.call_later(WELCOME_MS, drop)
        send(replace(self.hello, running=held))

    def drop(self) -> None:
        """Give up the connection, if there is one; another is made."""
        if self._drop is not None:
            self._drop()

    def closed(self) -> None:
        self._send = self._drop = None
        self.connected = False
        for each in self.hosted:
            if each.task is not None:
                each.task.lost()
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
                self.acknowledged_ms = max(self.acknowledged_ms, float(message.sent_ms))
                self._rtt_ms = max(0, int(self.clock.now_ms()) - message.sent_ms)
                self._watch_fence()
            case Start():
                self._start(message)
            case Stop():
                self._stop(message)
            case Rejected():
                if not message.expired:
                    raise WorkerRefused(f"the node refused this worker: {message.message}")
            case Head():
                raise WorkerRefused("the node sent the head of an answer, which is for actors to send")
            case _:
                self._heard_for_actor(message)

    def _welcomed(self, welcome: Welcome) -> None:
        self.welcome = welcome
        self.connected = True
        if self._welcome_timer is not None:
            self._welcome_timer.cancel()
        self.acknowledged_ms = max(self.acknowledged_ms, self._hello_ms)
        if self.draining:
            self._say(Draining())
        self._watch_fence()
        self._ping()
        for each in self.hosted:
            if each.task is not None:
                each.task.connected()

    def _say(self, message: FromEnvoy) -> None:
        if self._send is not None:
            self._send(message)

    # The lease: pings, and the fence at its end

    def _ping(self) -> None:
        """By a timer of its own, whatever other messages there are: pings renew the lease of all actors here."""
        if self.connected and self.welcome is not None:
            self._tell_if_late(self.welcome)
            self._ping_due_ms = self.clock.now_ms() + self.welcome.ping_every_ms
            self._say(Ping(sent_ms=int(self.clock.now_ms()), rtt_ms=self._rtt_ms))
            self._ping_timer = self.clock.call_later(self.welcome.ping_every_ms, self._ping)

    def _tell_if_late(self, welcome: Welcome) -> None:
        """Code that blocks the event loop delays every actor of this process, and in the end costs them their lease."""
        late_ms = self.clock.now_ms() - self._ping_due_ms if self._ping_due_ms else 0.0
        if late_ms > welcome.ping_every_ms:
            lost_s = welcome.lost_after_ms / 1000
            self.warn(
                f"a ping is {late_ms / 1000:.1f} s late: this process stood still, or an actor's code blocks the event"
                f" loop; after {lost_s:g} s all actors here are cancelled"
            )

    def lease(self) -> WorkerLease | None:
        """Called by the watchdog's thread, too."""
        welcome = self.welcome
        if welcome is None:
            return None
        ends_ms = self.acknowledged_ms + welcome.lost_after_ms
        return WorkerLease(ends_ms, welcome.lost_after_ms, in_use=bool(self._hosted))

    def _watch_fence(self) -> None:
        if self._fence_timer is None and self.welcome is not None:
            left_ms = self.acknowledged_ms + self.welcome.lost_after_ms - self.clock.now_ms()
            self._fence_timer = self.clock.call_later(max(0.0, left_ms) + 1, self._fence_due)

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
            silent_s = (self.clock.now_ms() - self.acknowledged_ms) / 1000
            self.warn(
                f"no ping of the last {silent_s:.1f} s was answered, so the lease is over: {running} actors cancelled"
            )
        for each in self.hosted:
            self._succeed(each, None)
            self._cancel(each)
            self._insist(each)
        if self.connected and self._drop is not None:
            self._drop()
        return True

    def _is_cut_off(self) -> bool:
        welcome = self.welcome
        return welcome is not None and self.clock.now_ms() - self.acknowledged_ms > welcome.lost_after_ms

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
            self._insist(held)
        elif not held.cancelled:
            self._say(Running(actor_id=held.id, generation=held.generation))

    def _begin(self, start: Start) -> None:
        """Not after the lease has ended, while the message or a clean-up was waiting: the node sends the start again
        with the next lease, if the actor is still this worker's."""
        if self.leaving or self._is_cut_off():
            return
        held = Hosted(start)
        held.task = self._begin_code(start, HostedLink(self._routing, held), lambda ending: self._ended(held, ending))
        if held.task is None:
            self._routing.forget(held)
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
            held.stop_timer = self.clock.call_later(STOP_MS, lambda: self._interrupt(held))
            held.task.finish()

    def _cancel(self, held: Hosted) -> None:
        if not held.cancelled and held.task is not None:
            held.cancelled = True
            held.task.cancel()

    def _insist(self, held: Hosted) -> None:
        """Its end is waited for: by a successor here, by a worker elsewhere (it is to move, its name is made anew, or
        the lease is over), by the end of a drain."""
        if held.clean_up_timer is None:
            held.clean_up_timer = self.clock.call_later(CLEAN_UP_MS, lambda: self._give_up(held))

    def _give_up(self, held: Hosted) -> None:
        _, name, key = held.name
        late_s = CLEAN_UP_MS / 1000
        self.end_process(f"actor {name}/{key} was cancelled {late_s:g} s ago, its end is waited for, and it goes on")

    def _ended(self, held: Hosted, ending: Ending) -> None:
        for timer in (held.stop_timer, held.clean_up_timer):
            if timer is not None:
                timer.cancel()
        del self._hosted[held.id], self._named[held.name]
        self._routing.forget(held)
        self._say(end_of(held, ending))
        after, stopped = held.successor, held.successor_stopped
        self._succeed(held, None)
        if after is not None and stopped:
            self._say(Stopped(actor_id=after.actor_id, generation=after.generation))
        elif after is not None:
            self._begin(after)
        self._depart_if_empty()

    def _heard_for_actor(self, message: ToActor) -> None:
        match message:
            case Asked() | Opened():
                self._ask(message)
            case Saved() | SaveRefused() | AlarmDue():
                held = self._hosted.get(message.actor_id)
                if held is not None and held.generation == message.generation:
                    self._pass_on(held, message)
            case Piece() | Credit() | Reset():
                self._pass_on(self._routing.streams.get(message.stream), message)
            case AskAnswer():
                self._pass_on(self._routing.calls.get(message.call), message)
            case _:
                assert_never(message)

    def _ask(self, asked: Asked | Opened) -> None:
        held = self._hosted.get(asked.actor_id)
        if held is None or held.generation != asked.generation:
            self._say(refused(asked, "the actor is not here any more"))
        elif held.stopping or held.cancelled:
            self._say(refused(asked, "the actor is stopping"))
        else:
            self._pass_on(held, asked)

    def _pass_on(self, held: Hosted | None, message: ToActor) -> None:
        """What comes for a stream or call that is over is dropped: whichever end closed it, the other learns of it."""
        if held is not None and held.task is not None:
            held.task.heard(message)

    def _say_for(self, held: Hosted, message: FromActor) -> None:
        """After its end nothing of an actor leaves."""
        if self._hosted.get(held.id) is held:
            self._say(message)

    def _interrupt(self, held: Hosted) -> None:
        self._cancel(held)
        self._insist(held)

    # The end

    def drain(self) -> None:
        """Takes nothing new, and leaves when its actors have moved. Asked a second time, it cancels them."""
        if self.draining:
            self._leave()
            return
        self.draining = True
        self._say(Draining())
        self.clock.call_later(DRAIN_MS, self._leave)
        self._depart_if_empty()

    def _leave(self) -> None:
        """Without waiting for actors to move. Their clean-up is interrupted too, but it has to end: a node that hears
        a goodbye starts them elsewhere at once."""
        self.leaving = True
        for each in self.hosted:
            self._succeed(each, None)
            each.cancelled = True
            self._insist(each)
            if each.task is not None:
                each.task.cancel()
        self._depart_if_empty()

    def _depart_if_empty(self) -> None:
        if self.draining and not self._hosted and not self.departed:
            self.leaving = self.departed = True
            self._say(Goodbye())
            self._left()


def end_of(held: Hosted, ending: Ending) -> Stopped:
    """An actor that was cancelled has ended for that reason, whatever else it was about to do."""
    if held.cancelled:
        return Stopped(actor_id=held.id, generation=held.generation, failed=True, cancelled=True)
    return Stopped(
        actor_id=held.id,
        generation=held.generation,
        failed=ending.failed,
        asleep=ending.asleep,
        sockets=ending.sockets,
        destroyed=ending.destroyed,
    )
