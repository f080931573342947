"""Questions that wait at another datacenter, and the end of its lease, which ends the waiting.

A home that goes silent without closing its connections (its machine stands still, its packets are lost) would hold up
its questions until a timeout. But once its lease is over, no answer of it counts, and another datacenter may be home.
This replica learns of that end like any other, so looking costs no traffic; a linearizable read confirms it.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from epoxy.actors.datacenter_lease import DatacenterLeases
from epoxy.actors.messages import CallActor, Question, Verdict
from epoxy.actors.relaying import Withdraw, ends
from epoxy.actors.streams import CLOSE_MOVED, FromActor, FromClient, StreamEnd, Upward
from epoxy.model.exchanges import Head, Reset
from epoxy.model.homes import DatacenterLease
from epoxy.ports import Clock

LOOK_MS = 500
"""Between two looks at the leases of the datacenters where questions wait."""

GONE = "the datacenter that hosted the actor is gone"


class Relay(Protocol):
    """The way to the other datacenters."""

    def ask(
        self,
        label: int,
        question: Question,
        answered: Callable[[Verdict | None], None],
        stream: StreamEnd | None = None,
    ) -> Withdraw:
        """None: no answer; what became of the question is not known. `stream`: of a request to an actor, whose answer
        may come in pieces; if one does, there is no verdict."""


class HomeGone(Struct, frozen=True, kw_only=True):
    """The lease of the datacenter that was asked ended before it answered. `sent`: it may have seen the question."""

    sent: bool


Heard = Callable[[Verdict | HomeGone | None], None]


class HomeWatch:
    """Asks other datacenters, as long as their leases last."""

    def __init__(self, relay: Relay, leases: DatacenterLeases, clock: Clock) -> None:
        self._relay = relay
        self._leases = leases
        self._clock = clock
        self._waiting: dict[int, set[WaitingQuestion]] = {}
        self._is_looking = False

    def ask(self, label: int, question: Question, heard: Heard, stream: StreamEnd | None = None) -> None:
        waiting = WaitingQuestion(question, heard, stream, self._ended)
        waiting.label, waiting.incarnation = label, incarnation_of(self._leases.known(label))
        self._waiting.setdefault(label, set()).add(waiting)
        waiting.withdraw = self._relay.ask(label, question, waiting.answered, waiting if stream is not None else None)
        self._look_later()

    def _ended(self, waiting: "WaitingQuestion") -> None:
        at_label = self._waiting.get(waiting.label, set())
        at_label.discard(waiting)
        if not at_label:
            self._waiting.pop(waiting.label, None)

    def _look_later(self) -> None:
        if self._waiting and not self._is_looking:
            self._is_looking = True
            self._clock.call_later(LOOK_MS, self._look)

    def _look(self) -> None:
        self._is_looking = False
        for label, waiting in list(self._waiting.items()):
            now = incarnation_of(self._leases.known(label))
            if any(each.is_over(now) for each in waiting):
                self._confirm(label)
        self._look_later()

    def _confirm(self, label: int) -> None:
        """What this replica holds is a hint."""

        def told(lease: DatacenterLease | None, known: bool) -> None:
            now = incarnation_of(lease)
            if known:
                for each in [each for each in self._waiting.get(label, ()) if each.is_over(now)]:
                    each.give_up()

        self._leases.ask(label, told)


class WaitingQuestion:
    """One question at another datacenter, and the client's end of its stream. `incarnation`: of the lease under which
    it was asked; None: none is known, as of a node of an earlier version, so its end is not seen."""

    def __init__(
        self, question: Question, heard: Heard, stream: StreamEnd | None, ended: Callable[["WaitingQuestion"], None]
    ) -> None:
        self.label = 0
        self.incarnation: bytes | None = None
        self.withdraw: Withdraw = lambda: False
        self._heard = heard
        self._stream = stream
        self._ended = ended
        self._began = False
        head = question.head if isinstance(question, CallActor) else None
        self._is_socket = head is not None and head.upgrade

    def is_over(self, now: bytes | None) -> bool:
        return self.incarnation is not None and self.incarnation != now

    def answered(self, verdict: Verdict | None) -> None:
        self._ended(self)
        self._heard(verdict)

    def give_up(self) -> None:
        self._ended(self)
        sent = not self.withdraw()
        if self._began and self._stream is not None:
            self._stream.heard(Reset(stream=0, reason=GONE, code=CLOSE_MOVED))
        else:
            self._heard(HomeGone(sent=sent))

    # A stream passes through

    def opened(self, send: Upward) -> None:
        assert self._stream is not None

        def up(message: FromClient) -> None:
            if isinstance(message, Reset):
                self._ended(self)
            send(message)

        self._stream.opened(up)

    def heard(self, message: FromActor) -> None:
        assert self._stream is not None
        self._began = self._began or isinstance(message, Head)
        if ends(message, is_socket=self._is_socket):
            self._ended(self)
        self._stream.heard(message)


def incarnation_of(lease: DatacenterLease | None) -> bytes | None:
    return lease.incarnation if lease is not None else None
