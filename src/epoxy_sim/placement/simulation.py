"""One run: a plan in, a report out."""

from collections import Counter
from functools import partial
from typing import Any

from epoxy.actors import directory
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
    Unknown,
    Verdict,
)
from epoxy.model.actors import ActorName, ActorState
from epoxy.ports import Snapshot
from epoxy.protocol.placement import rows
from epoxy.protocol.placement.records import EnvoyId, EnvoyPool
from epoxy_sim.keys.judge import Judge
from epoxy_sim.keys.nemesis import Nemesis
from epoxy_sim.placement.envoy import LATENCY_US, SimEnvoy
from epoxy_sim.placement.judge import ActorJudge, Ended
from epoxy_sim.placement.plan import AskKind, EnvoyFault, EnvoyFaultKind, PlacementPlan, PlacementStep
from epoxy_sim.placement.site import RelayNetwork, Site
from epoxy_sim.simulation import Simulation, Violation

CALM_LIMIT = 12
"""Everything must run again this many thresholds after the last fault: one until envoys may expire after a restart, one
for them to expire, and the back-off of failed actors."""

RETRY_CALM_MS = 70_000
"""The longest back-off of an actor."""


CALM_TRIES = 5
CALM_ANSWER_US = 60_000_000
"""For one answer when nothing is wrong any more: longer than any timeout."""


BUSY_THRESHOLDS = 2
"""How long all actors are kept busy at the end, when none may be interrupted: longer than their lease."""

BUSY_PER_THRESHOLD = 20
"""Requests to each actor: several between two pings."""

FAILING_US = 20_000_000
MOST_FAILURES = 6
"""Failures of code that fails at once, in that time: now, and after 1, 2, 4 and 8 seconds; one to spare."""

FAILING_SEEDS = 4
"""One run in this many ends with such code."""

STARVED = "aaa"
"""A namespace without envoys. Its actors are first among the pending ones, and must not delay any others."""


class PlacementSimulation(Simulation[PlacementPlan]):
    def __init__(self, plan: PlacementPlan, *, tracing: bool) -> None:
        super().__init__(plan, tracing=tracing)
        self.pool = EnvoyPool("sim", "pool")
        self.judge = ActorJudge(self.pool)
        self.network: RelayNetwork = RelayNetwork(self.world, plan.sites)
        self.answers: Counter[str] = Counter()
        self.struck: Counter[str] = Counter()
        self.sites = [Site(i, self.world, self.network, Judge(), plan.sites) for i in range(1, plan.sites.n + 1)]
        for site in self.sites:
            site.simulation = self
        self.network.machines = {site.id: site for site in self.sites}
        self.nemesis = Nemesis(self.world, self.network, self.sites)
        self.envoys = [SimEnvoy(self, number, 1, 1) for number in range(len(plan.envoys))]
        self.code_fails = False
        self._twins: list[SimEnvoy] = []
        self._asked = 0
        self._known: set[EnvoyId] = {envoy.id for envoy in self.envoys}
        self._lives = 1
        self._calm = False
        self._wanted: set[int] = set()
        self._unsure: set[int] = set()

    def play(self) -> None:
        for site in self.sites:
            site.start()
        self.network.introduce(self.plan.sites.first_members)
        for envoy in self.envoys:
            envoy.start()
        self._starve_a_namespace()
        self.nemesis.arrange(self.plan.sites.faults)
        for step in self.plan.steps:
            self.world.after(step.at_us, lambda step=step: self._ask(step))  # type: ignore[misc]
        for fault in self.plan.envoy_faults:
            self.world.after(fault.at_us, lambda fault=fault: self._strike(fault))  # type: ignore[misc]
        end_us = self.plan.sites.faults_end_us
        self.world.after(end_us, self._relent)
        patience_us = 1000 * (CALM_LIMIT * self.plan.threshold_ms + RETRY_CALM_MS)
        if not self.world.run_until(self._is_well, end_us + patience_us):
            raise Violation("liveness", self._complaint() or "time ran out")
        self._ask_all_sites()
        self._keep_busy()
        if self.plan.seed % FAILING_SEEDS == 0:
            self._let_code_fail()

    def counts(self) -> dict[str, Any]:
        return {
            "operations": sum(self.answers.values()),
            "paths": dict(self.answers),
            "faults": dict(self.struck + self.nemesis.struck),
        }

    def look(self, site: Site, view: Snapshot) -> None:
        here = [
            each for each in sorted(self._known) if self.plan.envoys[int(each.key[1:].partition("-")[0])] == site.id
        ]
        self.judge.look(view, here)

    # Clients

    def _ask(self, step: PlacementStep) -> None:
        site, asked_us = self.sites[step.site - 1], self.world.now_us
        life = site.life
        if life is None or site.paused:
            self.answers["refused"] += 1
            return
        ended = self.judge.destroying(step.name, asked_us) if step.ask is AskKind.DESTROY else None
        if ended is not None:
            self._unsure.add(step.name)
        self._asked += 1
        question = question_of(step, self.pool, self._asked)
        self.world.note(f"{site.name} is asked: {step.ask.value} name {step.name}")

        def told(verdict: Verdict) -> None:
            if isinstance(question, CallActor):
                self._told_of_call(question, verdict)
            else:
                self._told(step, asked_us, ended, verdict)

        life.run(lambda: site.room.actors.ask(question, life.answering(told)))

    def _told(self, step: PlacementStep, asked_us: int, ended: Ended | None, verdict: Verdict) -> None:
        self.answers[word_of(verdict)] += 1
        self.world.note(f"told about name {step.name}: {verdict}")
        if ended is not None:
            if not isinstance(verdict, Unknown):
                ended.told_us = self.world.now_us
        elif isinstance(verdict, Found | Exists):
            created = isinstance(verdict, Found) and verdict.created
            self.judge.told(step.name, asked_us, self.world.now_us, verdict.actor.id, created=created)
            if step.ask is not AskKind.GET:
                self._wanted.add(step.name)

    def _told_of_call(self, call: CallActor, verdict: Verdict) -> None:
        self.answers[f"call-{word_of(verdict)}"] += 1
        if isinstance(verdict, Missing | OwnerUnavailable):
            self.judge.refused(call.body)

    def _starve_a_namespace(self) -> None:
        for site in self.sites:
            assert site.life is not None
            question = Ensure(name=ActorName(STARVED, "actor", str(site.id)), pool=self.pool.name)
            site.life.run(partial(site.room.actors.ask, question, lambda _: None))

    # Envoys

    def _strike(self, fault: EnvoyFault) -> None:
        envoy = self.envoys[fault.envoy]
        self.struck[fault.kind.value] += 1
        self.world.note(f"fault: {fault.kind.value} {envoy.id.key}")
        match fault.kind:
            case EnvoyFaultKind.KILL:
                envoy.die()
            case EnvoyFaultKind.CUT:
                envoy.cut()
            case EnvoyFaultKind.DROP if envoy.wire is not None:
                envoy.wire.end()
            case EnvoyFaultKind.DRAIN:
                envoy.drain()
            case EnvoyFaultKind.FAIL:
                envoy.fail_actors()
            case EnvoyFaultKind.TWIN:
                self._lives += 1
                twin = SimEnvoy(self, fault.envoy, self._lives, int(envoy.id.key.partition("-")[2]))
                self._twins.append(twin)
                twin.start()
                self.world.after(fault.for_us, twin.die)
            case _:
                pass
        self.world.after(fault.for_us, lambda: self._mend(fault.envoy))

    def _mend(self, number: int) -> None:
        envoy = self.envoys[number]
        envoy.mend()
        if not envoy.alive:
            self._lives += 1
            key_life = int(envoy.id.key.partition("-")[2]) if self.plan.same_key else self._lives
            self.envoys[number] = SimEnvoy(self, number, self._lives, key_life)
            self._known.add(self.envoys[number].id)
            self.envoys[number].start()

    def _relent(self) -> None:
        self.world.note("all faults end")
        self.nemesis.relent()
        self._calm = True
        for twin in self._twins:
            twin.die()
        for envoy in self.envoys:
            if envoy.protocol.draining and envoy.alive:
                envoy.die()
        for number in range(len(self.envoys)):
            self._mend(number)

    # The state after the last fault

    def _is_well(self) -> bool:
        return self._calm and self._complaint() is None

    def _complaint(self) -> str | None:
        if any(not envoy.connected for envoy in self.envoys):
            return "an envoy is not connected"
        alive = {envoy.id.key for envoy in self.envoys}
        for site in self.sites:
            assert site.life is not None
            view = site.life.store.newest()
            for envoy in rows.active_envoys(view, None, 1000)[0]:
                if envoy.key not in alive:
                    return f"{envoy.key} is gone and not expired"
                if any(not actor.is_alive for actor in directory.on_envoy(view, envoy, 1000)):
                    return f"{envoy.key} has not ended an actor that was destroyed"
            if complaint := self._complaint_about_actors(view, site):
                return complaint
        return None

    def _complaint_about_actors(self, view: Snapshot, site: Site) -> str | None:
        room = self._has_room(site)
        for actor in directory.page(view, self.pool.namespace, None, None, 1000):
            if actor.state is ActorState.RUNNING:
                if self.judge.runner(actor.id.hex()) != actor.envoy_key:
                    return f"{actor.id.hex()} should run on {actor.envoy_key}, and does not"
            elif room or actor.state is not ActorState.PENDING:
                return f"{actor.id.hex()} is {actor.state.value}"
        return None

    def _has_room(self, site: Site) -> bool:
        """Whether there are slots for all names together; otherwise some actors may have to wait."""
        here = self.plan.envoys.count(site.id)
        return here > 0 and (self.plan.slots == 0 or here * self.plan.slots >= 3)

    def _ask_all_sites(self) -> None:
        """Every site finds the same actor of each name, and one that was known before is found."""
        known = frozenset(self._wanted)
        for name in sorted({step.name for step in self.plan.steps}):
            for site in self.sites:
                created = self._ask_in_calm(site, name)
                if created and name in known and name not in self._unsure:
                    raise Violation("forgotten", f"name {name} had an actor, and no request destroyed it")

    def _keep_busy(self) -> None:
        """Requests one after the other, for longer than a lease: an actor that answers them must not be stopped."""
        names = sorted({step.name for step in self.plan.steps})
        threshold_us = 1000 * self.plan.threshold_ms
        every_us = threshold_us // BUSY_PER_THRESHOLD
        # Let the consequences of the last fault pass: a fence that is due, a dead connection.
        self._pass(threshold_us)
        before = self.judge.interrupted
        for _ in range(BUSY_THRESHOLDS * BUSY_PER_THRESHOLD):
            for name in names:
                site = self.sites[self._asked % len(self.sites)]
                self._ask(PlacementStep(at_us=0, site=site.id, ask=AskKind.CALL, name=name))
            self._pass(every_us)
        if self.judge.interrupted > before:
            raise Violation("interrupted", f"{self.judge.interrupted - before} actors, and no fault was near")

    def _pass(self, time_us: int) -> None:
        over: list[bool] = []
        self.world.after(time_us, lambda: over.append(True))
        self.world.run_until(partial(bool, over), self.world.now_us + time_us)

    def _let_code_fail(self) -> None:
        """Actors that fail whenever they start: they must be tried less and less often."""
        self.code_fails = True
        self.judge.failures.clear()
        for name in sorted({step.name for step in self.plan.steps}):
            for site in self.sites:
                self._ask(PlacementStep(at_us=0, site=site.id, ask=AskKind.CALL, name=name))
        # By then the requests of their own datacenter have arrived.
        self._pass(2 * LATENCY_US)
        for envoy in self.envoys:
            envoy.fail_actors()
        self._pass(FAILING_US)
        for actor_id, failures in self.judge.failures.items():
            if failures > MOST_FAILURES:
                raise Violation("back-off", f"{actor_id} failed {failures} times in {FAILING_US // 1_000_000} s")

    def _ask_in_calm(self, site: Site, name: int) -> bool:
        """Whether this call created it. A conflicting write from before may cost a few attempts."""
        verdict: Verdict | None = None
        for _ in range(CALM_TRIES):
            found: list[Verdict] = []
            asked_us, life = self.world.now_us, site.life
            assert life is not None
            question = question_of(PlacementStep(at_us=0, site=site.id, ask=AskKind.ENSURE, name=name), self.pool)
            life.run(partial(site.room.actors.ask, question, found.append))
            self.world.run_until(partial(bool, found), self.world.now_us + CALM_ANSWER_US)
            verdict = found[0] if found else None
            if isinstance(verdict, Found):
                self.judge.told(name, asked_us, self.world.now_us, verdict.actor.id, created=verdict.created)
                return verdict.created
        raise Violation("liveness", f"name {name} at {site.name}, when all is calm: {verdict}")


def word_of(verdict: Verdict) -> str:
    return "unavailable" if isinstance(verdict, OwnerUnavailable) else type(verdict).__name__.lower()


run = PlacementSimulation.run


def question_of(step: PlacementStep, pool: EnvoyPool, number: int = 0) -> Question:
    """`number`: the body of a request."""
    name = ActorName(pool.namespace, "actor", str(step.name))
    match step.ask:
        case AskKind.ENSURE | AskKind.CREATE:
            return Ensure(name=name, pool=pool.name, exclusive=step.ask is AskKind.CREATE)
        case AskKind.GET:
            return GetActor(target=name)
        case AskKind.DESTROY:
            return Destroy(target=name)
        case AskKind.CALL:
            return CallActor(target=name, body=str(number).encode())
