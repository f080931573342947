"""How much of anything the doors and the links hold, and for how long, each with its reason."""

from msgspec import Struct, field

from epoxy.codec.wire import MAX_ENCODED_BYTES

MESSAGE_PATH = b"/v2/epoxy/message"
STREAM_PATH = b"/v2/epoxy/stream"
"""Where a connection between peers leaves HTTP: `frames.py`."""
CHANGELOG_READ_PATH = b"/v2/epoxy/changelog-read"
MEMBER_PATH = b"/v2/epoxy/member"
"""Where members ask each other what a change of members needs, changelogs apart."""
RELAY_PATH = b"/v2/actors/relay"
"""Where datacenters pass on what is asked about actors: a request to one, in JSON."""
PEER_PATHS = (MESSAGE_PATH, CHANGELOG_READ_PATH, MEMBER_PATH)
SIGNED_PATHS = frozenset((*PEER_PATHS, STREAM_PATH))
"""What peers ask for, and sign."""


class HttpLimits(Struct, frozen=True, kw_only=True):
    """Of one HTTP door."""

    connections: int = 1024
    """A tenth of the file descriptors a service usually may open, and room for a pool of every application server."""
    head_bytes: int = 16 << 10
    """Address and headers. A key of 1024 bytes takes 3 KiB when all of it is percent-encoded, twice in a query."""
    body_bytes: int = 1 << 20
    """The longest value."""
    body_limits: dict[bytes, int] = field(
        default_factory=lambda: dict.fromkeys((*PEER_PATHS, RELAY_PATH), MAX_ENCODED_BYTES)
    )
    """Other limits for single addresses: a batch between peers is longer than a value."""
    pipelined: int = 128
    """Requests of one connection under way: `limits.pipeline` of a node. At 100 ms for a write across the ocean 128 are
    1,280 a second for one connection."""
    pipelined_bytes: int = 2 * MAX_ENCODED_BYTES
    """Of them together, heads and bodies: the batch that is being answered, and the next."""
    turn_s: float = 0.001
    """That pipelined requests of one connection are begun without a pause; then the others have their turn. A thousand
    short reads take ten of these, and nobody waits for more than one of each connection, and for the request that is
    being served."""
    unsent_bytes: int = 1 << 20
    """Answers of one connection that wait for an earlier one, after which no more requests are begun: the longest
    value. What the socket does not take has a limit of its own, the transport's (64 KiB)."""
    unsent_cap_bytes: int = 64 << 20
    """Of one connection, after which it is closed: what was begun before its answers were known to be so long."""
    held_bytes: int = 256 << 20
    """Of all connections together, so that many clients with long values do not add up to all memory; and as much again
    for those that have proved to be peers."""
    idle_timeout_s: float = 75.0
    """Longer than the minute after which clients' pools throw a connection away, so that they hang up first."""
    head_timeout_s: float = 10.0
    """From the first byte. A head fits a dozen packets, and three of them may be lost."""
    body_timeout_s: float = 60.0
    """From the head's end. A value then needs 17 KiB/s, a bad mobile network."""
    write_timeout_s: float = 30.0
    """That a client may leave its answers unread."""
    trial_s: float = 2.0
    """That a connection beyond the limit has for its first request. A peer sends that at once."""
    linger_s: float = 2.0
    """After an answer that refuses the rest of a request: hanging up at once would destroy that answer on its way."""

    def __post_init__(self) -> None:
        longest = max(self.body_bytes, *self.body_limits.values(), 0)
        assert longest <= self.pipelined_bytes, "a body must fit, or it would never end"


class PeerLimits(Struct, frozen=True, kw_only=True):
    """Of the link to one peer."""

    queue_messages: int = 8192
    """Waiting to leave: a second's worth, after which whoever sent them has given up."""
    queue_bytes: int = 32 << 20
    """As many messages of 4 KiB."""
    batch_messages: int = 256
    """In one request. The peer handles it in one go and hears nobody meanwhile: 10 ms at 40 us for a message. From 16
    on, more in one hardly pays."""
    batch_bytes: int = 1 << 20
    """After which no other message is added. With one more of the longest this is half of what a frame may have."""
    eager_batches: int = 4
    """Under way below which the next leaves at once. With more, they keep `gather_ms` between them, or leave with an
    answer."""
    gather_ms: float = 1.0
    """The finest timer the event loop has, and little against any round trip that is longer."""
    lazy_ms: float = 2.0
    """That a message nobody waits for may wait for one that somebody does. A client that goes on at once has its next
    write on the way by then, and both share a frame and a sync."""
    busy_lazy_ms: float = 10.0
    """The same on a busy link, where a write takes as long and a frame with a sync costs as much as ten messages."""
    busy_messages: int = 4
    """In the last batch, from which on a link is busy: more than one client has at a time, a vote and the news of the
    write before."""
    flying_batches: int = 1024
    """Under way at most: one each millisecond, as long as we wait for the slowest."""
    flying_bytes: int = 32 << 20
    """Under way at most: 100 MB/s on a link around the world."""
    connections: int = 2
    """One lost packet, or one long value, holds up half of the messages and not all."""
    timeout_ms: float = 2000.0
    """For an answer. A round gives up after one second, so nobody waits for one that takes two."""
    tick_ms: float = 250.0
    """How often timeouts are looked at, and a peer that is down is asked whether it is back."""
    probe_ms: float = 1000.0
    """How often a peer is asked for nothing, to measure the round trip."""
    connect_timeout_ms: float = 3000.0
    """Ten round trips around the world: TCP's and TLS's handshakes, and a packet lost in each."""
    backoff_ms: float = 50.0
    backoff_cap_ms: float = 1000.0
    """Between attempts to connect, doubled each time, spread by half either way. A region that is back is used within
    two seconds, and one attempt a second costs nothing."""
