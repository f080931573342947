"""Records of the rounds of one instance."""

from msgspec import Struct

from epoxy.model.records import Proposal, Settled
from epoxy.model.writes import Path


class KeyInstance(Struct, frozen=True, kw_only=True):
    """(key, version), and `base`: the version before, for replicas that missed it."""

    key: bytes
    version: int
    base: Proposal | None


class OwnProposal(Struct, kw_only=True):
    """The proposal of this write. Once it is `made`, other replicas may finish it, so the write has not lost before the
    winner of its version is known."""

    proposal: Proposal
    made: bool = False


class Decision(Struct, frozen=True, kw_only=True):
    """The decision of the instance, or of a later version."""

    committed: Proposal
    lineage: tuple[Settled, ...] = ()
    path: Path


class Free(Struct, frozen=True):
    """Recovery without a proposal of its own: nothing was chosen in an earlier round, and nothing can be any more."""


class GaveUp(Struct, frozen=True):
    """Out of retries. What was proposed may still be decided."""

    reason: str
