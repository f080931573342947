"""The limit of file descriptors: raised as far as the system allows, and divided among the ports."""

import resource
from contextlib import suppress

from epoxy.model.errors import ConfigError
from epoxy.node.process.logs import LOGGER
from epoxy.transport.http.reserves import MAX_HANDSHAKES, bands

OWN_FILES = 32
"""What a node has open before the first connection, 22, and some more."""

LEAST = 2 * OWN_FILES

SHARES = 4
"""HTTP clients, Redis clients and envoys have one each, TLS handshakes at the two listeners of clients one together."""

LEAST_HANDSHAKES = 4


def raise_limit() -> None:
    """Every connection is a file descriptor. The usual soft limit of 1,024 is for programs that use select()."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # Some systems do not grant their own hard limit.
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < LEAST:
        raise ConfigError(f"file descriptors: this process may open {soft}, and a node needs {LEAST}; see ulimit -n")


def share() -> int:
    return (bands().clients - OWN_FILES) // SHARES


def connections_per_port(wanted: int) -> int:
    """As many as are wanted, or an equal share of what the limit allows."""
    return min(wanted, share())


def handshakes_per_port() -> int:
    return max(LEAST_HANDSHAKES, min(MAX_HANDSHAKES, share() // 2))


def log_lower_limit(wanted: int, allowed: int) -> None:
    if allowed < wanted:
        detail = "raise the hard limit of file descriptors (ulimit -Hn, LimitNOFILE)"
        LOGGER.info(
            "fewer connections than limits.connections", extra={"wanted": wanted, "allowed": allowed, "detail": detail}
        )
