"""A whole run of transactions as data. Machines, weather and faults are those of the per-key simulator."""

from msgspec import Struct
from msgspec.structs import replace

from epoxy.model.transactions import Txn
from epoxy.sim import plan as per_key


class Step(Struct, frozen=True, kw_only=True):
    """Asked at `at_us`, or as soon as the step before is answered."""

    at_us: int
    txn: Txn


class ClientPlan(Struct, frozen=True, kw_only=True):
    home: int
    steps: tuple[Step, ...]


class Plan(Struct, frozen=True, kw_only=True):
    """`world` has no clients of its own, and `seed` stands for its seed. `recover_ms`: after which time a dependency
    counts as stuck; `catchup_ms`: how often somebody is asked for what was missed."""

    seed: int
    world: per_key.Plan
    recover_ms: float
    catchup_ms: float
    clients: tuple[ClientPlan, ...]

    @property
    def n(self) -> int:
        return self.world.n

    @property
    def size(self) -> int:
        return len(self.world.faults) + sum(1 + len(client.steps) for client in self.clients)

    def names(self) -> list[bytes]:
        return sorted({key for client in self.clients for step in client.steps for key in step.txn.footprint})


class WalkPlan(Struct, frozen=True, kw_only=True):
    """A run without time (`scramble`): everything in it follows from the seed."""

    seed: int
    n: int | None = None
    steps: int = 250

    @property
    def size(self) -> int:
        return self.steps


AnyPlan = Plan | WalkPlan


def in_world(plan: Plan, **changes: object) -> Plan:
    world: per_key.Plan = replace(plan.world, **changes)
    return replace(plan, world=world)
