"""What must hold when faults have ended: all is found and answered, and single faults in the calm cost no more than
they may."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from epoxy.actors import listing
from epoxy.actors.messages import Found, Verdict
from epoxy.model.actors import ActorState
from epoxy.ports import Snapshot
from epoxy.protocol.placement import rows
from epoxy_sim.placement.clients import question_of
from epoxy_sim.placement.envoy import LATENCY_US, SimEnvoy
from epoxy_sim.placement.plan import AskKind, CleanUp, PlacementStep
from epoxy_sim.placement.site import EPOCH_MS, Site
from epoxy_sim.placement.workload import ActorDoes
from epoxy_sim.simulation import Violation

if TYPE_CHECKING:
    from epoxy_sim.placement.simulation import PlacementSimulation

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

ALARM_US = 45_000_000
"""An alarm whose message was lost is told again after 30 s."""

SERVED_US = 3_000_000
"""For an answer of an actor that runs, or wakes."""

DRAINING_US = 2_000_000
DRAINING_EVERY_US = 50_000

AWAY_US = 2_000_000
"""How long after its worker counts as lost an actor answers again."""

AWAY_REGION_US = 5_000_000
"""How long after the end of its home's lease an actor answers elsewhere."""

QUORUM_SITES = 3
"""With so many, one may be gone."""

DRIFT = 1.02
"""Clocks run within one percent of each other, and replicas count a lease for one percent longer."""


class Calm:
    def __init__(self, simulation: "PlacementSimulation") -> None:
        self._simulation = simulation
        self._plan = simulation.plan
        self._world = simulation.world
        self._judge = simulation.judge
        self._clients = simulation.clients
        self._turn = 0

    @property
    def names(self) -> list[int]:
        return sorted({step.name for step in self._plan.steps})

    # What is in order

    def settle(self) -> None:
        patience_us = 1000 * (CALM_LIMIT * self._plan.threshold_ms + RETRY_CALM_MS)
        if not self._world.run_until(self._is_well, self._plan.sites.faults_end_us + patience_us):
            raise Violation("liveness", self._complaint() or "time ran out")

    def _is_well(self) -> bool:
        return self._simulation.is_calm and self._complaint() is None

    def _complaint(self) -> str | None:
        if any(not envoy.connected for envoy in self._simulation.envoys):
            return "an envoy is not connected"
        alive = {envoy.id.key for envoy in self._simulation.envoys}
        for site in self._simulation.sites:
            assert site.life is not None
            view = site.life.store.newest()
            for envoy in rows.active_envoys(view, None, 1000)[0]:
                if envoy.key not in alive:
                    return f"{envoy.key} is gone and not expired"
                if any(not actor.is_alive for actor in listing.on_envoy(view, envoy, 1000)):
                    return f"{envoy.key} has not ended an actor that was destroyed"
            if complaint := self._complaint_about_actors(view, site):
                return complaint
        return None

    def _complaint_about_actors(self, view: Snapshot, site: Site) -> str | None:
        room = self._has_room(site)
        for actor in listing.page(view, self._simulation.pool.namespace, None, None, 1000):
            if actor.state is ActorState.RUNNING:
                if self._judge.runner(actor.id.hex()) != actor.envoy_key:
                    return f"{actor.id.hex()} should run on {actor.envoy_key}, and does not"
            elif actor.state is not ActorState.ASLEEP and (room or actor.state is not ActorState.PENDING):
                return f"{actor.id.hex()} is {actor.state.value}"
        return None

    def _has_room(self, site: Site, without: int = 0) -> bool:
        """Whether there are slots for all names together; otherwise some actors may have to wait."""
        here = self._plan.envoys.count(site.id) - without
        return here > 0 and (self._plan.slots == 0 or here * self._plan.slots >= 3)

    def ask_all_sites(self) -> None:
        """Every site finds the same actor of each name, and one that was known before is found."""
        known = frozenset(self._clients.wanted)
        for name in self.names:
            for site in self._simulation.sites:
                created = self._ask(site, name)
                if created and name in known and name not in self._clients.unsure:
                    raise Violation("forgotten", f"name {name} had an actor, and no request destroyed it")

    def _ask(self, site: Site, name: int) -> bool:
        """Whether this call created it. A conflicting write from before may cost a few attempts."""
        verdict: Verdict | None = None
        pool = self._simulation.pool
        for _ in range(CALM_TRIES):
            found: list[Verdict] = []
            asked_us, life = self._world.now_us, site.life
            assert life is not None
            step = PlacementStep(at_us=0, site=site.id, ask=AskKind.ENSURE, name=name)
            question = question_of(step, pool.namespace, pool.name)
            life.run(partial(site.room.actors.ask, question, found.append))
            self._world.run_until(partial(bool, found), self._world.now_us + CALM_ANSWER_US)
            verdict = found[0] if found else None
            if isinstance(verdict, Found):
                self._judge.told(name, asked_us, self._world.now_us, verdict.actor.id, created=verdict.created)
                return verdict.created
        raise Violation("liveness", f"name {name} at {site.name}, when all is calm: {verdict}")

    def all_answered(self) -> None:
        """Requests that are asked again until they are answered are answered, unless no worker has room there."""
        names = self._served()
        waits = self._clients.waiting_for
        if not self._world.run_until(lambda: not any(waits[name] for name in names), self._later(CALM_ANSWER_US)):
            raise Violation("liveness", f"requests to {[name for name in names if waits[name]]} are not answered")
        self._world.run_until(lambda: not self._clients.waiting, self._later(CALM_ANSWER_US))

    def alarms_rang(self) -> None:
        """Those that were due while nothing was broken."""
        began_ms = self._now_ms()
        if not self._world.run_until(lambda: not self._overdue(began_ms), self._later(ALARM_US)):
            raise Violation("alarm", f"{self._overdue(began_ms)} did not ring")

    def _overdue(self, by_ms: int) -> list[str]:
        """Of actors that run or are asleep: one that waits for a worker is told when it starts."""
        late = []
        for site in self._simulation.sites:
            assert site.life is not None
            for actor in listing.page(site.life.store.newest(), self._simulation.pool.namespace, None, None, 1000):
                ready = actor.state in (ActorState.RUNNING, ActorState.ASLEEP) and site.room.hosting.at_home(actor)
                if ready and self._simulation.states.overdue(actor.id, by_ms):
                    late.append(actor.id.hex())
        return late

    def _now_ms(self) -> int:
        return EPOCH_MS + self._world.now_us // 1000

    def _later(self, by_us: int) -> int:
        return self._world.now_us + by_us

    # Single faults

    def keep_busy(self) -> None:
        """Requests one after the other, for longer than a lease: an actor that answers them must not be stopped."""
        threshold_us = 1000 * self._plan.threshold_ms
        # Let the consequences of the last fault pass: a fence that is due, a dead connection.
        self._pass(threshold_us)
        before = self._judge.interrupted
        for _ in range(BUSY_THRESHOLDS * BUSY_PER_THRESHOLD):
            self._call_all(ActorDoes.NOTHING)
            self._pass(threshold_us // BUSY_PER_THRESHOLD)
        if self._judge.interrupted > before:
            raise Violation("interrupted", f"{self._judge.interrupted - before} actors, and no fault was near")

    def _call_all(self, does: ActorDoes, *, again: bool = False, names: Sequence[int] | None = None) -> None:
        for name in self.names if names is None else names:
            self._turn += 1
            site = self._simulation.sites[self._turn % len(self._simulation.sites)]
            step = PlacementStep(at_us=0, site=site.id, ask=AskKind.CALL, name=name, does=does, again=again)
            self._clients.ask(step)

    def _served(self) -> list[int]:
        """The names whose actors answer, and go on to: others have no worker, or were destroyed by a request that came
        late. An actor that sleeps may lose its slot to another one for good, where there are too few."""
        if (
            self._sleeps()
            and self._plan.slots
            and not all(self._has_room(site) for site in self._simulation.sites if self._plan.envoys.count(site.id))
        ):
            return []
        asked_us = self._world.now_us
        self._call_all(ActorDoes.NOTHING)
        self._pass(SERVED_US)
        return [name for name in self.names if self._clients.answered_us.get(name, -1) > asked_us]

    def _sleeps(self) -> bool:
        return self._plan.sleep_after_s > 0 or any(step.does is ActorDoes.SLEEP for step in self._plan.steps)

    def _pass(self, time_us: int) -> None:
        over: list[bool] = []
        self._world.after(time_us, lambda: over.append(True))
        self._world.run_until(partial(bool, over), self._world.now_us + time_us)

    def _spare(self) -> SimEnvoy | None:
        """An envoy whose actors another one has room for."""
        return next((each for each in self._simulation.envoys if self._has_room(each.site, without=1)), None)

    def drain_one(self) -> None:
        """No request fails while actors move off a worker that leaves in order."""
        envoy = self._spare()
        if envoy is None or self._plan.clean_up in (CleanUp.SLOW, CleanUp.ENDLESS):
            return
        names, before = self._served(), self._clients.failed.copy()
        envoy.leave()
        for _ in range(DRAINING_US // DRAINING_EVERY_US):
            self._call_all(ActorDoes.ADD, names=names)
            self._pass(DRAINING_EVERY_US)
        waits = self._clients.waiting_for
        self._world.run_until(lambda: not any(waits[name] for name in names), self._later(CALM_ANSWER_US))
        failed = sum(self._clients.failed[name] - before[name] for name in names)
        if failed:
            raise Violation("drained", f"{failed} requests failed while {envoy.name} left")
        self._simulation.mend(envoy.number)

    def kill_one(self) -> None:
        """Actors answer again, soon after their worker counts as lost."""
        envoy = self._spare()
        if envoy is None:
            return
        names = self._served()
        envoy.die()
        self._call_all(ActorDoes.ADD, again=True, names=names)
        limit_us = int(DRIFT * 1000 * self._plan.threshold_ms) + AWAY_US
        waits = self._clients.waiting_for
        if not self._world.run_until(lambda: not any(waits[name] for name in names), self._later(limit_us)):
            raise Violation("away", f"{[name for name in names if waits[name]]}, longer than {limit_us / 1e6:g} s")
        self._simulation.mend(envoy.number)

    def cut_region(self) -> None:
        """Actors of a datacenter that is gone answer elsewhere, soon after its lease is over."""
        sites = self._simulation.sites
        names = self._served()
        gone = max(sites, key=lambda site: self._plan.envoys.count(site.id))
        if len(sites) < QUORUM_SITES or not any(self._has_room(site) for site in sites if site is not gone):
            return
        destroyed = names.pop() if len(names) > 1 else None
        if destroyed is not None:
            self._clients.ask(PlacementStep(at_us=0, site=gone.id, ask=AskKind.DESTROY, name=destroyed))
            self._pass(SERVED_US)
        gone.crash()
        for envoy in self._simulation.envoys:
            if envoy.site is gone:
                envoy.die()
        self._call_all(ActorDoes.ADD, again=True, names=names)
        limit_us = int(DRIFT * 1000 * self._plan.home_lease_ms) + AWAY_REGION_US
        waits = self._clients.waiting_for
        if not self._world.run_until(lambda: not any(waits[name] for name in names), self._later(limit_us)):
            raise Violation("away", f"{[name for name in names if waits[name]]}, longer than {limit_us / 1e6:g} s")
        gone.start()
        for number in range(len(self._simulation.envoys)):
            self._simulation.mend(number)
        self._pass(SERVED_US)

    def let_code_fail(self) -> None:
        """Actors that fail whenever they start: they must be tried less and less often."""
        self._simulation.code_fails = True
        self._judge.failures.clear()
        for site in self._simulation.sites:
            for name in self.names:
                self._clients.ask(PlacementStep(at_us=0, site=site.id, ask=AskKind.CALL, name=name))
        # By then the requests of their own datacenter have arrived.
        self._pass(2 * LATENCY_US)
        for envoy in self._simulation.envoys:
            envoy.fail_actors()
        self._pass(FAILING_US)
        for actor_id, failures in self._judge.failures.items():
            if failures > MOST_FAILURES:
                raise Violation("back-off", f"{actor_id} failed {failures} times in {FAILING_US // 1_000_000} s")
