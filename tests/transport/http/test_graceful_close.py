"""The end of a stream behind what was written."""

import asyncio
import socket
from typing import cast

from epoxy.transport.http.graceful_close import cork, end_stream
from tests.transport.http.harness import run


def test_the_end_of_the_stream_follows_the_last_answer_and_reading_goes_on() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        listening = socket.create_server(("127.0.0.1", 0))
        listening.setblocking(False)
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        accepted, _ = await loop.sock_accept(listening)
        there_reader, there = await asyncio.open_connection(sock=accepted)
        transport = cast(asyncio.Transport, there.transport)
        cork(transport)
        there.write(b"last answer")
        end_stream(transport)
        assert await reader.read() == b"last answer"
        writer.write(b"still read")
        assert await there_reader.readexactly(10) == b"still read"
        for each in (writer, there):
            each.transport.abort()
        cork(transport)
        end_stream(transport)
        listening.close()

    run(story())
