"""How a door that stops ends the connections of its clients."""

import asyncio
import os
import socket
import sys
from contextlib import suppress

LEAVE_S = 0.25
"""Between the last word to a client and the end of its connection: a request that was on its way must not reset it
first."""

FLUSH_S = 0.02
"""In which the event loop has handed to the system what it was given to write: its next turn, and some."""


def cork(transport: asyncio.Transport) -> None:
    """From here on what is written stays until the end of the stream is, too, and leaves in one piece with it (or after
    200 ms, by Linux's own patience). On other systems the two leave one right after the other."""
    if sys.platform == "linux":
        with suppress(OSError):  # The client has gone.
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)


def end_stream(transport: asyncio.Transport) -> None:
    """Behind the goodbye of TLS, which is written: pools look for the end of TCP's stream, and event loops keep that
    until the other side has said goodbye, too. They give no one else their socket's halves, so a twin is ended."""
    with (
        suppress(OSError),  # The client has gone.
        socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as twin,
    ):
        twin.shutdown(socket.SHUT_WR)
