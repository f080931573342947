"""A whole run of one datacenter as data: nodes on one database, other datacenters, clients, and what breaks when."""

import enum

from msgspec import Struct

from epoxy.model.quorum import QuorumPolicy
from epoxy.model.writes import Consistency
from epoxy.protocol.effects import Timing
from epoxy_sim.keys.plan import Ask


class DatacenterStep(Struct, frozen=True, kw_only=True):
    """Begins at `at_us`, or as soon as the step before is done. `place`: the node that is asked, or with a number above
    those of the nodes another datacenter."""

    at_us: int
    ask: Ask
    key: int
    value: int
    place: int
    consistency: Consistency = Consistency.LINEARIZABLE


class NodeFaultKind(enum.Enum):
    CRASH = "crash"
    """The process is gone, and starts again."""
    PAUSE = "pause"
    """The process stands still, and goes on with the memory that it had."""
    LEAVE = "leave"
    """SIGTERM: it hands everything over and ends, and starts again."""
    CUT = "cut"
    """Its connections to the database are lost, and cannot be made."""
    DATABASE_DOWN = "database-down"
    """The server crashes and starts again: what was flushed survives, connections do not."""
    JOIN = "join"
    """A node that was not there yet starts."""
    CONFIG = "config"
    """The cluster has a new epoch: what was voted in the one before does not become durable any more."""


class NodeFault(Struct, frozen=True, kw_only=True):
    at_us: int
    kind: NodeFaultKind
    node: int = 0
    lasts_us: int = 0


class DatabaseWeather(Struct, frozen=True, kw_only=True):
    """What happens to statements until faults end, as probabilities."""

    lost_before: float = 0.0
    lost_after: float = 0.0
    late: float = 0.0
    """The connection is lost, and the statement takes effect after its sender has learned that."""
    slow: float = 0.0
    """It takes a hundred times as long as others."""


class DatacenterPlan(Struct, frozen=True, kw_only=True):
    """`n`: datacenters; the nodes are of the first. `first_nodes` of them start at once. `rates`: how fast the clock of
    each node runs. `statement_us`: how long a statement takes to the database, at most, and its answer back."""

    seed: int
    n: int
    policy: QuorumPolicy
    timing: Timing
    nodes: int
    first_nodes: int
    lease_ms: float
    rates: tuple[float, ...]
    statement_us: int
    distance_us: int
    loss: float
    weather: DatabaseWeather
    clients: tuple[tuple[DatacenterStep, ...], ...]
    faults: tuple[NodeFault, ...]
    faults_end_us: int
    flushes_batches: bool = False
    """The database answers a batch when it is durable, so that no flush has to be asked for."""
    restarts_only: bool = False
    """Nodes are told to stop one after the other, and no fault is planned: no request may fail."""

    @property
    def size(self) -> int:
        return len(self.faults) + sum(1 + len(steps) for steps in self.clients)

    @property
    def keys(self) -> list[int]:
        return sorted({step.key for steps in self.clients for step in steps})
