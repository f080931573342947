"""A simulated datacenter of leases: it tells the judge which writes clients asked for."""

from epoxy.model.records import ProposalId
from epoxy_sim.keys.suspension import SuspendedLife, SuspendedMachine
from epoxy_sim.leases.judge import LeaseJudge
from epoxy_sim.leases.plan import LeasePlan
from epoxy_sim.world import Action


class LeaseMachine(SuspendedMachine):
    judge: LeaseJudge
    plan: LeasePlan

    def new_life(self) -> "LeaseLife":
        return LeaseLife(self, self._draw_uptime_ms())


class LeaseLife(SuspendedLife):
    machine: LeaseMachine

    is_asked = False
    """Whether a client's write is being taken: the id that is drawn first is its own. One that is drawn after it is of
    an end that is put in front."""

    def taking(self, request: Action) -> None:
        """A client's write."""
        self.is_asked = True
        try:
            request()
        finally:
            self.is_asked = False

    def nonce(self) -> int:
        nonce = super().nonce()
        if self.is_asked:
            self.is_asked = False
            self.machine.judge.asked_for.add(ProposalId(self.machine.id, nonce))
        return nonce
