"""Opening a port, with an error that names its setting."""

import errno
import os
import socket
from collections.abc import Awaitable
from typing import TypeVar

from epoxy.model.address import Address
from epoxy.model.errors import CannotListen, ConfigError

T = TypeVar("T")


def check_address(setting: str, address: Address) -> None:
    """ConfigError for a host name that is not found. `listen` would say so, too, but later: after the data directory
    was made."""
    try:
        socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no host name"
        raise ConfigError(f"{setting}: cannot listen on {address}: {reason}") from error


async def listen(setting: str, address: Address, listening: Awaitable[T]) -> T:
    """CannotListen for an address in use, which may soon be free. ConfigError for an address of another machine, a host
    name that is not found, and a port that this user may not open. `strerror` is preferred to the event loop's own
    text; a host name that is not found has no error number of the system."""
    try:
        return await listening
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        if error.errno == errno.EADDRNOTAVAIL:
            reason = "it is not an address of this machine"
        words = f"{setting}: cannot listen on {address}: {reason}"
        raise (CannotListen(words) if error.errno == errno.EADDRINUSE else ConfigError(words)) from error
