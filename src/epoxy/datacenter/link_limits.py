"""Limits of a link between two nodes of one datacenter, each with its reason."""

from msgspec import Struct, field

from epoxy.transport.limits import PeerLimits


def of_connections() -> PeerLimits:
    return PeerLimits(connect_timeout_ms=1000.0, backoff_ms=20.0, backoff_cap_ms=500.0)


class NodeLinkLimits(Struct, frozen=True, kw_only=True):
    pending_questions: int = 16_384
    """Of one link, queued or not answered yet: more than a node admits of its clients' writes, 10,000."""
    pending_bytes: int = 64 << 20
    """Of them: twice what the requests of clients may hold (`HttpLimits.held_bytes`), as a gateway passes on those of
    peers, too."""
    batch_bytes: int = 256 << 10
    """In one frame, unless a single message is longer. A beat that comes next waits for the rest of it alone."""
    unsent_answer_bytes: int = 64 << 20
    """Answers that the other node does not read, after which the connection is closed: as much as it may ask for."""
    queue_ms: float = 1000.0
    """For a connection, before a question fails unsent: as long as one attempt to connect."""
    answer_ms: float = 30_000.0
    """For an answer. The owner answers within the time limits of clients (`limits.request_timeout_ms`, 10 s), and this
    is for what a fault has left without an answer."""
    tick_ms: float = 250.0
    """Between beats, and between checks for what is overdue."""
    silent_ms: float = 2000.0
    """Without a byte of a node that has eight beats to answer, after which the connection is given up."""
    idle_ms: float = 15_000.0
    """Without a byte of a node that asks, after which its connection is closed. Longer than the above: a node that was
    paused, and goes on, still wants its answers."""
    connections: PeerLimits = field(default_factory=of_connections)
    """How connections are made. Nodes of one datacenter are a millisecond apart: a second is a lost packet."""
