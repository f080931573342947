"""Closing clients' connections when a server stops, so that the last answer is not lost to a reset."""

import asyncio
import os
import socket
import sys
from contextlib import suppress

CLOSE_DELAY_S = 0.25
"""Between the last answer and the end of the connection: a request that arrives in between must not cause a reset that
destroys the answer."""

FLUSH_S = 0.02
"""Enough for the event loop to hand all written bytes to the system: its next turn, and a margin."""


def cork(transport: asyncio.Transport) -> None:
    """Hold back what is written from here on, so that it leaves together with the end of the stream (or after 200 ms,
    Linux's own limit). On other systems the two leave one right after the other."""
    if sys.platform == "linux":
        with suppress(OSError):  # The client has closed the connection.
            transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)


def end_stream(transport: asyncio.Transport) -> None:
    """Send TCP's end of stream after TLS's close_notify, which is written already. Clients' pools look for it,
    but an event loop sends it only when the client has answered the close_notify, and does not let its socket be shut
    down in one direction. So a duplicate of the socket is shut down."""
    with (
        suppress(OSError),  # The client has closed the connection.
        socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno())) as duplicate,
    ):
        duplicate.shutdown(socket.SHUT_WR)
