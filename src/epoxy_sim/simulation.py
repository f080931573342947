"""One run of any protocol: a plan in, a report out. A pure function of the plan, in whatever process it runs."""

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from epoxy_sim.history import Operation
from epoxy_sim.world import World


class RunPlan(Protocol):
    """A whole run as data. `size` counts what a shorter plan could leave out."""

    @property
    def seed(self) -> int: ...
    @property
    def size(self) -> int: ...


P = TypeVar("P", bound=RunPlan)


class Violation(Exception):
    """An invariant is broken. `rule` names it, so that a shrunk failure is known to be the same one."""

    def __init__(self, rule: str, detail: str) -> None:
        super().__init__(f"{rule}: {detail}")
        self.rule = rule
        self.detail = detail


class Failure(Struct, frozen=True, kw_only=True):
    rule: str
    detail: str


class Report(Struct, Generic[P], frozen=True, kw_only=True):
    """`operations`: what clients asked for. `paths`: how it was answered. `verdicts`: what the judges counted.
    `folds`: how writes of one key were combined, and carried. `history`: the operations themselves, of runs on single
    keys."""

    plan: P
    failure: Failure | None
    virtual_us: int
    events: int
    messages: int
    operations: int
    paths: dict[str, int]
    faults: dict[str, int]
    verdicts: dict[str, int] = {}
    folds: dict[str, int] = {}
    trace: list[str] | None
    history: list[Operation] = []


class MessageCounter(Protocol):
    sent: int


class Simulation(Generic[P]):
    """A subclass builds the machines and their network, and says what is played, judged and counted."""

    network: MessageCounter

    def __init__(self, plan: P, *, tracing: bool) -> None:
        self.plan = plan
        self.world = World(tracing=tracing)

    def play(self) -> None:
        raise NotImplementedError

    def judge_all(self) -> None:
        """What can be judged only when everything is over."""

    def counts(self) -> dict[str, Any]:
        """The fields of a report that differ from protocol to protocol."""
        raise NotImplementedError

    @classmethod
    def run(cls, plan: P, *, tracing: bool = False) -> Report[P]:
        simulation = cls(plan, tracing=tracing)
        failure = failure_of(simulation.play, simulation.judge_all)
        return Report(
            plan=plan,
            failure=failure,
            virtual_us=simulation.world.now_us,
            events=simulation.world.happened,
            messages=simulation.network.sent,
            trace=simulation.world.trace,
            **simulation.counts(),
        )


def failure_of(*parts: Callable[[], None]) -> Failure | None:
    """The first failure, whether a judge raised it or the code under test did."""
    try:
        for part in parts:
            part()
    except Violation as violation:
        return Failure(rule=violation.rule, detail=violation.detail)
    except AssertionError as broken:
        return Failure(rule="assertion", detail=str(broken) or "an assertion of the engine failed")
    except Exception as error:
        return Failure(rule=type(error).__name__, detail=f"the engine raised {error!r}")
    return None
