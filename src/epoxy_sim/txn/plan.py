"""A whole run of transactions as data. Machines, weather and faults are those of the per-key simulator."""

from msgspec import Struct
from msgspec.structs import replace

from epoxy.model.transactions import Txn
from epoxy_sim.keys import plan as per_key


class TxnStep(Struct, frozen=True, kw_only=True):
    """Asked at `at_us`, or as soon as the step before is answered."""

    at_us: int
    txn: Txn


class TxnClientPlan(Struct, frozen=True, kw_only=True):
    home: int
    steps: tuple[TxnStep, ...]


class TxnMembersChange(Struct, frozen=True, kw_only=True):
    """These members are wanted from `at_us` on, after the change before. `given_up`: as soon as the joint epoch may be
    over they are not wanted any more. `wiped` lose their disks just before it, and are other machines from then on."""

    at_us: int
    members: tuple[int, ...]
    given_up: bool = False
    wiped: tuple[int, ...] = ()


class TxnPlan(Struct, frozen=True, kw_only=True):
    """`world` has no clients of its own, and `seed` stands for its seed. `recover_ms`: after which time a dependency
    counts as stuck; `catchup_ms`: how often somebody is asked for what was missed."""

    seed: int
    world: per_key.Plan
    recover_ms: float
    catchup_ms: float
    clients: tuple[TxnClientPlan, ...]
    changes: tuple[TxnMembersChange, ...] = ()
    hearing: float = 1.0
    """How often a machine that asks for news of members gets an answer, before faults end."""
    deaf: tuple[int, ...] = ()
    """Those who get none until then."""

    @property
    def founders(self) -> tuple[int, ...]:
        return self.world.founders or tuple(range(1, self.n + 1))

    @property
    def n(self) -> int:
        return self.world.n

    @property
    def size(self) -> int:
        changes = len(self.world.faults) + len(self.changes)
        return changes + sum(1 + len(client.steps) for client in self.clients)

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


AnyPlan = TxnPlan | WalkPlan


def in_world(plan: TxnPlan, **changes: object) -> TxnPlan:
    world: per_key.Plan = replace(plan.world, **changes)
    return replace(plan, world=world)
