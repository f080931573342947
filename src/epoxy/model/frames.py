"""What travels between two replicas in one piece: many requests there, as many replies back.

A message alone costs more to carry than to decide, so whatever is ready for a peer leaves together.
"""

from msgspec import Struct

from epoxy.model.messages import Reply, Request


class PeerRequest(Struct, frozen=True, kw_only=True):
    """Names both ends: a frame that reached the wrong replica is noticed."""

    sender: int
    recipient: int
    requests: tuple[Request, ...]


class PeerResponse(Struct, frozen=True, kw_only=True):
    """One reply for each request, in the same order. Those that would not fit into a frame are missing at the end, and
    asked for again."""

    replies: tuple[Reply, ...]
