"""The actors in this process, and which of them streams and calls belong to."""

from collections.abc import Callable
from typing import Protocol

from epoxy.client.hosted.link import FromActor, ToActor, WorkerClock, WorkerTimer
from epoxy.model.envoy_messages import Start

Name = tuple[str, str, str]


def name_of(start: Start) -> Name:
    return start.namespace, start.name, start.key


class Task(Protocol):
    """The code of one actor, as it runs in this process."""

    def heard(self, message: ToActor) -> None: ...

    def connected(self) -> None:
        """There is a new connection."""

    def lost(self) -> None:
        """There was a connection: its streams and calls are over."""

    def finish(self) -> None:
        """It gets no more requests, and may finish those it has."""

    def cancel(self) -> None:
        """It is interrupted now. It has ended when its clean-up (`finally`) has."""


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
        self.clean_up_timer: WorkerTimer | None = None
        self.streams: set[int] = set()
        self.calls: set[int] = set()


class ActorRouting:
    """`say`: to the node, for an actor. `interrupt`: cancel it."""

    def __init__(
        self, clock: WorkerClock, say: Callable[[Hosted, FromActor], None], interrupt: Callable[[Hosted], None]
    ) -> None:
        self.clock = clock
        self.say = say
        self.interrupt = interrupt
        self.streams: dict[int, Hosted] = {}
        self.calls: dict[int, Hosted] = {}
        self._last_call = 0

    def new_call(self, held: Hosted) -> int:
        self._last_call += 1
        self.calls[self._last_call] = held
        held.calls.add(self._last_call)
        return self._last_call

    def forget(self, held: Hosted) -> None:
        """It has ended."""
        for stream in held.streams:
            del self.streams[stream]
        for call in held.calls:
            del self.calls[call]
        held.streams.clear()
        held.calls.clear()


class HostedLink:
    """What an actor here has of the connection (`ActorLink`)."""

    def __init__(self, routing: ActorRouting, held: Hosted) -> None:
        self._routing = routing
        self._held = held

    @property
    def clock(self) -> WorkerClock:
        return self._routing.clock

    def send(self, message: FromActor) -> None:
        self._routing.say(self._held, message)

    def open(self, stream: int) -> None:
        self._routing.streams[stream] = self._held
        self._held.streams.add(stream)

    def close(self, stream: int) -> None:
        if stream in self._held.streams:
            self._held.streams.remove(stream)
            del self._routing.streams[stream]

    def new_call(self) -> int:
        return self._routing.new_call(self._held)

    def end_call(self, call: int) -> None:
        if call in self._held.calls:
            self._held.calls.remove(call)
            del self._routing.calls[call]

    def interrupt(self) -> None:
        self._routing.interrupt(self._held)
