"""Requests to actors that are made on the way, and those of actors to others."""

from typing import Any

import pytest

from epoxy.actors import asks
from epoxy.actors.asks import answer_of, call_or_make
from epoxy.actors.messages import CallActor, Missing, OwnerUnavailable, Responded, Unknown, Verdict
from epoxy.model.actors import ActorEntry, ActorName
from epoxy.model.envoy_messages import ActorAsk, ActorRequest, AskAnswer, Response
from epoxy.model.exchanges import RequestHead
from epoxy.model.writes import ConsensusFailed
from epoxy.protocol.placement.records import EnvoyId
from tests.actors.bench import NAME, Datacenter, Envoy

ALICE = EnvoyId("prod", "a")
OTHER = ActorName("prod", "room", "other")


class Place:
    """A datacenter with one actor that runs and asks."""

    def __init__(self) -> None:
        self.here = Datacenter()
        self.session: Envoy = self.here.connect("a")
        self.actor: ActorEntry = self.here.made()
        self.run(self.actor)
        self.session.take()
        self.answers: list[AskAnswer] = []

    def run(self, actor: ActorEntry) -> None:
        now = self.here.look(actor)
        self.here.hosting.running(ALICE, now.id, now.generation)

    def ask(self, envoy: EnvoyId = ALICE, refusal: str | None = None, **given: Any) -> None:
        generation = self.here.look(self.actor).generation
        fields: dict[str, Any] = {"name": OTHER, "head": RequestHead(caller="forged"), "pool": "web"} | given
        asked = ActorAsk(call=7, actor_id=self.actor.id.hex(), generation=generation, **fields)
        self.here.asks.ask(envoy, asked, self.answers.append, lambda _name: refusal)

    def asked(self) -> ActorRequest:
        for actor in self.here.hosting.page("prod", "room", None, 10):
            self.run(actor)
        (asked,) = (word for word in self.session.take() if isinstance(word, ActorRequest))
        return asked


def test_an_actor_asks_in_its_own_name_and_gets_the_answer() -> None:
    place = Place()
    place.ask(body=b"hi")
    asked = place.asked()
    assert asked.head is not None
    assert (asked.body, asked.head.caller, asked.head.chain) == (
        b"hi",
        "actor:prod/room/lobby",
        (place.actor.id.hex(),),
    )
    place.here.hosting.calls.heard(ALICE, Response(request_id=asked.request_id, body=b"ja", status=204))
    assert place.answers == [AskAnswer(call=7, status=204, body=b"ja")]


def test_one_that_waits_for_no_answer_gets_none_and_is_in_no_chain() -> None:
    place = Place()
    place.ask(reply=False, name=NAME)
    asked = place.asked()
    assert asked.head is not None
    assert asked.head.chain == (), "so an actor may tell itself something"
    place.here.hosting.calls.heard(ALICE, Response(request_id=asked.request_id))
    assert place.answers == []


def test_who_may_not_ask_is_told_and_nothing_is_done() -> None:
    place = Place()
    place.ask(refusal="the grant 'w' has no role for it")
    place.ask(EnvoyId("prod", "b"))
    place.ask(name=NAME)
    place.ask(pool="", name=OTHER)
    place.ask(body=bytes((1 << 20) + 1))
    codes = [(answer.error, answer.definite) for answer in place.answers]
    assert codes == [
        ("forbidden", True),
        ("fenced", True),
        ("call_cycle", True),
        ("not_found", True),
        ("bad_request", True),
    ]
    assert [word for word in place.session.take() if isinstance(word, ActorRequest)] == []


def test_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asks, "MAX_ASKS", 1)
    place = Place()
    place.ask()
    place.ask()
    assert [answer.error for answer in place.answers] == ["unavailable"]


def test_an_actor_is_made_if_there_is_none_and_what_went_wrong_then_is_definite() -> None:
    here = Datacenter()
    session = here.connect("a")
    told: list[Verdict] = []
    call_or_make(here.actors, CallActor(target=NAME, body=b"x"), "web", told.append)
    (actor,) = here.hosting.page("prod", "room", None, 10)
    here.hosting.running(ALICE, actor.id, actor.generation)
    (asked,) = (word for word in session.take() if isinstance(word, ActorRequest))
    here.hosting.calls.heard(ALICE, Response(request_id=asked.request_id, body=b"y"))
    assert told == [Responded(body=b"y")]
    here.keys.outcome = ConsensusFailed(reason="no quorum")
    call_or_make(here.actors, CallActor(target=OTHER, body=b"x"), "web", told.append)
    assert isinstance(told[1], OwnerUnavailable), "no actor got the request, whatever became of the name"


@pytest.mark.parametrize(
    ("verdict", "error", "definite"),
    [
        (Responded(body=b"x", error=True), "actor_failed", False),
        (Missing(), "not_found", True),
        (OwnerUnavailable(reason="x", final=True), "not_running", True),
        (OwnerUnavailable(reason="x"), "unavailable", True),
        (Unknown(reason="x"), "outcome_unknown", False),
    ],
)
def test_what_an_actor_is_told(verdict: Verdict, error: str, definite: bool) -> None:
    answer = answer_of(1, verdict)
    assert (answer.error, answer.definite) == (error, definite)
