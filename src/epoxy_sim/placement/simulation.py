"""One run: a plan in, a report out."""

from collections import Counter
from functools import partial
from typing import Any

from epoxy.actors.messages import Ensure
from epoxy.client.hosted.actor_task import LOG
from epoxy.model.actors import ActorName
from epoxy.ports import Snapshot
from epoxy.protocol.placement.records import EnvoyId, EnvoyPool
from epoxy_sim.keys.nemesis import Nemesis
from epoxy_sim.placement.calm import Calm
from epoxy_sim.placement.clients import ActorClients
from epoxy_sim.placement.envoy import SimEnvoy
from epoxy_sim.placement.judge import ActorJudge
from epoxy_sim.placement.plan import CleanUp, EnvoyFault, EnvoyFaultKind, PlacementPlan
from epoxy_sim.placement.process import SimProcess, Standstill
from epoxy_sim.placement.site import RelayNetwork, Site
from epoxy_sim.placement.state_judge import StateJudge
from epoxy_sim.simulation import Simulation

ENDINGS = 3
"""Runs end in as many ways: with code that fails, with workers that leave, or with a datacenter that is gone."""

STANDSTILLS = {
    EnvoyFaultKind.STOP: Standstill.STOP,
    EnvoyFaultKind.BLOCK: Standstill.BLOCK,
    EnvoyFaultKind.SUSPEND: Standstill.SUSPEND,
}

STARVED = "aaa"
"""A namespace without envoys. Its actors are first among the pending ones, and must not delay any others."""


class PlacementSimulation(Simulation[PlacementPlan]):
    def __init__(self, plan: PlacementPlan, *, tracing: bool) -> None:
        super().__init__(plan, tracing=tracing)
        self.pool = EnvoyPool("sim", "pool")
        self.judge = ActorJudge(self.pool)
        self.network: RelayNetwork = RelayNetwork(self.world, plan.sites)
        self.struck: Counter[str] = Counter()
        self.states = StateJudge(self.world, self._held_by)
        self.sites = [Site(i, self.world, self.network, self.states, plan.sites) for i in range(1, plan.sites.n + 1)]
        for site in self.sites:
            site.simulation = self
        self.network.machines = {site.id: site for site in self.sites}
        self.nemesis = Nemesis(self.world, self.network, self.sites)
        self.processes: list[SimProcess] = []
        self.envoys = [SimEnvoy(self, number, 1, 1) for number in range(len(plan.envoys))]
        self.code_fails = False
        self._twins: list[SimEnvoy] = []
        self._known: set[EnvoyId] = {envoy.id for envoy in self.envoys}
        self._lives = 1
        self.is_calm = False
        self.clients = ActorClients(self)

    def play(self) -> None:
        """What the code of actors fails with on purpose is not logged."""
        LOG.disabled = True
        try:
            self._play()
        finally:
            for process in self.processes:
                process.end()
            LOG.disabled = False

    def _play(self) -> None:
        for site in self.sites:
            site.start()
        self.network.introduce(self.plan.sites.first_members)
        for envoy in self.envoys:
            envoy.start()
        self._starve_a_namespace()
        self.nemesis.arrange(self.plan.sites.faults)
        for step in self.plan.steps:
            self.world.after(step.at_us, lambda step=step: self.clients.ask(step))  # type: ignore[misc]
        for fault in self.plan.envoy_faults:
            self.world.after(fault.at_us, lambda fault=fault: self._strike(fault))  # type: ignore[misc]
        end_us = self.plan.sites.faults_end_us
        self.world.after(end_us, self._relent)
        calm = Calm(self)
        calm.settle()
        calm.ask_all_sites()
        calm.all_answered()
        calm.alarms_rang()
        calm.keep_busy()
        if self.plan.seed % ENDINGS == 0:
            calm.let_code_fail()
        elif self.plan.seed % ENDINGS == 1:
            calm.drain_one()
            calm.kill_one()
            calm.ask_all_sites()
        else:
            calm.cut_region()
            calm.ask_all_sites()

    def counts(self) -> dict[str, Any]:
        return {
            "operations": sum(self.clients.answers.values()),
            "paths": dict(self.clients.answers),
            "faults": dict(self.struck + self.nemesis.struck),
            "verdicts": {
                "saves": self.states.saves,
                "answers": self.states.answers,
                "alarms": self.states.alarms,
                "zombies": self.judge.zombies,
            },
        }

    def _held_by(self, label: int) -> bytes | None:
        site = self.sites[label - 1]
        return site.room.lease.held() if site.life is not None else None

    def look(self, site: Site, view: Snapshot) -> None:
        here = [
            each for each in sorted(self._known) if self.plan.envoys[int(each.key[1:].partition("-")[0])] == site.id
        ]
        self.judge.look(view, here)

    def _starve_a_namespace(self) -> None:
        for site in self.sites:
            assert site.life is not None
            question = Ensure(name=ActorName(STARVED, "list", str(site.id)), pool=self.pool.name)
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
            case EnvoyFaultKind.STOP | EnvoyFaultKind.BLOCK | EnvoyFaultKind.SUSPEND:
                envoy.process.stand_still(STANDSTILLS[fault.kind], fault.for_us)
            case _:
                pass
        self.world.after(fault.for_us, lambda: self.mend(fault.envoy))

    def mend(self, number: int) -> None:
        envoy = self.envoys[number]
        envoy.mend()
        if not envoy.alive:
            self._start_again(envoy)

    def supervise(self, envoy: SimEnvoy) -> None:
        """Whose process has ended itself. Where that is a fault's consequence, the end of the fault starts it again."""
        if self.plan.clean_up is CleanUp.ENDLESS and self.envoys[envoy.number] is envoy:
            self._start_again(envoy)

    def _start_again(self, envoy: SimEnvoy) -> None:
        self._lives += 1
        key_life = int(envoy.id.key.partition("-")[2]) if self.plan.same_key else self._lives
        self.envoys[envoy.number] = again = SimEnvoy(self, envoy.number, self._lives, key_life)
        self._known.add(again.id)
        again.start()

    def _relent(self) -> None:
        self.world.note("all faults end")
        self.nemesis.relent()
        self.is_calm = True
        for twin in self._twins:
            twin.die()
        for envoy in self.envoys:
            if envoy.protocol.draining and envoy.alive:
                envoy.die()
        for number in range(len(self.envoys)):
            self.mend(number)


run = PlacementSimulation.run
