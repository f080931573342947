"""What the rounds of one instance speak of."""

from msgspec import Struct

from epoxy.model.records import Proposal, Settled
from epoxy.model.writes import Path


class KeyInstance(Struct, frozen=True, kw_only=True):
    """(key, version), and `base`: the version before, for replicas that missed it."""

    key: bytes
    version: int
    base: Proposal | None


class OwnProposal(Struct, kw_only=True):
    """My own proposal, and whether it has been put forward: from then on anybody may finish it, and I may not say that
    it lost without knowing whose its version became."""

    proposal: Proposal
    made: bool = False


class Decision(Struct, frozen=True, kw_only=True):
    """Something decided at the instance, or above it."""

    committed: Proposal
    lineage: tuple[Settled, ...] = ()
    path: Path


class Free(Struct, frozen=True):
    """A recovery without a value of its own found that nothing was chosen, and that nothing earlier can be any more."""


class GaveUp(Struct, frozen=True):
    """Out of retries. Whatever was put forward may still be decided."""

    reason: str
