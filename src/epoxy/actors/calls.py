"""Requests to actors that wait: for the actor to run, or for its answer."""

from collections.abc import Callable

from epoxy.actors.messages import OwnerUnavailable, Responded, Unknown
from epoxy.model.actors import ActorEntry, ActorRequest, Response
from epoxy.ports import Clock, Timer
from epoxy.protocol.placement.records import EnvoyId

MAX_WAITING = 4096
"""At one node: more in half a minute than its envoys serve."""

START_MS = 15_000
"""For the actor to run. A worker that dies is replaced in less. Clients wait for 20 s by default, and should hear
before that nothing was done, and why."""

TIMEOUT_MS = 30_000
"""From the request to the answer, the start of the actor included."""

Heard = Callable[[Responded | OwnerUnavailable | Unknown], None]
Send = Callable[[EnvoyId, ActorRequest], bool]
"""False: there is no connection to that envoy."""

Explain = Callable[[bytes], str]
"""Why an actor does not run, for the error message."""


class PendingCall:
    __slots__ = ("actor_id", "body", "envoy", "heard", "timer")

    def __init__(self, actor_id: bytes, body: bytes, heard: Heard) -> None:
        self.actor_id = actor_id
        self.body = body
        self.heard = heard
        self.envoy: EnvoyId | None = None
        self.timer: Timer | None = None


class Calls:
    def __init__(self, clock: Clock, explain: Explain) -> None:
        self._clock = clock
        self._explain = explain
        self._waiting: dict[int, PendingCall] = {}
        self._unsent: dict[bytes, list[int]] = {}
        self._last = 0
        self._closed: str | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, actor_id: bytes, body: bytes, heard: Heard) -> int | None:
        """The number of a new request; None: there are too many, or the node is stopping."""
        if self._closed is not None:
            heard(OwnerUnavailable(reason=self._closed))
            return None
        if len(self._waiting) >= MAX_WAITING:
            heard(OwnerUnavailable(reason=f"{MAX_WAITING} requests are waiting for actors already"))
            return None
        self._last += 1
        number, waiting = self._last, PendingCall(actor_id, body, heard)
        self._waiting[number] = waiting
        self._unsent.setdefault(actor_id, []).append(number)
        waiting.timer = self._clock.call_later(START_MS, lambda: self._look(number))
        return number

    def close(self, reason: str) -> None:
        """No actor gets another request; answers to those sent are still passed on."""
        self._closed = reason
        for number in [n for n, waiting in self._waiting.items() if waiting.envoy is None]:
            self._end(number, OwnerUnavailable(reason=reason))

    def give(self, actor: ActorEntry, envoy: EnvoyId, send: Send) -> None:
        """Send an actor that runs the requests that waited for it."""
        for number in self._unsent.pop(actor.id, []):
            waiting = self._waiting[number]
            message = ActorRequest(
                request_id=number, actor_id=actor.id.hex(), generation=actor.generation, body=waiting.body
            )
            if send(envoy, message):
                waiting.envoy = envoy
                waiting.body = b""
            else:
                self._unsent.setdefault(actor.id, []).append(number)

    def heard(self, envoy: EnvoyId, response: Response) -> None:
        waiting = self._waiting.get(response.request_id)
        if waiting is None or waiting.envoy != envoy:
            return
        if response.refused:
            reason = response.body.decode(errors="replace")
            self._end(response.request_id, OwnerUnavailable(reason=f"{reason}; it did not see the request"))
        else:
            self._end(response.request_id, Responded(body=response.body, error=response.error))

    def lose(self, envoy: EnvoyId) -> None:
        """Its connection is gone: the outcome of requests sent to it is unknown."""
        for number in [n for n, waiting in self._waiting.items() if waiting.envoy == envoy]:
            self._end(number, Unknown(reason="the envoy was lost before it answered"))

    def refuse(self, actor_id: bytes, reason: str) -> None:
        """The actor is no more."""
        for number in [n for n, waiting in self._waiting.items() if waiting.actor_id == actor_id]:
            asked = self._waiting[number].envoy is not None
            self._end(number, Unknown(reason=reason) if asked else OwnerUnavailable(reason=reason))

    def _look(self, number: int) -> None:
        waiting = self._waiting[number]
        if waiting.envoy is None:
            self._end(number, OwnerUnavailable(reason=self._explain(waiting.actor_id), final=True))
        else:
            late = Unknown(reason="no answer in time")
            waiting.timer = self._clock.call_later(TIMEOUT_MS - START_MS, lambda: self._end(number, late))

    def _end(self, number: int, verdict: Responded | OwnerUnavailable | Unknown) -> None:
        waiting = self._waiting.pop(number)
        if waiting.envoy is None:
            self._forget_unsent(waiting.actor_id, number)
        if waiting.timer is not None:
            waiting.timer.cancel()
        waiting.heard(verdict)

    def _forget_unsent(self, actor_id: bytes, number: int) -> None:
        self._unsent[actor_id].remove(number)
        if not self._unsent[actor_id]:
            del self._unsent[actor_id]
