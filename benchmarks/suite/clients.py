"""One connection for each client, over any of the protocols. It asks, waits for the answer, compares, asks again.

All the work is in callbacks: no task, no future and no copy for a request, because what the generator uses, the servers
of a small machine do not have.
"""

import asyncio
from collections.abc import Iterator
from time import perf_counter
from typing import cast

import hiredis

from benchmarks.suite.wires import http1, postgres

Ask = tuple[bytes, bytes]
"""What is sent, and what a right answer is."""

WORD = 40
"""Letters of a fault's name: enough to tell them apart."""


class Ledger:
    """What all clients saw. Counts only while the window is open."""

    def __init__(self, nodes: int, pause_s: float = 0.0) -> None:
        """`pause_s`: what a client does after a wrong answer."""
        self.pause_s = pause_s
        self.took: list[list[float]] = [[] for _ in range(nodes)]
        self.operations = [0] * nodes
        self.faults: dict[str, int] = {}
        self.example = ""
        self.open = False
        self.stopped = False
        self.under_way = 0
        self.answered = 0
        self.numbers: list[int] = []
        """That answers told."""
        self.retries = 0

    def right(self, node: int, took_s: float, operations: int) -> None:
        self.answered += operations
        if self.open:
            self.took[node].append(took_s)
            self.operations[node] += operations

    def wrong(self, what: str, operations: int = 1) -> None:
        """Counted outside of the window as well: nothing that is wrong may go unseen."""
        word = what.split(" ")[0][:WORD]
        self.faults[word] = self.faults.get(word, 0) + operations
        self.example = self.example or what[:200]


class Client(asyncio.Protocol):
    """`asks` gives requests until there are none left; `each` operations are in one."""

    def __init__(
        self, ledger: Ledger, node: int, asks: Iterator[Ask], greeting: tuple[bytes, ...], each: int, streams: int
    ) -> None:
        self.ledger = ledger
        self.node = node
        self.asks = asks
        self.greeting = list(greeting)
        self.each = each
        self.streams = streams
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.buffer = b""
        self.expected = b""
        self.began = 0.0
        self.waiting = 0
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are none by name
        self.greet()

    def greet(self) -> None:
        """One after the other, each when the one before was answered."""
        if self.greeting:
            self.transport.write(self.greeting.pop(0))
        elif not self.ready.done():
            self.ready.set_result(None)

    def refuse(self, what: str) -> None:
        if not self.ready.done():
            self.ready.set_exception(ConnectionRefusedError(what))

    def start(self) -> None:
        self.ask()

    def ask(self) -> None:
        if self.ledger.stopped or self.transport.is_closing():
            return
        ask = next(self.asks, None)
        if ask is None:
            return
        raw, self.expected = ask
        self.waiting = 1
        self.ledger.under_way += 1
        self.began = perf_counter()
        self.transport.write(raw)

    def right(self) -> None:
        self.ledger.right(self.node, perf_counter() - self.began, self.each)
        self._settle()
        self.ask()

    def wrong(self, what: str, operations: int = 1) -> None:
        self.ledger.wrong(what, operations)
        self._settle()
        if self.ledger.pause_s:
            asyncio.get_running_loop().call_later(self.ledger.pause_s, self.ask)
        else:
            self.ask()

    def _settle(self) -> None:
        self.buffer = b""
        self.waiting = 0
        self.ledger.under_way -= 1

    def connection_lost(self, error: Exception | None) -> None:
        self.refuse(f"closed {error or 'by the server'}")
        if self.waiting:
            self.ledger.wrong(f"closed {error or 'by the server'}", self.waiting)
            self.ledger.under_way -= self.waiting


class RespClient(Client):
    def data_received(self, data: bytes) -> None:
        if not self.ready.done():
            self._greeted(data)
            return
        if self.buffer:
            data = self.buffer + data
        if data == self.expected:
            self.right()
        elif self.expected.startswith(data):
            self.buffer = data
        else:
            self._look(data)

    def _greeted(self, data: bytes) -> None:
        if data[:1] == b"-":
            self.refuse(data.decode("utf-8", "replace"))
        elif data.endswith(b"\r\n"):
            self.greet()

    def _look(self, data: bytes) -> None:
        """Not what it should be. All have to be there first; the right ones among them count."""
        found, wanted = replies(data), replies(self.expected)
        if len(found) < len(wanted):
            self.buffer = data
            return
        wrong = [said(reply) for reply, right in zip(found, wanted, strict=False) if reply != right]
        wrong += ["surplus"] * (len(found) - len(wanted))
        if len(wrong) < self.each:
            self.ledger.right(self.node, perf_counter() - self.began, self.each - len(wrong))
        for reply in wrong[1:]:
            self.ledger.wrong(reply)
        self.wrong(wrong[0])


def replies(data: bytes) -> list[object]:
    reader = hiredis.Reader()
    reader.feed(data)
    found: list[object] = []
    while (reply := reader.gets()) is not False:
        found.append(str(reply) if isinstance(reply, Exception) else reply)
    return found


def said(reply: object) -> str:
    return reply if isinstance(reply, str) else f"other {reply!r}"


class HttpClient(Client):
    def data_received(self, data: bytes) -> None:
        if self.buffer:
            data = self.buffer + data
        try:
            size = http1.whole(data)
        except ValueError as error:
            self.wrong(f"broken {error}")
            return
        if not size:
            self.buffer = data
        elif http1.accepts(data, self.expected):
            self.right()
        else:
            self.wrong(f"{data[9:12].decode('ascii', 'replace')} {data[:size]!r}")


class PostgresClient(Client):
    def data_received(self, data: bytes) -> None:
        if self.buffer:
            data = self.buffer + data
        if data == self.expected and self.ready.done():
            self.right()
        elif not data.endswith(postgres.READY) and not data.startswith(b"E"):
            self.buffer = data
        elif self.ready.done():
            self.wrong(postgres.trouble(data))
        elif data.startswith(b"E"):
            self.refuse(postgres.trouble(data))
        else:
            self.buffer = b""
            self.greet()
