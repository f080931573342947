"""How much of anything the doors and the links hold, and for how long, each with its reason."""

from msgspec import Struct, field

from epoxy.codec.wire import MAX_ENCODED_BYTES

MESSAGE_PATH = b"/v2/epoxy/message"
CHANGELOG_READ_PATH = b"/v2/epoxy/changelog-read"
PEER_PATHS = (MESSAGE_PATH, CHANGELOG_READ_PATH)


class HttpLimits(Struct, frozen=True, kw_only=True):
    """Of one HTTP door."""

    connections: int = 1024
    """A tenth of the file descriptors a service usually may open, and room for a pool of every application server."""
    head_bytes: int = 16 << 10
    """Address and headers. A key of 1024 bytes takes 3 KiB when all of it is percent-encoded, twice in a query."""
    body_bytes: int = 1 << 20
    """The longest value."""
    body_limits: dict[bytes, int] = field(default_factory=lambda: dict.fromkeys(PEER_PATHS, MAX_ENCODED_BYTES))
    """Other limits for single addresses: a batch between peers is longer than a value."""
    pipelined: int = 128
    """Requests of one connection under way. At 100 ms for a write across the ocean that is 1,280 a second for one."""
    pipelined_bytes: int = 2 * MAX_ENCODED_BYTES
    """Of their bodies together: the batch that is being answered, and the next."""
    idle_timeout_s: float = 75.0
    """Longer than the minute after which clients' pools throw a connection away, so that they hang up first."""
    head_timeout_s: float = 10.0
    """From the first byte. A head fits a dozen packets, and three of them may be lost."""
    body_timeout_s: float = 60.0
    """From the head's end. A value then needs 17 KiB/s, a bad mobile network."""
    write_timeout_s: float = 30.0
    """That a client may leave its answers unread."""
    linger_s: float = 2.0
    """After an answer that refuses the rest of a request: hanging up at once would destroy that answer on its way."""
