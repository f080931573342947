"""A simulated datacenter that orders transactions."""

from epoxy.model.ordered import Instance, InstanceId
from epoxy.node.ordered import OrderedEngine
from epoxy.node.ordered_replica import Results
from epoxy.ordered.effects import Timing
from epoxy.sim import machine as per_key
from epoxy.sim.ordered.judge import Judge


class Machine(per_key.Machine):
    judge: Judge
    ordered_timing: Timing

    def start(self) -> None:
        if self.life is None:
            self.lives += 1
            life = Life(self, self._contents)
            self.life = life
            self.judge.reads(self.id, life.engine.replica.log)
            self.run(life, life.engine.start)

    @property
    def engine(self) -> OrderedEngine | None:
        return self.life.engine if isinstance(self.life, Life) else None


class Life(per_key.Life):
    def __init__(self, machine: Machine, contents: dict[bytes, bytes]) -> None:
        super().__init__(machine, contents)
        self._judge = machine.judge
        self.engine = OrderedEngine(machine.id, self.store, machine.config, self, self, self, machine.judge.alarm)
        self.engine.timing = machine.ordered_timing
        self.replica.ordered = self.engine.handle
        replica = self.engine.replica
        replica.on_change = self._changed
        self._answer = replica.on_executed
        replica.on_executed = self._executed

    def _changed(self, instance: Instance) -> None:
        self.store.when_durable(lambda: self._judge.held(self.machine.id, instance))

    def _executed(self, instance_id: InstanceId, results: Results) -> None:
        self._judge.executes(self.machine.id, self.engine.replica.log.get(instance_id))
        self.store.when_durable(lambda: self._judge.executed(self.machine.id, instance_id))
        self._answer(instance_id, results)
