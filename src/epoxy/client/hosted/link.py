"""What an actor in a worker has of its worker: a way out, numbers, time. The worker's end of it is `EnvoyProtocol`."""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from epoxy.model.envoy_messages import (
    ActorAsk,
    ActorRequest,
    AlarmDue,
    AskAnswer,
    Opened,
    Response,
    Saved,
    SaveRefused,
    SaveState,
)
from epoxy.model.exchanges import Credit, Head, HeldSocket, Piece, Reset

ToActor = ActorRequest | Opened | Saved | SaveRefused | AlarmDue | AskAnswer | Piece | Credit | Reset
FromActor = Response | SaveState | ActorAsk | Head | Piece | Credit | Reset


class WorkerTimer(Protocol):
    def cancel(self) -> None: ...


class WorkerClock(Protocol):
    """Monotonic: setting the wall clock does not move it."""

    def now_ms(self) -> float: ...

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> WorkerTimer: ...


class ActorLink(Protocol):
    """Streams and calls belong to an actor while they are open; what comes for them is passed to it. When the
    connection is lost they are over (`Task.lost`), and messages that are sent before the next one are dropped."""

    @property
    def clock(self) -> WorkerClock: ...

    def send(self, message: FromActor) -> None: ...

    def open(self, stream: int) -> None: ...

    def close(self, stream: int) -> None: ...

    def new_call(self) -> int:
        """The number of an `ActorAsk`. Its answer is passed on until `end_call`."""

    def end_call(self, call: int) -> None: ...

    def interrupt(self) -> None:
        """A later generation has begun: this one is to be cancelled."""


class Ending(Struct, frozen=True, kw_only=True):
    """How an actor's code has ended, clean-up and all. `failed`: by an error. `asleep`: with these `sockets`, which its
    node holds. `destroyed`: for ever."""

    failed: bool = False
    asleep: bool = False
    sockets: tuple[HeldSocket, ...] = ()
    destroyed: bool = False
