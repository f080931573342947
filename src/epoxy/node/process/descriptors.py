"""File descriptors: as many as the system allows, and so many connections that some are left."""

import resource
from contextlib import suppress

from epoxy.model.errors import ConfigError
from epoxy.node.process.logs import LOGGER
from epoxy.transport.http.listener import ceiling

ALONE = 32
"""What a node has open before anybody connects, 22, and some more."""

LEAST = 2 * ALONE

DOORS = 3
"""Clients of HTTP and of Redis, and envoys. None of them takes what the others need."""


def raise_limit() -> None:
    """Every connection is a file. The usual soft limit of 1,024 is for programs that never heard of poll."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # Some systems call a limit hard that they do not grant.
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < LEAST:
        raise ConfigError(f"file descriptors: this process may open {soft}, and a node needs {LEAST}; see ulimit -n")


def share(wanted: int) -> int:
    """Connections of each door: as many as are wanted, or as the limit allows if others are to have as many."""
    return min(wanted, (ceiling() - ALONE) // DOORS)


def tell(wanted: int, allowed: int) -> None:
    if allowed < wanted:
        detail = "raise the hard limit of file descriptors for more (ulimit -Hn, LimitNOFILE)"
        LOGGER.info(
            "fewer connections than limits.connections",
            extra={"wanted": wanted, "allowed": allowed, "detail": detail},
        )
