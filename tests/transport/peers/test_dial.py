"""The client's side of HTTP between peers, against a server that a test scripts."""

import asyncio
from collections.abc import Awaitable, Callable

from epoxy.transport.http.request import HttpReply
from epoxy.transport.peers.dial import MAX_HEAD_BYTES, Dial
from tests.transport.http.harness import expect_report, run, until

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n%b"

Answers = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def with_dial(answers: Answers, story: Callable[[Dial], Awaitable[None]]) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await answers(reader, writer)
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        _, dial = await loop.create_connection(lambda: Dial(lambda: None), "127.0.0.1", port)
        await dial.opened
        try:
            await story(dial)
        finally:
            dial.abort()
            await dial.lost
            server.close()

    run(main())


def ask(dial: Dial, count: int) -> list[HttpReply | None]:
    replies: list[HttpReply | None] = []
    for _ in range(count):
        dial.request(b"GET / HTTP/1.1\r\n\r\n", b"", replies.append)
    return replies


def test_answers_belong_to_requests_in_their_order() -> None:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for name in (b"a", b"b"):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(OK % name)

    async def story(dial: Dial) -> None:
        replies = ask(dial, 3)
        assert dial.waiting == 3
        await dial.lost
        assert [reply and reply.body for reply in replies] == [b"a", b"b", None], "the last was lost"
        assert (dial.waiting, dial.answers) == (0, 2)
        assert ask(dial, 1) == [None], "a lost connection fails at once"

    with_dial(answers, story)


def test_an_answer_without_a_request_ends_the_connection() -> None:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK % b"x")
        await reader.read()

    async def story(dial: Dial) -> None:
        await dial.lost
        assert dial.answers == 0

    with_dial(answers, story)


def test_a_head_that_is_too_long_ends_the_connection() -> None:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nx: %b\r\ny: z\r\nz: z\r\n" % (b"v" * MAX_HEAD_BYTES))
        await reader.read()

    async def story(dial: Dial) -> None:
        replies = ask(dial, 1)
        await dial.lost
        assert replies == [None]

    with_dial(answers, story)


def test_a_callback_that_raises_does_not_stop_the_next() -> None:
    async def answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK % b"a" + OK % b"b")
        await reader.read()

    def broken(_: HttpReply | None) -> None:
        raise ZeroDivisionError

    async def story(dial: Dial) -> None:
        reports: list[BaseException] = []
        expect_report(reports)
        dial.request(b"GET / HTTP/1.1\r\n\r\n", b"", broken)
        replies = ask(dial, 1)
        await until(lambda: len(replies) == 1)
        assert replies[0] is not None
        assert [type(report) for report in reports] == [ZeroDivisionError]

    with_dial(answers, story)
