"""Questions and streams of one datacenter at another, many on one connection, without IO.

The end that dialled asks, the other answers. A request to an actor whose client wants its answer as it comes is a
stream of the connection, whose messages are passed on as they are: windows reach from the client to the worker, so
neither end holds more of a stream than its window.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from epoxy.actors.messages import CallActor, OwnerUnavailable, Question, Verdict
from epoxy.actors.streams import CLOSE_MOVED, FromActor, FromClient, StreamEnd, Upward
from epoxy.model.exchanges import Credit, Head, Piece, Reset
from epoxy.ports import Clock, Timer

MAX_ASKING = 4096
"""Questions of one node at another that wait for an answer, as many as requests may wait there."""

MAX_STREAMS = 16_384
"""Answers and WebSockets that have begun, of one node at another: as many WebSockets as that holds."""

TIMEOUT_MS = 40_000
"""For a verdict. Longer than an actor may take for an answer (30 s), so that the owner reports its timeout first."""

LOST = "the connection to the datacenter that hosts the actor broke"
WITHDRAWN = "the lease of the datacenter that hosts the actor is over"
LEFT = "the connection to the datacenter of the client broke"


class RelayedQuestion(Struct, frozen=True, kw_only=True, tag="question"):
    """`streams`: the answer may come in pieces."""

    number: int
    question: Question
    streams: bool = False


class RelayedVerdict(Struct, frozen=True, kw_only=True, tag="verdict"):
    number: int
    verdict: Verdict


class Beat(Struct, frozen=True, tag="beat"):
    """Answered with another: the connection works."""


RelayMessage = RelayedQuestion | RelayedVerdict | Beat | Head | Piece | Credit | Reset
SendRelayed = Callable[[RelayMessage], None]
Answered = Callable[[Verdict | None], None]
Withdraw = Callable[[], bool]
"""The question is given up: nothing more is heard of it. True: it was never sent, and will not be."""


class Answering(Protocol):
    """`ActorService`, as far as the answering end needs it."""

    def ask(
        self,
        question: Question,
        answered: Callable[[Verdict], None],
        *,
        relayed: bool = False,
        stream: StreamEnd | None = None,
    ) -> None: ...


class AskedQuestion:
    __slots__ = ("answered", "began", "is_socket", "stream", "timer")

    def __init__(self, question: Question, answered: Answered, stream: StreamEnd | None) -> None:
        self.answered = answered
        self.stream = stream
        self.began = False
        head = question.head if isinstance(question, CallActor) else None
        self.is_socket = head is not None and head.upgrade
        self.timer: Timer | None = None


class AskingEnd:
    """Of the datacenter that passes questions on."""

    def __init__(self, clock: Clock, send: SendRelayed) -> None:
        self._clock = clock
        self._send = send
        self._asked: dict[int, AskedQuestion] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._asked)

    def ask(self, question: Question, answered: Answered, stream: StreamEnd | None = None) -> Withdraw:
        waiting = sum(not asked.began for asked in self._asked.values()) if len(self._asked) >= MAX_ASKING else 0
        if waiting >= MAX_ASKING or len(self._asked) >= MAX_STREAMS:
            answered(OwnerUnavailable(reason=f"{len(self._asked)} questions are asked of that datacenter already"))
            return lambda: True
        self._last += 1
        number, asked = self._last, AskedQuestion(question, answered, stream)
        self._asked[number] = asked
        if stream is None:
            asked.timer = self._clock.call_later(TIMEOUT_MS, lambda: self._end(number, None))
        self._send(RelayedQuestion(number=number, question=question, streams=stream is not None))
        if stream is not None:
            stream.opened(lambda message: self._up(number, message))
        return lambda: self._withdraw(number)

    def _withdraw(self, number: int) -> bool:
        asked = self._asked.get(number)
        if asked is not None:
            self._forget(number)
            if asked.stream is not None:
                self._send(Reset(stream=number, reason=WITHDRAWN, code=CLOSE_MOVED))
        return False

    def _up(self, number: int, message: FromClient) -> None:
        if number in self._asked:
            self._send(replace(message, stream=number))
            if isinstance(message, Reset):
                self._forget(number)

    def heard(self, message: RelayMessage) -> None:
        match message:
            case RelayedVerdict(number=number, verdict=verdict):
                self._end(number, verdict)
            case Head() | Piece() | Credit() | Reset():
                self._down(message)
            case RelayedQuestion() | Beat():
                pass

    def _down(self, message: FromActor) -> None:
        asked = self._asked.get(message.stream)
        if asked is None or asked.stream is None:
            return
        asked.began = asked.began or isinstance(message, Head)
        if ends(message, is_socket=asked.is_socket):
            self._forget(message.stream)
        asked.stream.heard(replace(message, stream=0))

    def lost(self) -> None:
        """What was asked has an unknown outcome, and what had begun breaks off."""
        for number, asked in list(self._asked.items()):
            if asked.began and asked.stream is not None:
                self._forget(number)
                asked.stream.heard(Reset(stream=0, reason=LOST, code=CLOSE_MOVED))
            else:
                self._end(number, None)

    def _end(self, number: int, verdict: Verdict | None) -> None:
        asked = self._asked.get(number)
        if asked is not None and not asked.began:
            self._forget(number)
            asked.answered(verdict)

    def _forget(self, number: int) -> None:
        timer = self._asked.pop(number).timer
        if timer is not None:
            timer.cancel()


class RelayedStream:
    """The client's end of a stream, which is in another datacenter."""

    def __init__(self, number: int, is_socket: bool, send: SendRelayed, ended: Callable[[int], None]) -> None:
        self._number = number
        self._is_socket = is_socket
        self._send = send
        self._ended = ended
        self._up: Upward | None = None

    def opened(self, send: Upward) -> None:
        self._up = send

    def heard(self, message: FromActor) -> None:
        if ends(message, is_socket=self._is_socket):
            self._ended(self._number)
        self._send(replace(message, stream=self._number))

    def tell(self, message: FromClient) -> None:
        if self._up is not None:
            self._up(message)


class AnsweringEnd:
    """Of the datacenter that hosts the actors."""

    def __init__(self, actors: Answering, send: SendRelayed) -> None:
        self._actors = actors
        self._send = send
        self._streams: dict[int, RelayedStream] = {}

    def heard(self, message: RelayMessage) -> None:
        match message:
            case RelayedQuestion():
                self._ask(message)
            case Piece() | Credit() | Reset():
                stream = self._streams.get(message.stream)
                if stream is not None:
                    if isinstance(message, Reset):
                        del self._streams[message.stream]
                    stream.tell(message)
            case Beat():
                self._send(Beat())
            case RelayedVerdict() | Head():
                pass

    def _ask(self, asked: RelayedQuestion) -> None:
        number, question, stream = asked.number, asked.question, None

        def answered(verdict: Verdict) -> None:
            self._streams.pop(number, None)
            self._send(RelayedVerdict(number=number, verdict=verdict))

        if asked.streams and isinstance(question, CallActor):
            is_socket = question.head is not None and question.head.upgrade
            stream = RelayedStream(number, is_socket, self._send, self._forget)
            self._streams[number] = stream
        self._actors.ask(question, answered, relayed=True, stream=stream)

    def _forget(self, number: int) -> None:
        self._streams.pop(number, None)

    def lost(self) -> None:
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.tell(Reset(stream=0, reason=LEFT, code=CLOSE_MOVED))


def ends(message: FromActor, *, is_socket: bool) -> bool:
    """Whether nothing comes after it."""
    match message:
        case Reset():
            return True
        case Head():
            return message.fin or (is_socket and message.status != 101)
        case Piece():
            return message.fin and not is_socket
        case Credit():
            return False
