"""A whole run of actors as data: the datacenters and their faults, the envoys and theirs, and the requests."""

import enum

from msgspec import Struct

from epoxy_sim.keys.plan import ClusterPlan
from epoxy_sim.placement.workload import ActorDoes


class AskKind(enum.Enum):
    ENSURE = "get-or-create"
    CREATE = "create"
    GET = "get"
    DESTROY = "destroy"
    CALL = "call"
    MOVE = "move"


class PlacementStep(Struct, frozen=True, kw_only=True):
    """`does`: what a call asks the code of the actor to do, `again`: with an idempotency key, and once more if it is
    not answered, at the next site. `to`: the site that an actor moves to. `in_ms`: until the alarm is due."""

    at_us: int
    site: int
    ask: AskKind
    name: int
    does: ActorDoes = ActorDoes.NOTHING
    again: bool = False
    to: int = 0
    in_ms: int = 0


class EnvoyFaultKind(enum.Enum):
    KILL = "kill-envoy"
    """The process is killed with its actors; another one starts when the fault ends."""
    CUT = "cut-envoy"
    """It lives, and neither side hears the other, until the connection breaks when the fault ends."""
    DROP = "drop-envoy"
    """Its connection breaks; it connects again."""
    DRAIN = "drain-envoy"
    """It leaves in order; another one starts when the fault ends."""
    FAIL = "fail-actors"
    """The code of its actors fails."""
    STOP = "stop-envoy"
    """The process is stopped, and goes on when the fault ends. Its clock goes on."""
    BLOCK = "block-envoy"
    """Code of an actor does not give the event loop a turn until the fault ends."""
    SUSPEND = "suspend-envoy"
    """Its machine is suspended: the monotonic clock stands still, too."""
    TWIN = "twin-envoy"
    """A second process under the same key, until the fault ends."""


class EnvoyFault(Struct, frozen=True, kw_only=True):
    at_us: int
    kind: EnvoyFaultKind
    envoy: int
    for_us: int


class CleanUp(enum.Enum):
    """How long code that is cancelled takes to end."""

    SHORT = "short"
    """Less than what a fence leaves for it."""
    FULL = "full"
    """All of what a fence leaves for it."""
    SLOW = "slow"
    """Longer than a node waits: only where no other envoy starts it."""
    ENDLESS = "endless"
    """Until its process ends."""


class PlacementPlan(Struct, frozen=True, kw_only=True):
    """`sites`: the datacenters. `envoys`: the site of each. `places`: virtual nodes in the first life of a node, and in
    every later one."""

    sites: ClusterPlan
    envoys: tuple[int, ...]
    rates: tuple[float, ...]
    """How fast each envoy's clock runs."""
    threshold_ms: int
    places: tuple[int, int]
    samples: int
    reserve_slots: bool
    slots: int
    same_key: bool
    """Whether a process that takes the place of another has its key."""
    clean_up: CleanUp
    sweep_every_s: int
    home_lease_ms: int
    sleep_after_s: float
    """0: actors do not fall asleep by themselves."""
    wall_steps_ms: tuple[int, ...]
    """How far off a node's wall clock is in each of its lives, in turn."""
    answers_within_ms: int = 0
    """How long any node may take to answer a request to an actor, where that is judged; 0: it is not."""
    steps: tuple[PlacementStep, ...]
    envoy_faults: tuple[EnvoyFault, ...]

    @property
    def seed(self) -> int:
        return self.sites.seed

    @property
    def size(self) -> int:
        return len(self.steps) + len(self.envoy_faults) + len(self.sites.faults)
