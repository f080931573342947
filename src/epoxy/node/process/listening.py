"""Opening a port, and saying which setting is wrong when that fails."""

import errno
import os
from collections.abc import Awaitable
from typing import TypeVar

from epoxy.model.address import Address
from epoxy.model.errors import CannotListen, ConfigError

T = TypeVar("T")


async def listen(setting: str, address: Address, listening: Awaitable[T]) -> T:
    """An address that is taken may be free again soon. One that is not this machine's, a name that is not found and a
    port that this user may not open stay so until somebody changes something. The loop wraps the system's words into
    its own; those of a name that is not found have no such number."""
    try:
        return await listening
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        if error.errno == errno.EADDRNOTAVAIL:
            reason = "that is no address of this machine"
        words = f"{setting}: cannot listen on {address}: {reason}"
        raise (CannotListen(words) if error.errno == errno.EADDRINUSE else ConfigError(words)) from error
