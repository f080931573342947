"""Records of the rounds of one instance."""

from msgspec import Struct

from epoxy.model.records import Proposal, Settled
from epoxy.model.writes import Committed, Path
from epoxy.protocol.keys.operations import Fold, PendingWrite


class KeyInstance(Struct, frozen=True, kw_only=True):
    """(key, base), with the decision that made the base, for replicas that missed it. None: the key is fresh."""

    key: bytes
    base: Proposal | None

    @property
    def number(self) -> int:
        return self.base.version if self.base is not None else 0


class OwnProposal(Struct, kw_only=True):
    """The fold of these writes. Once it is `made`, other replicas may finish it, so none of its writes has lost before
    the decision of its instance is known. `is_new`: one of the writes that take effect was in no fold before, so a
    decision with their ids is this fold, and no older than the writes that it refuses."""

    fold: Fold
    writes: tuple[PendingWrite, ...]
    made: bool = False
    is_new: bool = False

    def __post_init__(self) -> None:
        if not self.made and len(self.writes) > 1:
            effective = zip(self.writes, self.fold.answers, strict=True)
            self.is_new = any(isinstance(told, Committed) and not pending.is_exposed for pending, told in effective)

    def put_forward(self) -> None:
        """Before its first Accept leaves."""
        self.made = True
        for pending in self.writes:
            pending.expose(self.fold.proposal.base)


class Decision(Struct, frozen=True, kw_only=True):
    """The decision of the instance, or of a later one."""

    committed: Proposal
    lineage: tuple[Settled, ...] = ()
    path: Path


class Free(Struct, frozen=True):
    """Recovery without a proposal of its own: nothing was chosen in an earlier round, and nothing can be any more."""


class GaveUp(Struct, frozen=True):
    """Out of retries. What was proposed may still be decided."""

    reason: str
