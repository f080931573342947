"""Which commits begin a sync, and which share the next one (decisions 0081, 0083)."""

from epoxy.codec.plain_requests import Incoming, PlainRequest
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.messages import Commit
from epoxy.model.records import Proposal
from epoxy.protocol.keys.operations import FastVote, KeyOp, Select


def is_news(request: Incoming) -> bool:
    """A decision that a peer tells and expects no answer to: a crash that loses it is as harmless as a message that is
    lost. What a node itself lives by is as urgent as a vote: configurations, grants, sessions. So is a tombstone: as
    soon as it is known, `Leases` hides the value before it, which is not to be absent for longer than a sync takes."""
    if isinstance(request, PlainRequest):
        return not request.is_accept  # a value of a client's key
    return isinstance(request, Commit) and request.key < FIRST_SYSTEM_KEY and not request.proposal.is_tombstone


def ends(committed: Proposal | None) -> bool:
    """A value that is hidden as over is shown again until what overwrote it is durable: not for longer than a sync."""
    return committed is not None and committed.expiry is not None


def rides(op: KeyOp, result: object, *, early: bool) -> bool:
    """Whether the own vote is not waited for: the commit comes behind it in the same log, and what is told waits for
    that. `early`: Accepts leave meanwhile."""
    if not isinstance(op, Select) or not isinstance(result, FastVote):
        return False
    return op.decides or (early and op.key < FIRST_SYSTEM_KEY)
