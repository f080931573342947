"""Actors and envoys over HTTP.

POST   /v2/actors                       {name, key, ...}: get or create; mode=create: only create
GET    /v2/actors?id= or ?name=&key=    one; without them a page of this datacenter's
DELETE /v2/actors?id= or ?name=&key=
POST   /v2/actors/request?...           the body goes to the actor, its answer comes back; create=true makes it first
POST   /v2/actors/relay                 what another datacenter passes on
GET    /v2/envoys?pool=
POST   /v2/envoys/drain?envoy=          undo=true: it stays after all
GET    /v2/envoys/connect               a WebSocket, for envoys
"""

from collections.abc import Callable
from typing import Literal, TypeVar, assert_never

import msgspec
from msgspec import Struct

from epoxy.actors.messages import CallActor as ActorCall
from epoxy.actors.messages import (
    Destroy,
    Ensure,
    Exists,
    Found,
    GetActor,
    Missing,
    OwnerUnavailable,
    Question,
    Responded,
    Target,
    Unknown,
    Verdict,
)
from epoxy.actors.service import ActorService
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall
from epoxy.api.http.inputs import BadRequest, Parameters, choice, json_body, number, parameters
from epoxy.codec import json_text
from epoxy.model.actors import MAX_REQUEST_BYTES, ActorEntry, ActorName, check_part, label_of
from epoxy.model.errors import CodecError, InvalidRequest
from epoxy.protocol.placement.balance import EnvoyLoad
from epoxy.protocol.placement.records import EnvoyId, EnvoyPool

T = TypeVar("T")

DEFAULT = "default"
"""The namespace and the pool of those who need only one."""

MAX_LIMIT, DEFAULT_LIMIT = 1000, 100
"""As for keys."""

WHO = frozenset((b"id", b"namespace", b"name", b"key"))
LISTED = WHO | {b"after", b"limit"}
ASKED = WHO | {b"create", b"pool"}
ENVOYS = frozenset((b"namespace", b"pool"))
DRAINED = frozenset((b"namespace", b"envoy", b"undo"))

questions: msgspec.json.Decoder[Question] = msgspec.json.Decoder(Question)


class EnsureBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    key: str
    namespace: str = DEFAULT
    pool: str = DEFAULT
    input: str = ""
    mode: Literal["get_or_create", "create"] = "get_or_create"


wishes = msgspec.json.Decoder(EnsureBody)


class ActorRecord(Struct, frozen=True, kw_only=True):
    """`datacenter` is the one that owns it, `envoy` where it runs."""

    id: str
    namespace: str
    name: str
    key: str
    pool: str
    state: str
    datacenter: str
    envoy: str | None
    generation: int
    create_ts: int


class ActorPage(Struct, frozen=True, kw_only=True):
    actors: list[ActorRecord]
    next: str | None


class EnvoyRecord(Struct, frozen=True, kw_only=True):
    namespace: str
    pool: str
    key: str
    version: int
    slots: int
    capacity: int
    weight: int
    last_ping_ts: int
    last_rtt_ms: int
    connected: bool
    draining: bool


class EnvoyPage(Struct, frozen=True, kw_only=True):
    envoys: list[EnvoyRecord]


class ActorRoutes:
    """`datacenter` names the one with a label."""

    def __init__(self, actors: ActorService, datacenter: Callable[[int], str]) -> None:
        self._actors = actors
        self._datacenter = datacenter

    def ensure(self, call: ApiCall) -> None:
        parameters(call.request.query, frozenset())
        given = json_body(call.request)
        try:
            body = json_text.decode(wishes, given)
        except CodecError as error:
            raise BadRequest(400, "bad_request", f"the body is not what it should be: {error}") from error
        name = checked(lambda: ActorName(body.namespace, body.name, body.key))
        first = body.input.encode()
        question = checked(lambda: Ensure(name=name, pool=body.pool, input=first, exclusive=body.mode == "create"))
        self._ask(call, question)

    def get(self, call: ApiCall) -> None:
        given = parameters(call.request.query, LISTED)
        if b"id" in given or b"key" in given:
            self._ask(call, GetActor(target=target(parameters(call.request.query, WHO))))
        else:
            self._list(call, given)

    def destroy(self, call: ApiCall) -> None:
        self._ask(call, Destroy(target=target(parameters(call.request.query, WHO))))

    def request(self, call: ApiCall) -> None:
        given = parameters(call.request.query, ASKED)
        whom = target(given)
        body = call.request.body
        if len(body) > MAX_REQUEST_BYTES:
            raise BadRequest(413, "body_too_large", f"a request to an actor has at most {MAX_REQUEST_BYTES} bytes")
        if not switch(given, b"create"):
            self._ask(call, ActorCall(target=whom, body=body))
            return
        if isinstance(whom, str):
            raise BadRequest(400, "bad_parameter", "create=true goes with name and key: an id is for one that exists")
        question = Ensure(name=whom, pool=part(given, b"pool"))

        def made(verdict: Verdict) -> None:
            if isinstance(verdict, Found):
                self._ask(call, ActorCall(target=verdict.actor.id.hex(), body=body))
            elif isinstance(verdict, Unknown):
                # The actor may have been made, which asking again finds. The request was passed on to nobody.
                self._answer(call, question, OwnerUnavailable(reason=f"no actor for the request yet: {verdict.reason}"))
            else:
                self._answer(call, question, verdict)

        self._actors.ask(question, made)

    def relay(self, call: ApiCall) -> None:
        body = json_body(call.request)
        try:
            question = json_text.decode(questions, body)
        except (CodecError, InvalidRequest) as error:
            raise BadRequest(400, "bad_request", str(error)) from error
        checked(lambda: self._actors.ask(question, lambda verdict: call.json(200, verdict), relayed=True))

    def envoys(self, call: ApiCall) -> None:
        given = parameters(call.request.query, ENVOYS)
        pool = EnvoyPool(part(given, b"namespace"), part(given, b"pool"))
        hosting = self._actors.hosting
        shown = [envoy_record(load, load.envoy.id in hosting.sessions) for load in hosting.placement.loads(pool)]
        call.json(200, EnvoyPage(envoys=shown))

    def drain(self, call: ApiCall) -> None:
        given = parameters(call.request.query, DRAINED)
        envoy = EnvoyId(part(given, b"namespace"), part(given, b"envoy", ""))
        hosting = self._actors.hosting
        done = hosting.placement.resume(envoy) if switch(given, b"undo") else hosting.drain(envoy)
        if done:
            call.json(200, {"envoy": envoy.key, "draining": not switch(given, b"undo")})
        else:
            call.fail(404, "not_found", "no such envoy is active in this datacenter")

    def _list(self, call: ApiCall, given: Parameters) -> None:
        limit = number(given, b"limit", low=1, high=MAX_LIMIT) or DEFAULT_LIMIT
        namespace, name = part(given, b"namespace"), part(given, b"name") if b"name" in given else None
        after = text(given, b"after", "") if b"after" in given else None
        found = checked(lambda: self._actors.hosting.page(namespace, name, after, limit))
        last = found[-1].id.hex() if len(found) == limit else None
        call.json(200, ActorPage(actors=[self._record(actor) for actor in found], next=last))

    def _ask(self, call: ApiCall, question: Question) -> None:
        checked(lambda: self._actors.ask(question, lambda verdict: self._answer(call, question, verdict)))

    def _answer(self, call: ApiCall, question: Question, verdict: Verdict) -> None:
        match verdict:
            case Found(actor=actor, created=created):
                call.json(201 if created else 200, self._record(actor))
            case Exists(actor=actor):
                call.json(409, self._record(actor), ((b"Epoxy-Error", b"exists"),))
            case Missing():
                call.fail(404, "not_found", "there is no such actor")
            case Responded(body=body, error=False):
                call.answer(200, body)
            case Responded(body=body):
                call.fail(502, "actor_failed", body.decode(errors="replace"), definite=False)
            case OwnerUnavailable(reason=reason, final=final):
                call.fail(503, "not_running" if final else "unavailable", reason, retry_after_ms=RETRY_AFTER_MS)
            case Unknown(reason=reason):
                call.fail(503, "outcome_unknown", f"{reason}; {what_next(question)}", definite=False)
            case _:
                assert_never(verdict)

    def _record(self, actor: ActorEntry) -> ActorRecord:
        return ActorRecord(
            id=actor.id.hex(),
            namespace=actor.name.namespace,
            name=actor.name.name,
            key=actor.name.key,
            pool=actor.pool,
            state=actor.state.value,
            datacenter=self._datacenter(label_of(actor.id)),
            envoy=actor.envoy_key,
            generation=actor.generation,
            create_ts=actor.create_ts,
        )


def what_next(question: Question) -> str:
    """For those who do not know whether it was done."""
    match question:
        case Ensure(exclusive=False) | GetActor():
            return "asking again is safe"
        case Ensure():
            return "asking again makes no second actor, but may find the one that this made"
        case Destroy(target=str()):
            return "asking again is safe: an id is never given to another actor"
        case Destroy():
            return "it may be done yet, and asking again by name may end the next actor of the name; ask by id"
        case ActorCall():
            return "the actor may have carried it out, and asking again may do it twice"
        case _:
            assert_never(question)


def envoy_record(load: EnvoyLoad, connected: bool) -> EnvoyRecord:
    envoy = load.envoy
    return EnvoyRecord(
        namespace=envoy.namespace,
        pool=envoy.pool,
        key=envoy.key,
        version=envoy.version,
        slots=load.slots,
        capacity=envoy.capacity,
        weight=envoy.weight,
        last_ping_ts=envoy.last_ping_ts,
        last_rtt_ms=envoy.last_rtt_ms,
        connected=connected,
        draining=envoy.draining_ts is not None,
    )


def target(given: Parameters) -> Target:
    if b"id" in given:
        if not given.keys().isdisjoint((b"namespace", b"name", b"key")):
            raise BadRequest(
                400, "bad_parameter", "an actor is asked for by its id, or by its name and key, not by both"
            )
        return text(given, b"id", "")
    return checked(
        lambda: ActorName(text(given, b"namespace", DEFAULT), text(given, b"name", ""), text(given, b"key", ""))
    )


def part(given: Parameters, name: bytes, default: str = DEFAULT) -> str:
    """A word that names are made of."""
    word = text(given, name, default)
    checked(lambda: check_part(name.decode(), word))
    return word


def text(given: Parameters, name: bytes, default: str) -> str:
    try:
        return given.get(name, default.encode()).decode()
    except UnicodeDecodeError:
        raise BadRequest(400, "bad_parameter", f"{name.decode()} is not UTF-8") from None


def switch(given: Parameters, name: bytes) -> bool:
    return choice(name.decode(), given.get(name, b"false"), (b"true", b"false")) == b"true"


def checked(make: Callable[[], T]) -> T:
    """What the nouns refuse is a mistake of the client's."""
    try:
        return make()
    except BadRequest:
        raise
    except InvalidRequest as error:
        raise BadRequest(400, "bad_request", str(error)) from error
