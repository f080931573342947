"""A client's write of a key that nothing else waits for, as nearly all are: it has no queue until another comes."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from epoxy.model.writes import Outcome
from epoxy.node.keys.direct_round import RoundPlan
from epoxy.node.keys.queued_write import QueuedWrite, Turn
from epoxy.node.keys.uncontended import Uncontended
from epoxy.protocol.keys.operations import PendingWrite
from epoxy.protocol.keys.proposer import FoldIntent

if TYPE_CHECKING:
    from epoxy.node.keys.driver import Driver


class SingleWrite(Uncontended):
    """Its first round. `ended`: of the queue that has taken it over."""

    def __init__(
        self,
        driver: "Driver",
        pending: PendingWrite,
        plan: RoundPlan,
        begun_ms: float,
        client: Callable[[Outcome], None],
        turn: Turn,
    ) -> None:
        super().__init__(driver, pending.write.key, (pending,), plan, self._over)
        self.pending = pending
        self.begun_ms = begun_ms
        self.client = client
        self.turn = turn
        self.ended: Callable[[FoldIntent], None] | None = None

    def _over(self, intent: FoldIntent) -> None:
        if self.ended is not None:
            self.ended(intent)
        else:
            self._driver.ended_alone(self, intent)

    def queued(self) -> QueuedWrite:
        """As a queue knows it."""
        entry = QueuedWrite(self.pending, self.begun_ms, self.client, self.turn)
        entry.begun = True
        return entry
