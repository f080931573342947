"""A whole run of transactions as data, on the machines, network and faults of the per-key simulator."""

from msgspec import Struct

from epoxy.model.transactions import Txn
from epoxy_sim.keys.plan import ClusterPlan


class TxnStep(Struct, frozen=True, kw_only=True):
    """Begins at `at_us`, or as soon as the step before is answered."""

    at_us: int
    txn: Txn


class TxnClientPlan(Struct, frozen=True, kw_only=True):
    """`copy`: it asks a copy of its machine first, if one was started."""

    home: int
    copy: bool = False
    steps: tuple[TxnStep, ...]


class TxnMembersChange(Struct, frozen=True, kw_only=True):
    """A change to these members begins at `at_us`, or after the change before. `given_up`: it is undone during its
    joint epoch. `wiped` lose their disks just before it, and count as other machines from then on."""

    at_us: int
    members: tuple[int, ...]
    given_up: bool = False
    wiped: tuple[int, ...] = ()


class TxnPlan(ClusterPlan, frozen=True, kw_only=True):
    """`recover_ms`: after which time a dependency counts as stuck; `catchup_ms`: how often a replica asks for what it
    missed; `turn_ms`: how long it waits for its turn to propose."""

    recover_ms: float
    catchup_ms: float
    turn_ms: float = 0.0
    clients: tuple[TxnClientPlan, ...]
    changes: tuple[TxnMembersChange, ...] = ()
    hearing: float = 1.0
    """The share of questions about configurations that get an answer, until faults end."""
    deaf: tuple[int, ...] = ()
    """Machines that get no such answer until then."""

    @property
    def size(self) -> int:
        changes = len(self.faults) + len(self.changes)
        return changes + sum(1 + len(client.steps) for client in self.clients)

    def names(self) -> list[bytes]:
        return sorted({key for client in self.clients for step in client.steps for key in step.txn.footprint})


class WalkPlan(Struct, frozen=True, kw_only=True):
    """A run without time (`untimed.py`): everything in it follows from the seed."""

    seed: int
    n: int | None = None
    steps: int = 250

    @property
    def size(self) -> int:
        return self.steps


AnyPlan = TxnPlan | WalkPlan
