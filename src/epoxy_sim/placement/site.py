"""A simulated datacenter that hosts actors: the production classes on a simulated machine."""

from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING

from epoxy.actors.datacenter_lease import HomeLease
from epoxy.actors.home_changes import HomeChanges
from epoxy.actors.hosting import Hosting
from epoxy.actors.messages import OwnerUnavailable, Question, Verdict
from epoxy.actors.orphans import Orphans
from epoxy.actors.relaying import Withdraw
from epoxy.actors.service import ActorService
from epoxy.actors.streams import StreamEnd
from epoxy.model.records import Proposal
from epoxy.model.writes import Consistency, Outcome, ReadAnswer, ReadResult, Write
from epoxy.protocol.placement.config import PlacementConfig
from epoxy.protocol.placement.expiry import ExpireScheduler
from epoxy.protocol.placement.records import EnvoyId
from epoxy.protocol.placement.service import Placement
from epoxy_sim.keys.machine import Life
from epoxy_sim.keys.network import Network
from epoxy_sim.keys.suspension import SuspendedMachine
from epoxy_sim.placement.plan import PlacementPlan
from epoxy_sim.trace_format import NAMES
from epoxy_sim.world import Action

if TYPE_CHECKING:
    from epoxy_sim.placement.simulation import PlacementSimulation

EPOCH_MS = 1_000_000_000
RELAY_MS = 3_000

LOOK_EVERY = 4
"""Commits of a store, after which its rows are judged: that takes as long as all the rest of a run."""

QUEUE_MS = 100
"""The longest that an expiry waits in the queue."""


class RelayNetwork(Network):
    """Questions between datacenters, delayed and lost like all messages."""

    def pass_on(self, life: Life, to: int, question: Question, answered: Callable[[Verdict | None], None]) -> Withdraw:
        """A request over TCP: lost or delayed like any message, but it does not arrive twice."""
        waiting, unheard = [answered], [question]

        def arrive() -> None:
            if unheard:
                self._arrive(life, to, unheard.pop(), hand_over)

        def hand_over(verdict: Verdict | None) -> None:
            if waiting:
                life.run(lambda: waiting.pop()(verdict) if waiting else None)

        life.call_later(RELAY_MS, lambda: hand_over(None))
        self._travel(life.machine.id, to, arrive, 0.0)

        def withdraw() -> bool:
            waiting.clear()
            return False

        return withdraw

    def _arrive(self, sender: Life, to: int, question: Question, hand_over: Callable[[Verdict | None], None]) -> None:
        site, back = self.machines[to], sender.machine.id
        assert isinstance(site, Site)
        receiver = site.life
        if receiver is None:
            refused = OwnerUnavailable(reason="connection refused")
            self._travel(to, back, lambda: hand_over(refused), 0.0)
            return

        def answer(verdict: Verdict) -> None:
            self._travel(to, back, lambda: hand_over(verdict), 0.0)

        receiver.run(lambda: site.room.actors.ask(question, receiver.answering(answer), relayed=True))


class Site(SuspendedMachine):
    room: "Room"
    simulation: "PlacementSimulation"
    looked_at = 0

    def start(self) -> None:
        lives = self.lives
        super().start()
        life = self.life
        if life is not None and self.lives > lives:
            self.room = Room(self, life)
            self.looked_at = -LOOK_EVERY
            self.run(life, self.room.start)

    def run(self, life: Life, action: Action) -> None:
        super().run(life, action)
        if self.life is life and life.store.commits >= self.looked_at + LOOK_EVERY:
            self.looked_at = life.store.commits
            self.simulation.look(self, life.store.newest())


class Room:
    """Placement and actors of one life of a node."""

    def __init__(self, site: Site, life: Life) -> None:
        plan = site.simulation.plan
        step_ms = plan.wall_steps_ms[(site.lives - 1) % len(plan.wall_steps_ms)]
        epoch_ms = EPOCH_MS + site.world.now_us // 1000 + step_ms
        self.life = life
        config = config_of(plan, site.lives)
        self.placement = Placement(life.store, config, life, life, epoch_ms, owner=site.id)
        self.placement.scheduler = ExpireScheduler(self._expire)
        keys = SiteKeys(site, life)
        self.hosting = Hosting(life.store, self.placement, life, life, NAMES[site.id], site.id, keys)
        self.hosting.wall_ms = lambda: EPOCH_MS + site.world.now_us // 1000
        self.lease = HomeLease(keys, life.store, life, life, site.id, plan.home_lease_ms)
        self.lease.host(self.hosting)
        changes = HomeChanges(keys, life.store, self.lease, self.hosting, life, site.id)
        changes.members = lambda: life.replica.config.replica_ids
        self.actors = ActorService(changes, SiteRelay(site, life))
        self.orphans = Orphans(changes, keys, life, keys.names, self.actors.settle)

    def start(self) -> None:
        self.placement.start()
        self.hosting.start()
        self.lease.start()
        self.orphans.start()

    def _expire(self, envoy: EnvoyId, over: Callable[[], None]) -> None:
        """Sometimes behind many others: an envoy may ping while its expiry waits."""
        self.life.call_later(QUEUE_MS * self.life.uniform(), lambda: self.placement._expire(envoy, over))


class SiteRelay:
    def __init__(self, site: Site, life: Life) -> None:
        self._site = site
        self._life = life

    def ask(
        self,
        label: int,
        question: Question,
        answered: Callable[[Verdict | None], None],
        stream: StreamEnd | None = None,  # noqa: ARG002
    ) -> Withdraw:
        network = self._site.network
        assert isinstance(network, RelayNetwork)
        return network.pass_on(self._life, label, question, answered)


class SiteKeys:
    """The per-key engine of one life."""

    def __init__(self, site: Site, life: Life) -> None:
        self._life = life
        self._judge = site.simulation.states

    def peek(self, key: bytes) -> ReadResult | None:
        here = self._life.replica.peek(key, use_cache=True)
        return self._life.driver.leases.seen(key, here) if here is not None else None

    def names(self, prefix: bytes, after: bytes | None, limit: int) -> list[tuple[bytes, Proposal]]:
        return list(islice(self._life.replica.keyspace.everything(self._life.store.durable(), prefix, after), limit))

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None:
        def heard(answer: ReadAnswer) -> None:
            self._judge.told(key, answer)
            answered(answer)

        self._life.driver.read(key, consistency, heard)

    def write(self, write: Write, answered: Callable[[Outcome], None]) -> None:
        def heard(outcome: Outcome) -> None:
            self._judge.told(write.key, outcome)
            answered(outcome)

        self._life.driver.write(write, heard)


def config_of(plan: PlacementPlan, life: int) -> PlacementConfig:
    return PlacementConfig(
        samples=plan.samples,
        virtual_nodes=plan.places[0 if life == 1 else 1],
        eligible_threshold_ms=plan.threshold_ms,
        reserve_slots=plan.reserve_slots,
        sweep_every_s=plan.sweep_every_s,
    )
