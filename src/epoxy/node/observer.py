"""What the driver reports of every write, for metrics and for timeouts. Called on the hot path, so an observer only
counts."""

from typing import Protocol

from epoxy.model.writes import Path


class Observer(Protocol):
    def proposal_done(
        self, outcome: str, path: Path | None, seconds: float, *, prepares: int = 0, retries: int = 0, bumps: int = 0
    ) -> None:
        """A write of this node's clients has its answer. `outcome` is the name of the Outcome's type, `path` None where
        that has none. `prepares` are the Prepare rounds it began, `retries` those after its first, and `bumps` the
        times it raised its ballot above another proposer's."""


class Unobserved:
    def proposal_done(
        self, outcome: str, path: Path | None, seconds: float, *, prepares: int = 0, retries: int = 0, bumps: int = 0
    ) -> None:
        pass
