"""Asks agents of elect for their status, on behalf of the pages of this node.

Only agents whose addresses stand in the node's file are asked, so a visitor cannot make the node connect anywhere.
They are asked when a page asks, at most once a second whatever the number of pages.
"""

import asyncio
import os
import time
from collections.abc import Callable

import msgspec

from epoxy.codec import json_text
from epoxy.model.address import Address
from epoxy.model.elect_status import AgentStatus, ElectAgent, ElectView
from epoxy.model.errors import CodecError, InvalidValue, Oversized

ASK_S = 1.0
"""For connection and answer. An agent answers in a millisecond; it is in this datacenter or a round trip away."""

FRESH_S = 1.0
"""How long an answer is given again: agents are asked once for all pages."""

MAX_REPLY_BYTES = 64 << 10
"""A status of 15 nodes, the most there are, has 4 KiB."""

QUESTION = b"*2\r\n$5\r\nELECT\r\n$6\r\nSTATUS\r\n"

statuses = msgspec.json.Decoder(AgentStatus)


class ElectAgents:
    def __init__(
        self,
        addresses: tuple[Address, ...],
        now_s: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._addresses = addresses
        self._now_s = now_s
        self._wall_s = wall_s
        self._asking: asyncio.Task[ElectView] | None = None
        self._asked_s = 0.0

    async def look(self) -> ElectView:
        """Many callers at once share one look. It is not cancelled with a caller that goes."""
        now_s = self._now_s()
        is_old = self._asking is None or (self._asking.done() and now_s - self._asked_s >= FRESH_S)
        if self._asking is None or is_old:
            self._asking, self._asked_s = asyncio.ensure_future(self._ask_all()), now_s
        return await asyncio.shield(self._asking)

    async def _ask_all(self) -> ElectView:
        agents = await asyncio.gather(*[ask(address) for address in self._addresses])
        return ElectView(now=self._wall_s(), agents=tuple(agents))

    def stop(self) -> None:
        if self._asking is not None:
            self._asking.cancel()


async def ask(address: Address) -> ElectAgent:
    try:
        async with asyncio.timeout(ASK_S):
            status = await status_of(address)
    except TimeoutError:
        return ElectAgent(address=str(address), status=None, trouble=f"no answer within {ASK_S:g} s")
    except OSError as error:
        words = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else str(error)
        return ElectAgent(address=str(address), status=None, trouble=words)
    except (CodecError, ValueError, EOFError) as error:
        return ElectAgent(address=str(address), status=None, trouble=str(error))
    return ElectAgent(address=str(address), status=status)


async def status_of(address: Address) -> AgentStatus:
    reader, writer = await asyncio.open_connection(address.host, address.port, limit=MAX_REPLY_BYTES)
    try:
        writer.write(QUESTION)
        return json_text.decode(statuses, await bulk(reader))
    finally:
        writer.transport.abort()


async def bulk(reader: asyncio.StreamReader) -> bytes:
    """The one reply that is expected. Anything else comes from no agent, or from one of another release."""
    head = await reader.readline()
    if head.startswith(b"-"):
        raise InvalidValue(head[1:].decode("utf-8", "replace").strip())
    size = int(head[1:]) if head.startswith(b"$") and head[1:].strip().isdigit() else -1
    if size < 0:
        raise InvalidValue("what answers there is no agent of elect")
    if size > MAX_REPLY_BYTES:
        raise Oversized(f"an answer of more than {MAX_REPLY_BYTES} bytes")
    return await reader.readexactly(size)
