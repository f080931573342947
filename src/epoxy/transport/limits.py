"""Limits of servers and of links between peers, each with its reason."""

from msgspec import Struct, field

from epoxy.codec.wire import MAX_ENCODED_BYTES

MESSAGE_PATH = b"/v2/epoxy/message"
STREAM_PATH = b"/v2/epoxy/stream"
"""Upgrades a connection between peers to frames: `frames.py`."""
NODES_PATH = b"/v2/epoxy/nodes"
"""Upgrades a connection between nodes of one datacenter to their messages: `datacenter/links.py`."""
CHANGELOG_READ_PATH = b"/v2/epoxy/changelog-read"
MEMBER_PATH = b"/v2/epoxy/member"
"""Requests of a change of members, without those for changelogs."""
PROBE_PATH = b"/v2/epoxy/probe"
"""What a node says of itself to a holder of the secret that is no peer yet."""
RELAY_PATH = b"/v2/actors/relay"
"""Upgrades a connection between datacenters to questions about actors and their streams: `api/http/relay.py`."""
ACTOR_PATH = b"/v2/actors/at/"
"""Begins the addresses of requests to actors whose bodies may be long, and are passed on as they arrive."""
WHOLE_BODY_BYTES = 64 << 10
"""Such a body with a `Content-Length` up to this is read as any other."""
LINKS_PATH = b"/v2/admin/links"
"""Orders of an operator to the emulated links."""
PEER_PATHS = (MESSAGE_PATH, CHANGELOG_READ_PATH, MEMBER_PATH)
SIGNED_PATHS = frozenset((RELAY_PATH, *PEER_PATHS, STREAM_PATH, NODES_PATH, PROBE_PATH))
"""Addresses that only peers use, with signed requests."""
GATEWAY_PATHS = SIGNED_PATHS - {NODES_PATH}
"""Those of other datacenters: of several nodes, the gateway alone serves them."""


class HttpLimits(Struct, frozen=True, kw_only=True):
    """Of one HTTP server."""

    connections: int = 1024
    """A tenth of the file descriptors a service usually may open, and room for a pool of every application server."""
    head_bytes: int = 16 << 10
    """Address and headers. A key of 1024 bytes takes 3 KiB when all of it is percent-encoded, twice in a query."""
    body_bytes: int = 1 << 20
    """The longest value."""
    body_limits: dict[bytes, int] = field(default_factory=lambda: dict.fromkeys(PEER_PATHS, MAX_ENCODED_BYTES))
    """Other limits for single addresses: a batch between peers is longer than a value."""
    pipelined: int = 128
    """Requests of one connection under way: `limits.pipeline` of a node. At 100 ms for a write across the ocean 128 are
    1,280 a second for one connection."""
    pipelined_bytes: int = 2 * MAX_ENCODED_BYTES
    """Of them together, heads and bodies: the batch that is being answered, and the next."""
    turn_s: float = 0.001
    """For pipelined requests of one connection before other connections are served; less if many connections wait for
    a turn (`connections.TurnShare`). A thousand short reads take ten such turns."""
    unsent_bytes: int = 1 << 20
    """Answers of one connection that wait for an earlier one; with more, no further requests are begun: the longest
    value. Bytes the socket does not take have a limit of their own, the transport's (64 KiB)."""
    unsent_cap_bytes: int = 16 << 20
    """Of one connection, after which it is closed: requests are begun before the length of their answers is known."""
    held_bytes: int = 32 << 20
    """Of requests of all clients together, so that many long values do not use up the memory: `limits.held_mib` of a
    node. What clients do not read is limited by as much (`Holdings`)."""
    peer_held_bytes: int = 256 << 20
    """Of requests of peers: as many as their links keep under way (`PeerLimits.flying_bytes`) for eight of them."""
    idle_timeout_s: float = 75.0
    """Longer than the minute after which clients' pools discard an idle connection, so that clients close first."""
    head_timeout_s: float = 10.0
    """From the first byte. A head fits a dozen packets, and three of them may be lost."""
    body_timeout_s: float = 60.0
    """From the end of the head. A value then needs 17 KiB/s, a bad mobile network."""
    write_timeout_s: float = 30.0
    """While a client does not read its answers."""
    trial_s: float = 2.0
    """For the first request of a connection beyond the limit. A peer sends it at once."""
    linger_s: float = 2.0
    """After an answer that refuses a request. Closing at once would reset the connection, and lose the answer."""

    def __post_init__(self) -> None:
        longest = max(self.body_bytes, *self.body_limits.values(), 0)
        assert longest <= self.pipelined_bytes, "a body must fit, or it would never end"


class PeerLimits(Struct, frozen=True, kw_only=True):
    """Of the link to one peer."""

    queue_messages: int = 8192
    """Queued: a second's worth, after which their senders have given up."""
    queue_bytes: int = 32 << 20
    """As many messages of 4 KiB."""
    batch_messages: int = 256
    """In one request. The peer handles it without a pause: 10 ms at 40 us for a message. More than 16 hardly pay."""
    batch_bytes: int = 1 << 20
    """After which no message is added. With one more of the longest this is half of what a frame may have."""
    eager_batches: int = 4
    """With fewer under way the next leaves at once. With more, one leaves each `gather_ms`, or when an answer comes."""
    gather_ms: float = 1.0
    """The event loop's finest timer, and little beside a longer round trip."""
    lazy_ms: float = 2.0
    """How long a message without a callback waits for one with. A client that goes on at once has its next write
    on the way by then, and both share a frame and a sync."""
    busy_lazy_ms: float = 10.0
    """The same on a busy link, where a write takes as long, and a frame with a sync costs as much as ten messages."""
    busy_messages: int = 4
    """A link is busy with so many in its last batch: more than one client causes at a time, a vote and the news of the
    write before."""
    flying_batches: int = 1024
    """Under way at most: one each millisecond of the longest wait."""
    flying_bytes: int = 32 << 20
    """Under way at most: 100 MB/s on a link around the world."""
    connections: int = 2
    """One lost packet, or one long value, holds up half of the messages and not all."""
    timeout_ms: float = 2000.0
    """For an answer. A round gives up after one second."""
    tick_ms: float = 250.0
    """Between checks for timeouts, and between probes of a peer that is down."""
    probe_ms: float = 1000.0
    """Between probes, which measure the round trip."""
    connect_timeout_ms: float = 3000.0
    """Ten round trips around the world: TCP's and TLS's handshakes, and a packet lost in each."""
    backoff_ms: float = 50.0
    backoff_cap_ms: float = 1000.0
    """Between attempts to connect, doubled each time, with jitter of half either way. A region that is back is used
    within two seconds, and one attempt a second costs nothing."""
