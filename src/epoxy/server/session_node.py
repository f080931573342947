"""What other nodes of the datacenter ask of this one, at the node that its session has at the moment."""

from collections.abc import Callable, Sequence

from epoxy.model.messages import Reply, Request
from epoxy.model.records import Proposal
from epoxy.model.transactions import Txn, TxnOutcome
from epoxy.model.writes import Consistency, Outcome, ReadAnswer, Write
from epoxy.node.datacenter_node import DatacenterNode
from epoxy.node.keys.replica import NOT_OWNED


class ServedNode:
    """`datacenter.ports.ServedKeys`: the node of this session, which may be made anew when it becomes the gateway."""

    def __init__(self) -> None:
        self.node: DatacenterNode | None = None

    def _there(self) -> DatacenterNode:
        assert self.node is not None, "shards are owned when there is a node"
        return self.node

    def write(self, write: Write, answered: Callable[[Outcome], None]) -> None:
        self._there().write(write, answered)

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None:
        self._there().read(key, consistency, answered)

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None:
        self._there().txn(txn, answered)

    def ordered_write(self, write: Write, mark: Proposal, answered: Callable[[Outcome], None]) -> None:
        self._there().ordered_write(write, mark, answered)

    def ordered_read(
        self, key: bytes, mark: Proposal, consistency: Consistency, answered: Callable[[ReadAnswer], None]
    ) -> None:
        self._there().ordered_read(key, mark, consistency, answered)

    def handle(self, requests: Sequence[Request], answered: Callable[[Sequence[Reply]], None]) -> None:
        """Before there is a node: a configuration, which it will find in the database."""
        if self.node is None:
            answered([NOT_OWNED] * len(requests))
        else:
            self.node.handle(requests, answered)

    def session_over(self, session: bytes) -> None:
        """Of what comes later, it is found when its shards are loaded."""
        if self.node is not None:
            self.node.session_over(session)

    def hold(self, rested: Callable[[], None]) -> None:
        if self.node is None:
            rested()
        else:
            self.node.replica.hold(rested)

    def release(self) -> None:
        if self.node is not None:
            self.node.replica.release()
