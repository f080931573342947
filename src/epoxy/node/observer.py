"""What a node tells those who count: metrics today, a dashboard tomorrow.

Called on the hot path, so an observer only counts. Whoever calls measures the time; nothing here reads a clock.
"""

from typing import Protocol

from epoxy.model.writes import Path


class Observer(Protocol):
    def proposal_done(
        self, outcome: str, path: Path | None, seconds: float, *, prepares: int = 0, retries: int = 0, bumps: int = 0
    ) -> None:
        """A write of this node's clients has its answer. `outcome` is the name of the Outcome's type, `path` None where
        that has none. `prepares` are the Prepare rounds it began, `retries` those after its first, and `bumps` the
        times it had to raise its ballot above somebody else's."""

    def request_handled(self, request_type: str, result: str, seconds: float) -> None:
        """A request from a client or a peer was answered. Both words come from small fixed sets: each pair is a time
        series."""

    def invariant_violation(self, text: str) -> None:
        """Something that cannot be, is. Somebody must look at `text`."""


class Unobserved:
    """Nobody counts."""

    def proposal_done(
        self, outcome: str, path: Path | None, seconds: float, *, prepares: int = 0, retries: int = 0, bumps: int = 0
    ) -> None:
        pass

    def request_handled(self, request_type: str, result: str, seconds: float) -> None:
        pass

    def invariant_violation(self, text: str) -> None:
        pass
