"""When a node's own feed of changes shows a key: the moment that its home knows."""

import asyncio
import re
import time
from typing import cast

from benchmarks.load import get


class Feed(asyncio.Protocol):
    """`seen_s`: by key, the moment of the monotonic clock its first change arrived."""

    def __init__(self, kind: str) -> None:
        self.seen_s: dict[str, float] = {}
        self._pattern = re.compile(rf"{kind}/[0-9a-f]+/\d+(?!\d)".encode())
        self._rest = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by name

    def data_received(self, data: bytes) -> None:
        """Whole lines: a key that is cut in two is looked at when its rest is there."""
        now = time.perf_counter()
        whole, found, rest = (self._rest + data).rpartition(b"\n")
        self._rest = rest if found else whole + rest
        for key in self._pattern.findall(whole if found else b""):
            self.seen_s.setdefault(key.decode(), now)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


async def following(port: int, kind: str) -> Feed:
    """From now on."""
    loop = asyncio.get_running_loop()
    transport, feed = await loop.create_connection(lambda: Feed(kind), "127.0.0.1", port)
    transport.write(get(f"/v2/changes?after=now&prefix={kind}/"))
    return feed
