"""An operator's orders, signed as `epoxy elect failover` signs them, and an eavesdropper who sends them again."""

from random import Random
from typing import TYPE_CHECKING

from epoxy.protocol.elect.operator_orders import FAILOVER, OperatorOrder, proof_of

if TYPE_CHECKING:
    from epoxy_sim.elect.machine import ElectMachine
    from epoxy_sim.elect.simulation import ElectSimulation

REPEATED_US = (1_000, 300_000, 3_000_000, 30_000_000)
"""How long after an order the eavesdropper sends it again, at most: to its agent and to all others."""


class SignedOrders:
    def __init__(self, cluster: "ElectSimulation", secret: bytes) -> None:
        self._cluster = cluster
        self._secret = secret
        self._given = 0
        self._dice = Random(f"elect/repeats/{cluster.plan.seed}")

    def fail_over(self, machine: "ElectMachine", heir: str) -> None:
        """Tell the agent of `machine` to hand over."""
        if machine.desk is None:
            return
        self._given += 1
        order = OperatorOrder(act=FAILOVER, target=heir, time_ms=self.wall_ms(), nonce=str(self._given))
        proof = proof_of(self._secret, machine.desk.addressee, order)
        machine.run(lambda: machine.obey(order, proof))
        for most_us in REPEATED_US:
            after_us = self._dice.randrange(most_us)
            self._cluster.world.after(after_us, lambda: self._repeat(order, proof))

    def wall_ms(self) -> int:
        return self._cluster.world.now_us // 1000

    def _repeat(self, order: OperatorOrder, proof: str) -> None:
        for machine in self._cluster.machines.values():
            machine.run(lambda machine=machine: machine.obey(order, proof))  # type: ignore[misc]
