"""Frames between two replicas: many requests one way, as many replies back.

Carrying a message costs more than deciding on it, so all requests that are ready for a peer leave in one frame.
"""

from msgspec import Struct

from epoxy.model.messages import Reply, Request


class PeerRequest(Struct, frozen=True, kw_only=True):
    """Names both ends, so that a frame at the wrong replica is noticed."""

    sender: int
    recipient: int
    requests: tuple[Request, ...]


class PeerResponse(Struct, frozen=True, kw_only=True):
    """One reply for each request, in the same order. Replies that do not fit into the frame are missing at the end, and
    their requests are sent again."""

    replies: tuple[Reply, ...]
