"""Actors, asked for at any datacenter: the one that owns the name answers, and the others pass the question on."""

from collections.abc import Callable
from typing import Protocol, assert_never

from epoxy.actors.hosting import Hosting
from epoxy.actors.messages import (
    CallActor,
    Destroy,
    Ensure,
    Exists,
    Found,
    GetActor,
    Missing,
    OwnerUnavailable,
    Question,
    Target,
    Unknown,
    Verdict,
)
from epoxy.actors.reservation import NameReservation, NotReserved, Reservation, Reservations, Undecided
from epoxy.model.actors import ActorEntry, label_of, parse_id

Answered = Callable[[Verdict], None]


class Relay(Protocol):
    """The way to the other datacenters."""

    def ask(self, label: int, question: Question, answered: Callable[[Verdict | None], None]) -> None:
        """None: no answer; what became of the question is not known."""


class ActorService:
    def __init__(self, reservations: Reservations, hosting: Hosting, relay: Relay, label: int) -> None:
        self.hosting = hosting
        self._reservations = reservations
        self._relay = relay
        self._label = label

    def ask(self, question: Question, answered: Answered, *, relayed: bool = False) -> None:
        """`relayed`: another datacenter passed it on, because this one owns the name."""
        if isinstance(question, Ensure):
            settle = self._reservations.find if relayed else self._reservations.take
            settle(question.name, lambda settled: self._at_owner(settled, question, answered, relayed))
        elif isinstance(question.target, str):
            self._at_owner(NameReservation(parse_id(question.target)), question, answered, relayed)
        else:
            self._reservations.find(
                question.target, lambda settled: self._at_owner(settled, question, answered, relayed)
            )

    def _at_owner(self, settled: Reservation, question: Question, answered: Answered, relayed: bool) -> None:
        match settled:
            case NameReservation(actor_id):
                owner = label_of(actor_id)
                if owner == self._label:
                    self._answer(question, actor_id, answered)
                elif relayed:
                    answered(OwnerUnavailable(reason=f"datacenter {owner} owns it, not {self._label}"))
                else:
                    self._pass_on(owner, question, answered)
            case NotReserved():
                answered(Missing())
            case Undecided(reason=reason, definite=definite):
                answered(OwnerUnavailable(reason=reason) if definite else Unknown(reason=reason))
            case _:
                assert_never(settled)

    def _pass_on(self, owner: int, question: Question, answered: Answered) -> None:
        def heard(verdict: Verdict | None) -> None:
            if verdict is not None:
                answered(verdict)
            elif isinstance(question, GetActor):
                answered(OwnerUnavailable(reason=f"datacenter {owner}, which owns the actor, does not answer"))
            else:
                answered(Unknown(reason=f"datacenter {owner}, which owns the actor, did not answer"))

        self._relay.ask(owner, question, heard)

    def _answer(self, question: Question, reserved: bytes, answered: Answered) -> None:
        match question:
            case Ensure():
                self.hosting.ensure(question, reserved, lambda *done: answered(ensured(question, *done)))
            case GetActor(target=target):
                actor = self.hosting.get(target)
                answered(Found(actor=actor) if actor is not None and actor.is_alive else Missing())
            case Destroy(target=target):
                self.hosting.destroy(target, lambda gone: answered(Missing() if gone is None else Found(actor=gone)))
            case CallActor(target=target, body=body):
                if not self.hosting.call(target, body, answered):
                    answered(Missing())
            case _:
                assert_never(question)

    def where(self, target: Target) -> int | None:
        """The datacenter that owns a name, as far as this replica knows; an id contains it."""
        if isinstance(target, str):
            return label_of(parse_id(target))
        known = self._reservations.known(target)
        return label_of(known.actor_id) if known is not None else None


def ensured(question: Ensure, actor: ActorEntry, created: bool) -> Verdict:
    if question.exclusive and not created:
        return Exists(actor=actor)
    return Found(actor=actor, created=created)
