"""Requests to actors and WebSockets, at the node that hosts the actor: those that wait for it to run, those that it
has, and WebSockets that are held while it is asleep.

What an actor's code never saw is given again, or ends with a definite verdict; what it may have seen ends as unknown.
An answer that has begun, and a WebSocket, can only break off: `Reset`.
"""

from collections.abc import Callable, Iterable

from msgspec.structs import replace

from epoxy.actors.messages import CallActor, OwnerUnavailable, Responded, Unknown
from epoxy.actors.streams import (
    CLOSE_MOVED,
    ActorCall,
    CallVerdict,
    FromActor,
    FromClient,
    Heard,
    StreamEnd,
    WholeAnswer,
)
from epoxy.model.actors import ActorEntry
from epoxy.model.envoy_messages import ActorRequest, Opened, Response
from epoxy.model.exchanges import MAX_CHAIN, WINDOW_BYTES, Credit, Head, HeldSocket, Piece, Reset
from epoxy.ports import Clock
from epoxy.protocol.placement.records import EnvoyId

MAX_WAITING = 4096
"""Requests at one node: more in half a minute than its envoys serve."""

MAX_WAITING_BYTES = 256 << 20
"""Bodies of them that may have to be given again: of peers' requests as much as a node holds otherwise."""

MAX_SOCKETS = 16_384
"""WebSockets to the actors of one node, from all datacenters. Each takes some kilobytes when it is quiet."""

START_MS = 15_000
"""For the actor to run. A worker that dies is replaced in less. Clients wait for 20 s by default, and should hear
before that nothing was done, and why."""

TIMEOUT_MS = 30_000
"""From the request to the beginning of the answer, the start of the actor included; from the last piece, while a body
is sent."""

Send = Callable[[EnvoyId, ActorRequest | Opened | Piece | Credit | Reset], bool]
"""False: there is no connection to that envoy."""

Explain = Callable[[bytes], str]
"""Why an actor does not run, for the error message."""

Wanted = Callable[[bytes], None]
"""Something waits for an actor: give it, or wake the actor."""


class Calls:
    def __init__(self, clock: Clock, explain: Explain, send: Send, wanted: Wanted) -> None:
        self._clock = clock
        self._explain = explain
        self._send = send
        self._wanted = wanted
        self._open: dict[int, ActorCall] = {}
        self._unsent: dict[bytes, list[int]] = {}
        self._sockets: dict[bytes, set[int]] = {}
        self._held: dict[bytes, list[int]] = {}
        self.sockets = 0
        self._bytes = 0
        self._last = 0
        self._closed: str | None = None

    def __len__(self) -> int:
        return len(self._open)

    @property
    def streams(self) -> int:
        """Requests whose answers have begun and come in pieces."""
        return sum(call.began and not call.is_socket for call in self._open.values())

    # Of clients

    def begin(self, actor_id: bytes, asked: CallActor, heard: Heard, stream: StreamEnd | None = None) -> int | None:
        """The number of a new request; None: it is refused. `stream` takes an answer in pieces as they come."""
        refusal = self._refusal(actor_id, asked)
        if refusal is not None:
            heard(refusal)
            return None
        self._last += 1
        number, now_ms = self._last, self._clock.now_ms()
        call = ActorCall(number, actor_id, asked, heard, now_ms)
        self._open[number] = call
        self._bytes += len(asked.body)
        if call.is_socket:
            self._sockets.setdefault(actor_id, set()).add(number)
            self.sockets += 1
        self._unsent.setdefault(actor_id, []).append(number)
        call.timer = self._clock.call_later(START_MS, lambda: self._look(number))
        call.stream = stream if stream is not None else WholeAnswer(heard)
        call.stream.opened(lambda message: self._from_client(number, message))
        return number

    def _refusal(self, actor_id: bytes, asked: CallActor) -> OwnerUnavailable | None:
        if self._closed is not None:
            return OwnerUnavailable(reason=self._closed)
        chain = asked.head.chain if asked.head is not None else ()
        if actor_id.hex() in chain:
            return OwnerUnavailable(reason="the actor waits for this very call: it would wait for itself", cycle=True)
        if len(chain) > MAX_CHAIN:
            return OwnerUnavailable(reason=f"{MAX_CHAIN} actors wait for each other in this row already", cycle=True)
        if asked.head is not None and asked.head.upgrade:
            full = self.sockets >= MAX_SOCKETS
            return OwnerUnavailable(reason=f"{MAX_SOCKETS} WebSockets to actors are open already") if full else None
        if len(self._open) - self.sockets >= MAX_WAITING or self._bytes + len(asked.body) > MAX_WAITING_BYTES:
            return OwnerUnavailable(reason=f"{len(self._open) - self.sockets} requests are waiting for actors already")
        return None

    def _from_client(self, number: int, message: FromClient) -> None:
        call = self._open.get(number)
        if call is None:
            return
        match message:
            case Piece():
                self._piece_up(call, replace(message, stream=number))
            case Credit():
                if call.envoy is not None:
                    self._send(call.envoy, replace(message, stream=number))
            case Reset():
                self._client_left(call, replace(message, stream=number))

    def _piece_up(self, call: ActorCall, piece: Piece) -> None:
        if not call.take(piece):
            self._give_up(call, "more was sent than the window allows")
        elif call.envoy is not None:
            call.moved = True
            self._send(call.envoy, piece)
        elif call.held is not None:
            self._wanted(call.actor_id)

    def _client_left(self, call: ActorCall, reset: Reset) -> None:
        if call.held is not None:
            call.ended = reset
            self._wanted(call.actor_id)
            return
        if call.envoy is not None and (call.began or not call.is_whole):
            self._send(call.envoy, reset)
        self._forget(call)

    def _give_up(self, call: ActorCall, reason: str) -> None:
        """The client's end broke the rules of streams."""
        if call.envoy is not None:
            self._send(call.envoy, Reset(stream=call.number, reason=reason))
        self._break_off(call, reason)

    # Of hosting

    def waits(self, actor_id: bytes) -> bool:
        """Whether anything is there for an actor that does not run."""
        held = (self._open[number] for number in self._held.get(actor_id, ()))
        return actor_id in self._unsent or any(call.unseen or call.ended for call in held)

    def give(self, actor: ActorEntry, envoy: EnvoyId) -> None:
        """Send an actor that runs what waited for it."""
        for number in self._held.pop(actor.id, []):
            self._give_held(self._open[number], actor, envoy)
        for number in self._unsent.pop(actor.id, []):
            call = self._open.get(number)
            if call is None:  # Its client left when it heard of another one that was given.
                continue
            again = call.refused_by == (envoy, actor.generation)
            if again or not self._send(envoy, call.opening(actor)):
                self._unsent.setdefault(actor.id, []).append(number)
            else:
                self._given(call, actor, envoy)

    def _given(self, call: ActorCall, actor: ActorEntry, envoy: EnvoyId) -> None:
        first = call.refused_by is None
        call.envoy, call.generation = envoy, actor.generation
        for piece in call.unseen:
            self._send(envoy, piece)
        if first and not call.is_whole and call.stream is not None:
            call.window = WINDOW_BYTES
            call.stream.heard(Credit(stream=0, amount=WINDOW_BYTES))

    def _give_held(self, call: ActorCall, actor: ActorEntry, envoy: EnvoyId) -> None:
        """Its envoy got it with `Start`, with new windows."""
        call.held, call.envoy, call.generation = None, envoy, actor.generation
        for piece in call.unseen:
            self._send(envoy, piece)
        if call.ended is not None:
            self._send(envoy, call.ended)
            self._forget(call)

    def held(self, actor_id: bytes) -> tuple[HeldSocket, ...]:
        """For the `Start` of an actor that was asleep."""
        found = (self._open[number].held for number in self._held.get(actor_id, ()))
        return tuple(held for held in found if held is not None)

    def stopped(self, envoy: EnvoyId, actor_id: bytes, generation: int, sockets: Iterable[HeldSocket] = ()) -> None:
        """A generation of an actor has ended. These WebSockets are held until it wakes, and the others are closed.
        Requests that it has not answered its envoy gives back, or they end with the envoy."""
        kept = {held.stream: held for held in sockets}
        for number in sorted(self._sockets.get(actor_id, ())):
            call = self._open[number]
            if not call.began or (call.envoy, call.generation) != (envoy, generation):
                continue
            if number in kept:
                call.envoy, call.held = None, kept[number]
                self._held.setdefault(actor_id, []).append(number)
            else:
                self._break_off(call, "the actor has moved or ended")

    def lose(self, envoy: EnvoyId) -> None:
        """Its connection is gone: the outcome of requests sent to it is unknown."""
        for call in [call for call in self._open.values() if call.envoy == envoy]:
            self._break_off(call, "the envoy was lost before it answered")

    def refuse(self, actor_id: bytes, reason: str) -> None:
        """The actor is no more."""
        for call in [call for call in self._open.values() if call.actor_id == actor_id]:
            self._break_off(call, reason)

    def abandon(self, reason: str) -> None:
        """Every request: what was sent has an unknown outcome, and no answer to it is passed on."""
        for call in list(self._open.values()):
            self._break_off(call, reason)

    def close(self, reason: str) -> None:
        """No actor gets another request; answers to those sent are still passed on, and WebSockets are closed."""
        self._closed = reason
        for call in [call for call in self._open.values() if call.envoy is None or call.is_socket]:
            self._break_off(call, reason)

    # Of envoys

    def heard(self, envoy: EnvoyId, message: Response | FromActor) -> None:
        number = message.request_id if isinstance(message, Response) else message.stream
        call = self._open.get(number)
        if call is None or call.envoy != envoy:
            return
        if isinstance(message, Response | Reset) and message.refused:
            self._given_back(call, message)
        elif isinstance(message, Response):
            if not call.began:
                self._end(call, responded(message))
        else:
            call.known()
            self._from_actor(call, message)

    def _from_actor(self, call: ActorCall, message: FromActor) -> None:
        assert call.stream is not None
        match message:
            case Credit(amount=amount):
                call.seen(amount)
                call.moved = True
                call.stream.heard(replace(message, stream=0))
            case Head() if not call.began:
                call.began = True
                self._bytes -= call.size
                call.size = 0
                self._stop_timer(call)
                self._answer(call, message, fin=message.fin or (call.is_socket and message.status != 101))
            case Piece() if call.began:
                self._answer(call, message, fin=message.fin and not call.is_socket)
            case Reset() if call.began:
                self._answer(call, message, fin=True)
            case Reset():
                self._end(call, Responded(body=message.reason.encode(), error=True))
            case _:
                self._give_up(call, "the worker broke the rules of streams")

    def _answer(self, call: ActorCall, message: FromActor, *, fin: bool) -> None:
        if fin:
            self._forget(call)
        assert call.stream is not None
        call.stream.heard(replace(message, stream=0))

    def _given_back(self, call: ActorCall, refusal: Response | Reset) -> None:
        """Its actor's code did not see it: the next one to run gets it, if it comes in time. If too much waits for the
        actor, the client is told at once, and not after a wait that may end the same way."""
        told = refusal.body.decode(errors="replace") if isinstance(refusal, Response) else refusal.reason
        if call.began or call.is_known or call.envoy is None:
            self._break_off(call, told)
            return
        call.refused_by, call.envoy = (call.envoy, call.generation), None
        call.refusal = f"{told}; it did not see the request"
        if refusal.busy or self._clock.now_ms() - call.since_ms >= START_MS or self._closed is not None:
            self._end(call, OwnerUnavailable(reason=call.refusal))
            return
        self._unsent.setdefault(call.actor_id, []).append(call.number)
        self._stop_timer(call)
        left_ms = START_MS - (self._clock.now_ms() - call.since_ms)
        call.timer = self._clock.call_later(left_ms, lambda: self._look(call.number))
        self._wanted(call.actor_id)

    # The end

    def _look(self, number: int) -> None:
        """It was not given in time, or not answered."""
        call = self._open[number]
        waited_ms = self._clock.now_ms() - call.since_ms
        if call.envoy is None:
            reason = call.refusal or self._explain(call.actor_id)
            self._end(call, OwnerUnavailable(reason=reason, final=True))
        elif call.moved or waited_ms < TIMEOUT_MS:
            left_ms = TIMEOUT_MS if call.moved else TIMEOUT_MS - waited_ms
            call.moved = False
            call.timer = self._clock.call_later(left_ms, lambda: self._look(number))
        else:
            if not call.is_whole:
                self._send(call.envoy, Reset(stream=number, reason="no answer in time"))
            self._end(call, Unknown(reason="no answer in time"))

    def _break_off(self, call: ActorCall, reason: str) -> None:
        if call.began:
            self._answer(call, Reset(stream=call.number, reason=reason, code=CLOSE_MOVED), fin=True)
        else:
            sent = call.envoy is not None
            self._end(call, Unknown(reason=reason) if sent else OwnerUnavailable(reason=reason))

    def _end(self, call: ActorCall, verdict: CallVerdict) -> None:
        self._forget(call)
        call.heard(verdict)

    def _forget(self, call: ActorCall) -> None:
        self._stop_timer(call)
        del self._open[call.number]
        self._bytes -= call.size
        leave(self._unsent, call)
        leave(self._held, call)
        if call.is_socket:
            self.sockets -= 1
            numbers = self._sockets[call.actor_id]
            numbers.discard(call.number)
            if not numbers:
                del self._sockets[call.actor_id]

    def _stop_timer(self, call: ActorCall) -> None:
        if call.timer is not None:
            call.timer.cancel()
            call.timer = None


def responded(message: Response) -> Responded:
    return Responded(body=message.body, error=message.error, status=message.status, headers=message.headers)


def leave(lists: dict[bytes, list[int]], call: ActorCall) -> None:
    numbers = lists.get(call.actor_id)
    if numbers is not None and call.number in numbers:
        numbers.remove(call.number)
        if not numbers:
            del lists[call.actor_id]
