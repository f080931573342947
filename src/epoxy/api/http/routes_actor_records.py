"""Actors and workers for people who look: one actor with its moves, and the pools of every datacenter."""

from collections import Counter
from collections.abc import Callable

from epoxy.actors.messages import Found, GetActor, Question, Verdict
from epoxy.actors.orphans import HomelessNames
from epoxy.actors.service import ActorService
from epoxy.api.http.calls import ApiCall
from epoxy.api.http.inputs import BadRequest
from epoxy.api.http.permissions import check_call
from epoxy.api.http.routes import JSON, Parameter, Route, RouteAnswer, refusal
from epoxy.model.access import Access
from epoxy.model.actors import ActorEntry, ActorName, label_of
from epoxy.model.api import DEFAULT, Name
from epoxy.model.api_actors import (
    ActorInfo,
    ActorMove,
    ActorPlace,
    ActorRecord,
    HomelessActor,
    HomelessPage,
    PoolInfo,
    PoolName,
    PoolPage,
)
from epoxy.model.homes import MAX_POOLS

Homeless = Callable[[Callable[[HomelessNames], None]], None]


class ActorRecordRoutes:
    """`info` makes the record of an actor at a datacenter, `answer` tells what else a question may end with; `homeless`
    looks for names whose home is gone."""

    def __init__(
        self,
        actors: ActorService,
        datacenter: Callable[[int], str],
        info: Callable[[ActorEntry, int], ActorInfo],
        answer: Callable[[ApiCall, Question, Verdict], None],
        homeless: Homeless,
    ) -> None:
        self._actors = actors
        self._datacenter = datacenter
        self._info = info
        self._answer = answer
        self._homeless = homeless

    def table(self) -> list[Route]:
        return [
            Route(
                method="GET",
                path="/v2/actors/record",
                handler=self.record,
                kind="http_get_actor_record",
                access=Access.CALL,
                operation="getActorRecord",
                summary="One actor: its home, its state, its alarm, and its moves as this node saw them",
                parameters=(
                    Parameter("namespace", Name, "Where its name is looked for.", DEFAULT),
                    Parameter("name", Name, "Its name.", required=True),
                    Parameter("key", Name, "Its key.", required=True),
                ),
                answers={
                    200: RouteAnswer("The actor.", {JSON: ActorRecord}),
                    404: refusal("There is no such actor.", "not_found"),
                    503: refusal("Its home does not answer now.", "unavailable", "not_running", "outcome_unknown"),
                },
            ),
            Route(
                method="GET",
                path="/v2/pools",
                handler=self.pools,
                kind="http_get_pools",
                access=Access.OPERATE,
                operation="listPools",
                summary="The pools of workers in this datacenter, and where else workers are",
                answers={200: RouteAnswer("The pools.", {JSON: PoolPage})},
            ),
            Route(
                method="GET",
                path="/v2/actors/homeless",
                handler=self.homeless,
                kind="http_get_actors_homeless",
                access=Access.OPERATE,
                operation="listHomelessActors",
                summary="Actors whose home is gone and that no datacenter has taken over yet",
                answers={200: RouteAnswer("How many, and the first of them.", {JSON: HomelessPage})},
            ),
        ]

    def record(self, call: ApiCall) -> None:
        given = call.parameters()
        try:
            words = [given.get(name, default).decode() for name, default in NAMED]
        except UnicodeDecodeError:
            raise BadRequest(400, "bad_parameter", "namespace, name and key are UTF-8") from None
        name = ActorName(*words)
        check_call(call.principal, name)
        question = GetActor(target=name)

        def answered(verdict: Verdict) -> None:
            if isinstance(verdict, Found):
                call.json(200, self._record(verdict.actor, verdict.label))
            else:
                self._answer(call, question, verdict)

        self._actors.ask(question, answered)

    def _record(self, actor: ActorEntry, label: int) -> ActorRecord:
        hosting, here = self._actors.hosting, (label or label_of(actor.id)) == self._actors.label
        state = hosting.states.held(actor) if here or not actor.local else None
        return ActorRecord(
            actor=self._info(actor, label),
            first_home=self._datacenter(label_of(actor.id)),
            here=here,
            since_ms=actor.since_ms or None,
            alarm_ms=actor.alarm_ms or None,
            failures=actor.failures,
            not_before_ms=actor.not_before_ms or None,
            saved=actor.saved,
            local=actor.local,
            state_version=state.version if state is not None else None,
            state_bytes=len(state.value or b"") if state is not None else None,
            moves=[ActorMove(**each._asdict()) for each in hosting.moves.of(actor.id)],
            seen_by=self._datacenter(self._actors.label),
        )

    def homeless(self, call: ApiCall) -> None:
        call.parameters()

        def told(found: HomelessNames) -> None:
            first = [
                HomelessActor(
                    namespace=name.namespace,
                    name=name.name,
                    key=name.key,
                    pool=record.pool,
                    datacenter=self._datacenter(record.label),
                )
                for name, record in found.first
            ]
            call.json(200, HomelessPage(count=found.count, actors=first))

        self._homeless(told)

    def pools(self, call: ApiCall) -> None:
        call.parameters()
        counted = Counter(self._actors.hosting.placing.pools.values())
        pools = [PoolInfo(namespace=pool.namespace, pool=pool.name, workers=count) for pool, count in counted.items()]
        pools.sort(key=lambda each: (each.namespace, each.pool))
        places = [self._place(label, pools) for label in self._actors.changes.members()]
        here = self._datacenter(self._actors.label)
        call.json(200, PoolPage(datacenter=here, pools=pools[:MAX_POOLS], datacenters=places))

    def _place(self, label: int, pools: list[PoolInfo]) -> ActorPlace:
        """Of this datacenter what is so now; its lease follows."""
        here, lease = label == self._actors.label, self._actors.changes.leases.known(label)
        held = [(each.namespace, each.pool) for each in pools[:MAX_POOLS]] if here else lease.pools if lease else ()
        offered = [PoolName(namespace=namespace, pool=pool) for namespace, pool in held]
        return ActorPlace(datacenter=self._datacenter(label), here=here, hosts=lease is not None, pools=offered)


NAMED = ((b"namespace", DEFAULT.encode()), (b"name", b""), (b"key", b""))
