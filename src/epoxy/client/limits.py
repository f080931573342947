"""The numbers both clients share, and where each comes from."""

from epoxy.model.errors import InvalidRequest

TIMEOUT_S = 20.0
"""For a whole call. A node answers within 10 seconds (`limits.request_timeout_ms`), be it that there is no outcome."""

MAX_TIMEOUT_S = 3600.0
"""An hour: a longer timeout is probably given in the wrong unit."""

CONNECT_TIMEOUT_S = 3.0
"""Ten times the longest round trip between two datacenters of our table: time for one lost SYN."""

MAX_CONNECTIONS = 64
"""For each node. More calls than that at once wait for one another; a node's own limit is far above it."""

IDLE_S = 30.0
"""A connection idle for longer is not used again: the node may be about to close it. Well below the 75 seconds after
which a node does."""

READ_BYTES = 64 << 10
"""From a socket at a time: most answers are far smaller, and the largest value takes sixteen."""

SILENCE_S = 45.0
"""A stream of changes that is silent for this long is opened anew: a node sends a comment every 15 seconds."""

FIRST_PAUSE_S = 0.1
MAX_PAUSE_S = 5.0
"""Between two tries to open a stream of changes: doubling from the first to the second."""

MAX_EVENT_BYTES = 16 << 20
"""One event carries one value of up to 1 MiB, at most six bytes for each of its own when written as text."""


def checked_timeout(seconds: float) -> float:
    if not 0 < seconds <= MAX_TIMEOUT_S:
        raise InvalidRequest(f"a timeout is above 0 and at most {MAX_TIMEOUT_S:,.0f} seconds, not {seconds}")
    return seconds


def checked_connections(limit: int) -> int:
    if not 1 <= limit <= 65_536:
        raise InvalidRequest(f"a client has 1 to 65,536 connections to a node, not {limit}")
    return limit
