"""Actors, asked for at any datacenter: the home of the name answers, and the others pass the question on. If the home
is gone, the datacenter that is asked takes its place, or passes the question to one that has workers."""

from collections.abc import Callable
from typing import NamedTuple, assert_never

from epoxy.actors.home_changes import CHANGING, HomeChanges, HomeHere, HomeThere, Located
from epoxy.actors.home_watch import HomeGone, HomeWatch, Relay
from epoxy.actors.homes import KnownHome, NotReserved, Undecided
from epoxy.actors.messages import (
    AdoptActor,
    CallActor,
    Destroy,
    Elsewhere,
    Ensure,
    Exists,
    Found,
    GetActor,
    Missing,
    MoveActor,
    OwnerUnavailable,
    Question,
    Unknown,
    Verdict,
)
from epoxy.actors.streams import StreamEnd
from epoxy.model.actors import ActorEntry, ActorName, ActorState, label_of, parse_id
from epoxy.model.homes import generation_of

Answered = Callable[[Verdict], None]

MAX_HOPS = 3
"""Datacenters that are asked one after the other because each of them names the next."""


class Asked(NamedTuple):
    """A question under way. `hops`: how many datacenters were asked. `doubted`: another one says that this is the home,
    so what is known here is behind."""

    question: Question
    answered: Answered
    relayed: bool
    stream: StreamEnd | None
    hops: int = 0
    doubted: bool = False

    @property
    def ensure(self) -> Ensure | None:
        return self.question if isinstance(self.question, Ensure) else None


class ActorService:
    def __init__(self, changes: HomeChanges, relay: Relay) -> None:
        self.hosting = changes.hosting
        self.changes = changes
        self._homes = changes.homes
        self._others = HomeWatch(relay, changes.leases, changes.lease.clock)
        self.label = self._label = changes.label
        self.hosting.ended = self._ended
        self.hosting.generations.strange = self._look_for_home

    def ask(
        self, question: Question, answered: Answered, *, relayed: bool = False, stream: StreamEnd | None = None
    ) -> None:
        """`relayed`: another datacenter passed it on, because it takes this one for the home. `stream`: as `Relay.ask`
        has it."""
        self._ask(Asked(question, answered, relayed, stream))

    def is_home(self, actor: ActorEntry) -> bool:
        """Whether this datacenter is the home of an actor of its rows, by what is known here."""
        home = self._homes.known(actor.name)
        return home is None or home.record.label == self._label

    def _ask(self, asked: Asked) -> None:
        question = asked.question
        if isinstance(question, Ensure):
            self._by_name(question.name, asked)
        elif isinstance(question, AdoptActor):
            self._by_name(question.target, asked._replace(doubted=True))
        elif isinstance(question.target, str):
            self._by_id(parse_id(question.target), asked)
        else:
            self._by_name(question.target, asked)

    # Where it is

    def _by_name(self, name: ActorName, asked: Asked) -> None:
        actor = self.hosting.get(name)
        if actor is not None and self.hosting.at_home(actor):
            if actor.is_alive:
                self._located(asked, name, HomeHere(actor=actor))
                return
            if asked.ensure is None:
                self._located(asked, name, Missing())
                return
            self._settle(name, asked)
        elif asked.doubted:
            self._settle(name, asked)
        elif (home := self._homes.known(name)) is not None:
            self._route(name, asked, home)
        elif asked.ensure is not None:
            self._make(name, asked, asked.ensure)
        else:
            self._homes.find(name, lambda found: self._found(name, asked, found))

    def _found(self, name: ActorName, asked: Asked, found: KnownHome | NotReserved | Undecided) -> None:
        match found:
            case KnownHome():
                self._route(name, asked, found)
            case NotReserved():
                asked.answered(Missing())
            case Undecided(reason=reason):
                asked.answered(OwnerUnavailable(reason=reason))
            case _:
                assert_never(found)

    def _route(self, name: ActorName, asked: Asked, home: KnownHome) -> None:
        """By what is known here, which may be old: the datacenter that is asked knows better. If that is this one, what
        is known here led the question astray, or would do so."""
        record = home.record
        guess = self._homes.hint(name, above=record.epoch) or record.label
        unsure = asked.relayed or guess == self._label
        if unsure or self.changes.leases.known(guess) is None:
            self._settle(name, asked)
        else:
            self._located(asked, name, HomeThere(label=guess, epoch=record.epoch))

    def _make(self, name: ActorName, asked: Asked, ensure: Ensure) -> None:
        """A name that is not known here. It is made where workers are; if there are none anywhere, here."""
        place = self.changes.with_workers(name.namespace, ensure.pool) if not asked.relayed else None
        if place is None or place == self._label:
            self._settle(name, asked, fresh=True)
        else:
            self._located(asked, name, HomeThere(label=place))

    def _settle(self, name: ActorName, asked: Asked, *, fresh: bool = False) -> None:
        self.changes.settle(
            name,
            asked.ensure,
            lambda: self._by_name(name, asked),
            lambda located: self._located(asked, name, located),
            fresh=fresh,
        )

    def _by_id(self, actor_id: bytes, asked: Asked) -> None:
        """An id names the datacenter where the actor was made, which knows where it went. If that is gone, any other
        may have taken it over."""
        row = self.hosting.get(actor_id.hex())
        born = label_of(actor_id)
        if row is not None:
            self._by_name(row.name, asked)
        elif asked.relayed or born == self._label:
            asked.answered(Missing())
        elif self.changes.leases.known(born) is not None:
            self._pass_on(born, asked, None)
        else:
            others = [each for each in self.changes.members() if each != self._label]
            self._ask_each(sorted(others, key=self.changes.distance), asked)

    def _ask_each(self, labels: list[int], asked: Asked) -> None:
        if not labels:
            reason = "the datacenter that made the actor is gone, and no other knows this id; ask by its name"
            asked.answered(OwnerUnavailable(reason=reason, final=True))
            return

        def heard(verdict: Verdict) -> None:
            if isinstance(verdict, Missing | OwnerUnavailable):
                self._ask_each(labels[1:], asked)
            else:
                asked.answered(verdict)

        self._pass_on(labels[0], asked._replace(answered=heard), None)

    # Answering, and passing on

    def _located(self, asked: Asked, name: ActorName, located: Located) -> None:
        match located:
            case HomeHere(actor=actor):
                target = None if isinstance(asked.question, Ensure) else asked.question.target
                if isinstance(target, str) and target != actor.id.hex():
                    asked.answered(Missing())
                elif (place := self._better_place(actor)) is not None and not located.created:
                    self._give_away(actor, place, asked)
                else:
                    self._answer(asked, located)
            case HomeThere(label=label, epoch=epoch) if asked.relayed:
                asked.answered(Elsewhere(label=label, epoch=epoch))
            case HomeThere(label=label):
                self._pass_on(label, asked, name)
            case Missing() | OwnerUnavailable() | Unknown():
                asked.answered(located)
            case _:
                assert_never(located)

    def _pass_on(self, label: int, asked: Asked, name: ActorName | None) -> None:
        question, answered = asked.question, asked.answered
        asked = asked._replace(hops=asked.hops + 1)

        def heard(verdict: Verdict | HomeGone | None) -> None:
            if isinstance(verdict, Elsewhere):
                self._follow(verdict, label, asked, name)
                return
            if name is not None and (verdict is None or isinstance(verdict, OwnerUnavailable | HomeGone)):
                self._homes.forget(name)
            if isinstance(verdict, HomeGone):
                self._outlive(label, asked, verdict)
            elif verdict is not None:
                answered(verdict)
            elif isinstance(question, GetActor):
                answered(
                    OwnerUnavailable(reason=f"{self.changes.datacenter(label)}, the actor's home, does not answer")
                )
            else:
                answered(Unknown(reason=f"{self.changes.datacenter(label)}, the actor's home, did not answer"))

        self._others.ask(label, question, heard, asked.stream)

    def _outlive(self, label: int, asked: Asked, gone: HomeGone) -> None:
        """The home did not answer before its lease ended. What may be done twice is asked of the next one."""
        if asked.hops < MAX_HOPS and (not gone.sent or may_be_repeated(asked.question)):
            self._ask(asked)
        else:
            reason = f"{self.changes.datacenter(label)}, the actor's home, was lost before it answered"
            asked.answered(Unknown(reason=reason) if gone.sent else OwnerUnavailable(reason=reason))

    def _follow(self, said: Elsewhere, by: int, asked: Asked, name: ActorName | None) -> None:
        if asked.hops >= MAX_HOPS or said.label == by:
            named = self.changes.datacenter
            reason = f"{named(by)} says that {named(said.label)} is the actor's home; try again"
            asked.answered(OwnerUnavailable(reason=reason))
            return
        if name is not None and said.epoch:
            self._homes.note(name, said.label, said.epoch)
        if said.label == self._label:
            self._ask(asked._replace(doubted=True))
        else:
            self._pass_on(said.label, asked, name)

    def _answer(self, asked: Asked, here: HomeHere) -> None:
        question, answered, actor = asked.question, asked.answered, here.actor
        match question:
            case Ensure():
                answered(self._ensured(question, here))
            case GetActor() | AdoptActor():
                answered(Found(actor=actor, label=self._label))
            case Destroy():
                self._destroy(actor, answered)
            case CallActor():
                if not self.hosting.call(question, answered, asked.stream):
                    answered(Missing())
            case MoveActor(to=to):
                self._move(actor, to, asked)
            case _:
                assert_never(question)

    def _ensured(self, question: Ensure, here: HomeHere) -> Verdict:
        if question.exclusive and not here.created:
            return Exists(actor=here.actor, label=self._label)
        return Found(actor=here.actor, created=here.created, label=self._label)

    # Destroying and moving

    def _better_place(self, actor: ActorEntry) -> int | None:
        """An actor that was never started here, for want of workers, goes where some are. One that ran here waits for
        its workers: they may be restarting."""
        if actor.state is not ActorState.PENDING or actor.generation > generation_of(actor.epoch, 0):
            return None
        place = self.changes.with_workers(actor.name.namespace, actor.pool)
        return place if place != self._label else None

    def _give_away(self, actor: ActorEntry, to: int, asked: Asked) -> None:
        def told(located: Located) -> None:
            self._located(asked, actor.name, located)

        def released(home: KnownHome | None) -> None:
            refusal = OwnerUnavailable(reason=CHANGING)
            there = HomeThere(label=to, epoch=home.record.epoch) if home is not None else refusal
            self.changes.end(actor.name, told, there)

        if self.changes.begin(actor.name, lambda: self._ask(asked), told):
            self.changes.release(actor.name, actor, to, released)

    def _destroy(self, actor: ActorEntry, answered: Answered) -> None:
        """The row first, then the record: a name whose record says that its actor is destroyed has none in any
        datacenter, after whatever failure. The answer waits for both."""

        def destroyed(gone: ActorEntry | None) -> None:
            if gone is None:
                answered(Missing())
            else:
                self._bury(gone, lambda: answered(Found(actor=gone, label=self._label)), answered)

        self.hosting.destroy(actor.id.hex(), destroyed)

    def _bury(self, gone: ActorEntry, done: Callable[[], None], failed: Answered) -> None:
        def told(located: Located) -> None:
            if isinstance(located, OwnerUnavailable | Unknown):
                failed(Unknown(reason=f"it ends here, and may be started again elsewhere: {located.reason}"))
            else:
                done()

        self.changes.settle(gone.name, None, lambda: self._bury(gone, done, failed), told)

    def _ended(self, gone: ActorEntry) -> None:
        """Its code has returned."""
        self._bury(gone, lambda: None, lambda _: None)

    def settle(self, name: ActorName, done: Callable[[], None]) -> None:
        """Become the home of a name, if no datacenter is, without being asked for it."""
        self.changes.settle(name, None, done, lambda _: done())

    def _look_for_home(self, actor: ActorEntry) -> None:
        """Its alarm is due. If another datacenter is home by now, the alarm is there, too."""

        def told(located: Located) -> None:
            if isinstance(located, HomeThere | Missing):
                self.hosting.forget_alarm(actor.id)

        self.changes.settle(actor.name, None, lambda: None, told)

    def _move(self, actor: ActorEntry, to: int, asked: Asked) -> None:
        if to == self._label:
            asked.answered(Found(actor=actor, label=to))
            return
        if (objection := self._objection(actor, to)) is not None:
            asked.answered(OwnerUnavailable(reason=objection, final=True))
            return
        name, changes = actor.name, self.changes

        def told(located: Located) -> None:
            self._located(asked, name, located)

        def released(home: KnownHome | None) -> None:
            if home is None:
                changes.end(name, told, Unknown(reason="the actor was stopped, and its home could not be changed yet"))
                return
            self._homes.note(name, to, home.record.epoch)
            changes.end(name, lambda _: self._hand_over(name, home, asked), Missing())

        if changes.begin(name, lambda: self._ask(asked), told):
            changes.release(name, actor, to, released)

    def _objection(self, actor: ActorEntry, to: int) -> str | None:
        lease, there = self.changes.leases.known(to), self.changes.datacenter(to)
        if actor.local:
            return "the actor keeps its state in its datacenter alone (storage 'local'), and cannot move"
        if lease is None:
            return f"{there} hosts no actors now: it is no member, or has no worker connected"
        if (actor.name.namespace, actor.pool) not in lease.pools:
            return f"no worker of pool {actor.pool!r} of namespace {actor.name.namespace!r} is in {there}"
        return None

    def _hand_over(self, name: ActorName, home: KnownHome, asked: Asked) -> None:
        """The name is the other datacenter's now, whether that has heard of it or not: the next question about it goes
        there."""
        question = AdoptActor(target=name)
        late = Unknown(reason="the actor was given away, and its new home did not answer")

        def heard(verdict: Verdict | HomeGone | None) -> None:
            asked.answered(verdict if isinstance(verdict, Found) else late)

        self._others.ask(home.record.label, question, heard)


def may_be_repeated(question: Question) -> bool:
    """Whether to ask twice is as good as once. A request is known by its key, in the state that its actor takes along;
    of one whose body comes in pieces, the first may be gone."""
    match question:
        case GetActor() | AdoptActor():
            return True
        case Ensure(exclusive=exclusive):
            return not exclusive
        case CallActor(head=head, fin=fin):
            return fin and head is not None and bool(head.idempotency_key) and not head.upgrade
        case Destroy() | MoveActor():
            return False
        case _:
            assert_never(question)
