"""Opening a port, and saying which setting is wrong when that fails."""

import asyncio
import os
from collections.abc import Awaitable

from epoxy.model.address import Address
from epoxy.model.errors import CannotListen


async def listen(setting: str, address: Address, listening: Awaitable[asyncio.Server]) -> asyncio.Server:
    """The loop wraps the system's words into its own; those of a name that is not found have no such number."""
    try:
        return await listening
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise CannotListen(f"{setting}: cannot listen on {address}: {reason}") from error
