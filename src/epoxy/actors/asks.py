"""Requests to actors that are made if they do not exist, and the requests of actors to others (`ActorAsk`)."""

from collections.abc import Callable

from msgspec.structs import replace

from epoxy.actors import directory
from epoxy.actors.messages import (
    CallActor,
    Ensure,
    Found,
    Missing,
    OwnerUnavailable,
    Responded,
    Unknown,
    Verdict,
)
from epoxy.actors.service import ActorService, Answered
from epoxy.actors.streams import StreamEnd
from epoxy.model.actors import ActorName
from epoxy.model.envoy_messages import ActorAsk, AskAnswer
from epoxy.model.errors import InvalidRequest
from epoxy.protocol.placement.records import EnvoyId

MAX_ASKS = 4096
"""Of actors of one node, under way: as many as requests may wait at one."""

MayCall = Callable[[ActorName], str | None]
"""Why an actor may not ask this one; None: it may."""


def call_or_make(
    actors: ActorService, asked: CallActor, pool: str, answered: Answered, stream: StreamEnd | None = None
) -> None:
    """Ask the actor of a name; if there is none, make it first. Most exist, and are asked with one question."""
    name = asked.target
    assert isinstance(name, ActorName)

    def heard(verdict: Verdict) -> None:
        if isinstance(verdict, Missing):
            actors.ask(Ensure(name=name, pool=pool), made)
        else:
            answered(verdict)

    def made(verdict: Verdict) -> None:
        if isinstance(verdict, Found):
            actors.ask(asked, answered, stream=stream)
        elif isinstance(verdict, Unknown):
            # The actor may have been made, which asking again finds. No actor got the request.
            answered(OwnerUnavailable(reason=f"no actor for the request yet: {verdict.reason}"))
        else:
            answered(verdict)

    actors.ask(asked, heard, stream=stream)


class Asks:
    """What actors of this node ask of others. An actor speaks for itself: its name is the caller that the other sees,
    and its id is added to those that wait."""

    def __init__(self, actors: ActorService) -> None:
        self._actors = actors
        self._under_way = 0

    def ask(self, envoy: EnvoyId, asked: ActorAsk, answer: Callable[[AskAnswer], None], objection: MayCall) -> None:
        actor = self._actors.hosting.get(asked.actor_id)
        if actor is None or not directory.speaks_of(actor, envoy, asked.generation) or not actor.is_alive:
            self._refuse(asked, answer, "fenced", "the actor that asks is not here any more")
            return
        refusal = objection(asked.name)
        if refusal is not None:
            self._refuse(asked, answer, "forbidden", refusal)
        elif self._under_way >= MAX_ASKS:
            self._refuse(asked, answer, "unavailable", f"{MAX_ASKS} requests of actors are under way already")
        else:
            name = actor.name
            chain = (*asked.head.chain, asked.actor_id) if asked.reply else ()
            head = replace(asked.head, caller=f"actor:{name.namespace}/{name.name}/{name.key}", chain=chain)
            try:
                question = CallActor(target=asked.name, body=asked.body, head=head)
            except InvalidRequest as error:
                self._refuse(asked, answer, "bad_request", str(error))
            else:
                self._pass_on(question, asked, answer)

    def _pass_on(self, question: CallActor, asked: ActorAsk, answer: Callable[[AskAnswer], None]) -> None:
        self._under_way += 1

        def heard(verdict: Verdict) -> None:
            self._under_way -= 1
            if asked.reply:
                answer(answer_of(asked.call, verdict))

        if asked.pool:
            call_or_make(self._actors, question, asked.pool, heard)
        else:
            self._actors.ask(question, heard)

    def _refuse(self, asked: ActorAsk, answer: Callable[[AskAnswer], None], code: str, reason: str) -> None:
        if asked.reply:
            answer(AskAnswer(call=asked.call, error=code, body=reason.encode(), definite=True))


def answer_of(call: int, verdict: Verdict) -> AskAnswer:
    match verdict:
        case Responded(error=False):
            return AskAnswer(call=call, status=verdict.status, headers=verdict.headers, body=verdict.body)
        case Responded():
            return AskAnswer(call=call, error="actor_failed", body=verdict.body)
        case Missing():
            return AskAnswer(call=call, error="not_found", body=b"there is no such actor", definite=True)
        case OwnerUnavailable(cycle=True):
            return AskAnswer(call=call, error="call_cycle", body=verdict.reason.encode(), definite=True)
        case OwnerUnavailable():
            code = "not_running" if verdict.final else "unavailable"
            return AskAnswer(call=call, error=code, body=verdict.reason.encode(), definite=True)
        case Unknown():
            return AskAnswer(call=call, error="outcome_unknown", body=verdict.reason.encode())
        case _:
            raise AssertionError(verdict)
