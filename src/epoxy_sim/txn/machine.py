"""A simulated datacenter that orders transactions."""

from collections.abc import Callable
from functools import partial

from epoxy.model.cluster import ClusterConfig
from epoxy.model.instances import Instance, InstanceId
from epoxy.model.messages import UpdateConfig
from epoxy.model.records import KeyState
from epoxy.node.txn.engine import OrderedEngine
from epoxy.node.txn.executor import Results
from epoxy.node.txn.replica import MAX_HELD
from epoxy.protocol.txn.effects import TxnTiming
from epoxy_sim.disk.port import Disk
from epoxy_sim.keys import machine as per_key
from epoxy_sim.keys.network import Network
from epoxy_sim.txn.judge import TxnJudge
from epoxy_sim.txn.plan import TxnPlan
from epoxy_sim.world import World

SHELVED = 3
"""In two of so many seeds nothing that was executed stays in memory."""

DecideEnd = Callable[["TxnLife", int, bytes, Callable[[bytes | None], None]], None]


class TxnMachine(per_key.Machine):
    judge: TxnJudge
    decide_end: DecideEnd

    def __init__(self, machine_id: int, world: World, network: Network, judge: TxnJudge, plan: TxnPlan) -> None:
        super().__init__(machine_id, world, network, judge, plan)
        self.ordered_timing = TxnTiming(
            hedge_ms=plan.timing.hedge_ms,
            round_timeout_ms=plan.timing.round_timeout_ms,
            recover_ms=plan.recover_ms,
            catchup_ms=plan.catchup_ms,
            turn_ms=plan.turn_ms,
        )
        self.most_held = 0 if plan.seed % SHELVED else MAX_HELD

    def start(self) -> None:
        life = self.begin_life() if self.life is None else None
        if isinstance(life, TxnLife):
            # Machines have been up for a while when a run begins; only a restarted one asks how far the others are.
            life.engine.catchup.is_known = self.lives == 1
            self.life = life
            replica = life.engine.replica
            self.judge.reads(self.id, replica.log, replica.number)
            self.run(life, life.engine.start)

    def copy_beside(self, disk: Disk) -> per_key.Machine:
        copy = super().copy_beside(disk)
        assert isinstance(copy, TxnMachine)
        copy.decide_end = self.decide_end
        return copy

    def new_life(self) -> "TxnLife":
        return TxnLife(self)

    def wipe(self, config: ClusterConfig) -> None:
        """Another machine under the same id, which is not a member."""
        self.crash()
        self.config = config
        self.disk = self.new_disk()
        self.judge.wiped(self.id)
        self.start()

    @property
    def engine(self) -> OrderedEngine | None:
        return self.life.engine if isinstance(self.life, TxnLife) else None


class TxnLife(per_key.Life):
    def __init__(self, machine: TxnMachine) -> None:
        super().__init__(machine)
        self._judge = machine.judge
        self.engine = OrderedEngine(
            machine.id, self.store, self.replica.config, self.transport, self, self, machine.judge.alarm
        )
        self.engine.timing = machine.ordered_timing
        self.engine.replica.most_held = machine.most_held
        self.ends: dict[int, bytes] = {}
        """What this process knows of how terms ended."""
        self.engine.terms.decided_end = self.ends.get
        self.engine.terms.decide_end = partial(machine.decide_end, self)
        self.replica.ordered = self.engine.handle
        self.replica.config_watchers.append(self._config_changed)
        replica = self.engine.replica
        replica.on_change = self._changed
        self._answer = replica.on_executed
        replica.on_executed = self._executed

    def hear(self, config: ClusterConfig) -> None:
        self.run(lambda: self.replica.handle((UpdateConfig(config=config),), lambda _: None))

    def _config_changed(self, _key: bytes, _before: KeyState, _after: KeyState) -> None:
        self.engine.adopt(self.replica.config)

    def _changed(self, instance: Instance) -> None:
        term = self.engine.replica.number
        self.store.when_durable(lambda: self._judge.held(self.machine.id, instance, term))

    def _executed(self, instance_id: InstanceId, results: Results) -> None:
        replica = self.engine.replica
        term = replica.number
        self._judge.executes(self.machine.id, replica.log.get(instance_id), term)
        self.store.when_durable(lambda: self._judge.executed(self.machine.id, instance_id, term))
        self._answer(instance_id, results)
