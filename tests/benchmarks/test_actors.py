"""The client that measures actors: what it counts, and what is held against the figures."""

import asyncio

import pytest

from benchmarks.actors.__main__ import Measured, verdicts
from benchmarks.actors.pipeline import Pace, measure


def pace(a_second: float, *, failed: int = 0, cpu_us: float = 10.0) -> Pace:
    return Pace(a_second=a_second, p50_ms=1.0, p99_ms=2.0, failed=failed, answered=100, seconds=1.0, cpu_us=cpu_us)


def test_it_counts_whole_answers_in_the_order_of_requests_and_failures() -> None:
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers in two pieces, every third with an error."""
        while head := await reader.read(65536):
            for request in head.split(b"POST ")[1:]:
                seen.append(request.split(b" ")[0])
                status = b"503 No" if len(seen) % 3 == 0 else b"200 OK"
                writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Length: 4\r\n\r\nab")
                await asyncio.sleep(0)
                writer.write(b"cd")
        writer.close()

    async def main() -> Pace:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            return await measure("127.0.0.1", port, ["/a", "/b"], connections=1, depth=3, warm_s=0.0, seconds=0.2)

    found = asyncio.run(main())
    assert set(seen[::2]) == {b"/a"}
    assert found.failed == len(seen) // 3
    assert 0 < found.answered <= len(seen)


@pytest.mark.parametrize(
    ("one", "many", "asleep", "failed", "broken"),
    [
        (3_000.0, 5_000.0, 1_024.0, 0, []),
        (2_999.0, 5_000.0, 1_024.0, 0, ["one actor"]),
        (3_000.0, 4_999.0, 1_024.0, 0, ["500 actors"]),
        (3_000.0, 5_000.0, 1_025.0, 1, ["failed requests", "an actor that sleeps"]),
    ],
)
def test_figures_are_held_against_what_is_wanted(
    one: float, many: float, asleep: float, failed: int, broken: list[str]
) -> None:
    measured = [
        Measured(name="one actor", pace=pace(one, failed=failed), ratio=1.0, node_us=50.0),
        Measured(name="500 actors", pace=pace(many), ratio=1.0, node_us=50.0),
    ]
    assert [each.claim for each in verdicts(measured, asleep) if not each.held] == broken
