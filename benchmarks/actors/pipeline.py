"""The client of a measurement: raw HTTP/1.1 over a few connections that stay open, several requests under way on each.
One process, and as little work for each request as Python allows, so that it is not what is measured."""

import asyncio
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import cast

from msgspec import Struct

END = b"\r\n\r\n"
LENGTH = b"content-length: "


class Pace(Struct, frozen=True, kw_only=True):
    """What one window of time showed. `cpu_us` is what this client took for each request."""

    a_second: float
    p50_ms: float
    p99_ms: float
    failed: int
    answered: int
    seconds: float
    cpu_us: float


class Pipe(asyncio.Protocol):
    """One connection with `depth` requests under way."""

    def __init__(self, requests: Iterator[bytes], depth: int) -> None:
        self.took_ms: list[float] = []
        self.failed = 0
        self.stopping = False
        self.closed = asyncio.Event()
        self._requests = requests
        self._depth = depth
        self._sent: deque[float] = deque()
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send(self._depth)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.failed += len(self._sent)
        self.closed.set()

    def data_received(self, data: bytes) -> None:
        """Whole answers are counted, and as many requests sent again."""
        buffer, at, answered = self._buffer + data, 0, 0
        now = time.perf_counter()
        while (end := buffer.find(END, at)) >= 0:
            head = buffer[at:end].lower()
            found = head.find(LENGTH)
            line = head.find(b"\r\n", found)
            length = int(head[found + len(LENGTH) : line if line >= 0 else None]) if found >= 0 else 0
            if len(buffer) < end + len(END) + length:
                break
            self.took_ms.append((now - self._sent.popleft()) * 1000)
            self.failed += head[9:12] != b"200"
            at = end + len(END) + length
            answered += 1
        self._buffer = buffer[at:]
        if self.stopping:
            if not self._sent and self._transport is not None:
                self._transport.close()
        elif answered:
            self._send(answered)

    def _send(self, count: int) -> None:
        assert self._transport is not None
        now = time.perf_counter()
        self._sent.extend([now] * count)
        self._transport.write(b"".join([next(self._requests) for _ in range(count)]))


def posts(host: str, paths: Sequence[str], body: bytes) -> list[bytes]:
    rest = f" HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    return [f"POST {path}".encode() + rest for path in paths]


async def measure(
    host: str, port: int, paths: Sequence[str], *, connections: int, depth: int, warm_s: float, seconds: float
) -> Pace:
    """Every path in turn. What is answered while it warms up does not count."""
    loop = asyncio.get_running_loop()
    requests = cycle(posts(f"{host}:{port}", paths, b"x" * 16))
    pipes = [(await loop.create_connection(lambda: Pipe(requests, depth), host, port))[1] for _ in range(connections)]
    await asyncio.sleep(warm_s)
    for pipe in pipes:
        pipe.took_ms.clear()
    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.sleep(seconds)
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu
    took = sorted(ms for pipe in pipes for ms in pipe.took_ms)
    for pipe in pipes:
        pipe.stopping = True
    async with asyncio.timeout(60):
        for pipe in pipes:
            await pipe.closed.wait()
    if not took:
        raise RuntimeError("nothing was answered")
    return Pace(
        a_second=len(took) / took_s,
        p50_ms=took[len(took) // 2],
        p99_ms=took[int(len(took) * 0.99)],
        failed=sum(pipe.failed for pipe in pipes),
        answered=len(took),
        seconds=took_s,
        cpu_us=cpu_s / len(took) * 1e6,
    )
