"""Actors and envoys over HTTP. What another datacenter passes on comes to `relay`."""

from collections.abc import Callable
from typing import assert_never

import msgspec
from msgspec.structs import replace

from epoxy.actors.asks import call_or_make
from epoxy.actors.messages import (
    AdoptActor,
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
    Responded,
    Target,
    Unknown,
    Verdict,
)
from epoxy.actors.messages import CallActor as ActorCall
from epoxy.actors.service import ActorService
from epoxy.api.http.actor_streams import HttpStream
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall, error_header
from epoxy.api.http.inputs import BadRequest, Parameters, flag, json_record, number, parameters
from epoxy.api.http.permissions import check_call, check_call_all
from epoxy.api.http.routes import JSON, NOT_JSON, OCTETS, Parameter, Route, RouteAnswer, refusal
from epoxy.api.http.routes_actor_paths import IDEMPOTENCY_KEY, ActorPathRoutes, idempotency_key
from epoxy.api.http.routes_actor_records import ActorRecordRoutes, Homeless
from epoxy.model.access import Access
from epoxy.model.actors import MAX_REQUEST_BYTES, ActorEntry, ActorName, check_part, label_of
from epoxy.model.api import DEFAULT, DEFAULT_LIMIT, MAX_LIMIT, ActorId, Flag, Limit, Name
from epoxy.model.api_actors import ActorInfo, ActorOrder, ActorPage, Drained, EnvoyInfo, EnvoyPage, NamePart
from epoxy.model.exchanges import RequestHead
from epoxy.protocol.placement.balance import EnvoyLoad
from epoxy.protocol.placement.records import EnvoyId, EnvoyPool
from epoxy.protocol.placement.ring import positions

WHICH = (
    Parameter("id", ActorId, "The actor's id."),
    Parameter("namespace", Name, "Where its name is looked for.", DEFAULT),
    Parameter("name", Name, "With key, instead of id."),
    Parameter("key", Name, "With name, instead of id."),
)
WHICH_NAMES = frozenset([each.name.encode() for each in WHICH])
NAMESPACE = Parameter("namespace", Name, "The namespace.", DEFAULT)
MISSING = refusal("There is no such actor.", "not_found")
UNKNOWN = refusal(
    "Not now, or the outcome is unknown: `definite` tells.", "unavailable", "not_running", "outcome_unknown"
)

MAX_RING_ENVOYS = 100
MAX_RING_PLACES = 64
"""Envoys of which places on the ring are told, and places of each: more cannot be told apart in a picture."""

orders = msgspec.json.Decoder(ActorOrder)


class ActorRoutes:
    """`datacenter` names the one with a label; `homeless` looks for names whose home is gone."""

    def __init__(self, actors: ActorService, datacenter: Callable[[int], str], homeless: Homeless) -> None:
        self._actors = actors
        self._homeless = homeless
        self._datacenter = datacenter
        self.paths = ActorPathRoutes(actors, self.answer)

    def table(self) -> list[Route]:
        records = ActorRecordRoutes(self._actors, self._datacenter, self.info, self.answer, self._homeless)
        return [*self._actor_routes(), *self._envoy_routes(), *records.table(), *self.paths.table()]

    def _actor_routes(self) -> list[Route]:
        return [
            Route(
                method="POST",
                path="/v2/actors",
                handler=self.ensure,
                kind="http_post_actor",
                access=Access.CALL,
                operation="ensureActor",
                summary="Find the one actor of a name, or make it",
                body={JSON: ActorOrder},
                answers={
                    200: RouteAnswer("It was there.", {JSON: ActorInfo}),
                    201: RouteAnswer("This request made it.", {JSON: ActorInfo}),
                    409: refusal("It was there, and a new one was wanted.", "exists", content={JSON: ActorInfo}),
                    415: NOT_JSON,
                    503: UNKNOWN,
                },
            ),
            Route(
                method="GET",
                path="/v2/actors",
                handler=self.get,
                kind="http_get_actor",
                access=Access.CALL,
                operation="getActors",
                summary="An actor, or a page of them",
                parameters=(
                    *WHICH,
                    Parameter("key_prefix", NamePart, "With name: only actors whose key begins with this."),
                    Parameter("after", ActorId, "The last id of the page before."),
                    Parameter("limit", Limit, "Actors on the page.", DEFAULT_LIMIT),
                ),
                answers={
                    200: RouteAnswer(
                        "The actor; without id and key a page of this datacenter's.", {JSON: (ActorInfo, ActorPage)}
                    ),
                    404: MISSING,
                    503: UNKNOWN,
                },
            ),
            Route(
                method="DELETE",
                path="/v2/actors",
                handler=self.destroy,
                kind="http_delete_actor",
                access=Access.CALL,
                operation="destroyActor",
                summary="End an actor",
                parameters=WHICH,
                answers={200: RouteAnswer("Ended.", {JSON: ActorInfo}), 404: MISSING, 503: UNKNOWN},
            ),
            Route(
                method="POST",
                path="/v2/actors/request",
                handler=self.request,
                kind="http_post_actor_request",
                access=Access.CALL,
                operation="requestActor",
                summary="Ask an actor something",
                parameters=(
                    *WHICH,
                    Parameter("create", Flag, "Make the actor first, if there is none.", "false"),
                    Parameter("pool", Name, "With create: who may host it.", DEFAULT),
                    IDEMPOTENCY_KEY,
                ),
                body={OCTETS: bytes},
                body_description="For the actor, up to 1 MiB.",
                answers={
                    200: RouteAnswer("What the actor answers.", {OCTETS: bytes}),
                    404: MISSING,
                    502: refusal("The actor failed, or gave no answer.", "actor_failed"),
                    503: UNKNOWN,
                },
            ),
        ]

    def _envoy_routes(self) -> list[Route]:
        return [
            Route(
                method="GET",
                path="/v2/envoys",
                handler=self.envoys,
                kind="http_get_envoys",
                access=Access.OPERATE,
                operation="listEnvoys",
                summary="The envoys of this datacenter",
                parameters=(
                    NAMESPACE,
                    Parameter("pool", Name, "The pool.", DEFAULT),
                    Parameter("ring", Flag, "Whether to say where they are on the ring.", "false"),
                ),
                answers={200: RouteAnswer("The envoys of a pool.", {JSON: EnvoyPage})},
            ),
            Route(
                method="POST",
                path="/v2/actors/move",
                handler=self.move,
                kind="http_post_actor_move",
                access=Access.OPERATE,
                operation="moveActor",
                summary="Give an actor to another datacenter, with its state",
                parameters=(*WHICH, Parameter("to", Name, "The name of that datacenter.", required=True)),
                answers={
                    200: RouteAnswer("It is there, and was stopped here.", {JSON: ActorInfo}),
                    404: MISSING,
                    503: UNKNOWN,
                },
            ),
            Route(
                method="POST",
                path="/v2/envoys/drain",
                handler=self.drain,
                kind="http_post_envoy_drain",
                access=Access.OPERATE,
                operation="drainEnvoy",
                summary="Move an envoy's actors elsewhere",
                parameters=(
                    NAMESPACE,
                    Parameter("envoy", Name, "Its key.", required=True),
                    Parameter("undo", Flag, "It stays after all.", "false"),
                ),
                answers={
                    200: RouteAnswer("It takes no new actors, or takes them again.", {JSON: Drained}),
                    404: refusal("No such envoy is active in this datacenter.", "not_found"),
                },
            ),
        ]

    def ensure(self, call: ApiCall) -> None:
        call.parameters()
        order = json_record(call.request, orders, "order for an actor")
        name = ActorName(order.namespace, order.name, order.key)
        exclusive = order.mode == "create"
        self._ask(call, Ensure(name=name, pool=order.pool, input=order.input.encode(), exclusive=exclusive))

    def get(self, call: ApiCall) -> None:
        given = call.parameters()
        if b"id" in given or b"key" in given:
            self._ask(call, GetActor(target=target(parameters(call.request.query, WHICH_NAMES))))
        else:
            self._list(call, given)

    def destroy(self, call: ApiCall) -> None:
        self._ask(call, Destroy(target=target(call.parameters())))

    def move(self, call: ApiCall) -> None:
        given = dict(call.parameters())
        to = given.pop(b"to", b"").decode(errors="replace")
        labels = {self._datacenter(label): label for label in self._actors.changes.members()}
        if to not in labels:
            known = ", ".join(sorted(labels))
            raise BadRequest(400, "bad_parameter", f"no datacenter of this cluster is named {to!r}; there are {known}")
        self._pass_on(call, MoveActor(target=target(given), to=labels[to]))

    def request(self, call: ApiCall) -> None:
        given = call.parameters()
        whom = target(given)
        body = call.request.body
        if len(body) > MAX_REQUEST_BYTES:
            raise BadRequest(413, "body_too_large", f"a request to an actor has at most {MAX_REQUEST_BYTES} bytes")
        caller, once = call.principal.name, idempotency_key(call)
        head = RequestHead(caller=caller, idempotency_key=once) if caller or once else None
        question = ActorCall(target=whom, body=body, head=head)
        if not flag(given, b"create"):
            self._ask(call, question)
            return
        if isinstance(whom, str):
            raise BadRequest(400, "bad_parameter", "create=true goes with name and key: an id is for one that exists")
        check_call(call.principal, whom)
        stream = self._stream(call, question)
        call_or_make(self._actors, question, part(given, b"pool"), stream.answered, stream)

    def envoys(self, call: ApiCall) -> None:
        given = call.parameters()
        pool = EnvoyPool(part(given, b"namespace"), part(given, b"pool"))
        hosting = self._actors.hosting
        found = [envoy_info(load, load.envoy.id in hosting.sessions) for load in hosting.placement.loads(pool)]
        if flag(given, b"ring"):
            found[:MAX_RING_ENVOYS] = [replace(each, ring=places_of(each)) for each in found[:MAX_RING_ENVOYS]]
        call.json(200, EnvoyPage(envoys=found))

    def drain(self, call: ApiCall) -> None:
        given = call.parameters()
        envoy = EnvoyId(part(given, b"namespace"), part(given, b"envoy", ""))
        hosting = self._actors.hosting
        undo = flag(given, b"undo")
        if hosting.placement.resume(envoy) if undo else hosting.drain(envoy):
            call.json(200, Drained(envoy=envoy.key, draining=not undo))
        else:
            call.fail(404, "not_found", "no such envoy is active in this datacenter")

    def _list(self, call: ApiCall, given: Parameters) -> None:
        limit = number(given, b"limit", low=1, high=MAX_LIMIT) or DEFAULT_LIMIT
        namespace, name = part(given, b"namespace"), part(given, b"name") if b"name" in given else None
        key_prefix = part(given, b"key_prefix") if given.get(b"key_prefix") else ""
        if key_prefix and name is None:
            raise BadRequest(400, "bad_parameter", "key_prefix goes with name: keys are ordered within a name")
        check_call_all(call.principal, namespace, name, key_prefix)
        after = text(given, b"after", "") if b"after" in given else None
        found = self._actors.hosting.page(namespace, name, after, limit, key_prefix)
        last = found[-1].id.hex() if len(found) == limit else None
        here = self._actors.label
        actors = [self.info(actor, here) for actor in found if self._actors.is_home(actor)]
        call.json(200, ActorPage(actors=actors, next=last))

    def _ask(self, call: ApiCall, question: Question) -> None:
        asked = question.name if isinstance(question, Ensure) else question.target
        if isinstance(asked, ActorName):
            check_call(call.principal, asked)
        elif call.principal.grant.prefixes:
            self._ask_by_id(call, asked, question)
            return
        self._pass_on(call, question)

    def _ask_by_id(self, call: ApiCall, actor_id: str, question: Question) -> None:
        """An id does not tell the name, so the actor is looked up first. Its name never changes."""

        def looked(verdict: Verdict) -> None:
            if not isinstance(verdict, Found):
                self.answer(call, question, verdict)
                return
            try:
                check_call(call.principal, verdict.actor.name)
            except BadRequest as refused:
                call.reject(refused)
                return
            if isinstance(question, GetActor):
                self.answer(call, question, verdict)
            else:
                self._pass_on(call, question)

        self._actors.ask(GetActor(target=actor_id), looked)

    def _pass_on(self, call: ApiCall, question: Question) -> None:
        if isinstance(question, ActorCall):
            stream = self._stream(call, question)
            self._actors.ask(question, stream.answered, stream=stream)
        else:
            self._actors.ask(question, lambda verdict: self.answer(call, question, verdict))

    def _stream(self, call: ApiCall, question: ActorCall) -> HttpStream:
        return HttpStream(call, lambda verdict: self.answer(call, question, verdict))

    def answer(self, call: ApiCall, question: Question, verdict: Verdict) -> None:
        match verdict:
            case Found(actor=actor, created=created, label=label):
                call.json(201 if created else 200, self.info(actor, label, created=created))
            case Exists(actor=actor, label=label):
                call.json(409, self.info(actor, label), (error_header("exists"),))
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
            case Elsewhere():
                raise AssertionError("an answer to a datacenter, not to a client")
            case _:
                assert_never(verdict)

    def info(self, actor: ActorEntry, label: int, *, created: bool = False) -> ActorInfo:
        return ActorInfo(
            id=actor.id.hex(),
            namespace=actor.name.namespace,
            name=actor.name.name,
            key=actor.name.key,
            pool=actor.pool,
            state=actor.state.value,
            datacenter=self._datacenter(label or label_of(actor.id)),
            epoch=actor.epoch,
            envoy=actor.envoy_key,
            generation=actor.generation,
            create_ts=actor.create_ts,
            created=created,
        )


def what_next(question: Question) -> str:
    """What a client may do that does not know whether it was done."""
    match question:
        case Ensure(exclusive=False) | GetActor() | MoveActor() | AdoptActor():
            return "asking again is safe"
        case Ensure():
            return "asking again makes no second actor, but may find the one that this made"
        case Destroy(target=str()):
            return "asking again is safe: an id is never given to another actor"
        case Destroy():
            return "it may be done yet, and asking again by name may end the next actor of the name; ask by id"
        case ActorCall(head=head) if head is not None and head.idempotency_key:
            return "the actor may have carried it out; asking again with the same idempotency key is safe"
        case ActorCall():
            return "the actor may have carried it out, and asking again may do it twice"
        case _:
            assert_never(question)


def envoy_info(load: EnvoyLoad, connected: bool) -> EnvoyInfo:
    envoy = load.envoy
    return EnvoyInfo(
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
        places=envoy.places,
    )


def places_of(envoy: EnvoyInfo) -> list[float]:
    """Of its places on the ring the first, as parts of a turn."""
    found = positions(envoy.key, 0, min(envoy.places, MAX_RING_PLACES))
    return [round(int.from_bytes(each[:4], "big") / (1 << 32), 5) for each in found]


def target(given: Parameters) -> Target:
    if b"id" in given:
        if not given.keys().isdisjoint((b"namespace", b"name", b"key")):
            raise BadRequest(
                400, "bad_parameter", "an actor is asked for by its id, or by its name and key, not by both"
            )
        return text(given, b"id", "")
    return ActorName(text(given, b"namespace", DEFAULT), text(given, b"name", ""), text(given, b"key", ""))


def part(given: Parameters, name: bytes, default: str = DEFAULT) -> str:
    """A part of a name, checked."""
    found = text(given, name, default)
    check_part(name.decode(), found)
    return found


def text(given: Parameters, name: bytes, default: str) -> str:
    try:
        return given.get(name, default.encode()).decode()
    except UnicodeDecodeError:
        raise BadRequest(400, "bad_parameter", f"{name.decode()} is not UTF-8") from None
