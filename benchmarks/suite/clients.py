"""One connection for each client, over any of the protocols. It asks, waits for the answer, compares, asks again.

All the work is in callbacks: no task, no future and no copy for a request, because what the generator uses, the servers
of a small machine do not have.
"""

import asyncio
import struct
from collections.abc import Callable, Iterator
from time import perf_counter
from typing import cast

import hiredis

from benchmarks.suite.job import Wire
from benchmarks.suite.wires import grpc, http1, postgres

Ask = tuple[bytes, bytes]
"""What is sent, and what a right answer is."""

WORD = 40
"""Letters of a fault's name: enough to tell them apart."""


class Ledger:
    """What all clients saw. Counts only while the window is open."""

    def __init__(self, nodes: int) -> None:
        self.took: list[list[float]] = [[] for _ in range(nodes)]
        self.operations = [0] * nodes
        self.faults: dict[str, int] = {}
        self.example = ""
        self.open = False
        self.stopped = False
        self.under_way = 0
        self.answered = 0

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
        if self.ledger.stopped:
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

    def wrong(self, what: str, operations: int = 1) -> None:
        self.ledger.wrong(what, operations)
        self._settle()

    def _settle(self) -> None:
        self.buffer = b""
        self.waiting = 0
        self.ledger.under_way -= 1
        self.ask()

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
        elif b"E" in (data[:1],):
            self.refuse(postgres.trouble(data))
        else:
            self.buffer = b""
            self.greet()


class GrpcClient(Client):
    """Several streams at once, and flow control in both directions."""

    def __init__(
        self, ledger: Ledger, node: int, asks: Iterator[Ask], greeting: tuple[bytes, ...], each: int, streams: int
    ) -> None:
        super().__init__(ledger, node, asks, greeting, each, streams)
        self.next_id = 1
        self.window = self.first_window = grpc.INITIAL_WINDOW
        self.taken = 0
        self.calls: dict[int, Call] = {}
        self.handlers: dict[int, Callable[[int, int, bytes], None]] = {
            grpc.DATA: self._data,
            grpc.HEADERS: self._headers,
            grpc.RESET: self._reset,
            grpc.SETTINGS: self._settings,
            grpc.PING: self._ping,
            grpc.GOAWAY: self._go_away,
            grpc.WINDOW: self._widened,
        }

    def start(self) -> None:
        for _ in range(self.streams):
            self.ask()

    def greet(self) -> None:
        """Nobody has to answer before we go on."""
        self.transport.write(b"".join(self.greeting))
        self.ready.set_result(None)

    def ask(self) -> None:
        if self.ledger.stopped:
            return
        ask = next(self.asks, None)
        if ask is None:
            return
        raw, expected = ask
        stream, self.next_id = self.next_id, self.next_id + 2
        self.waiting += 1
        self.ledger.under_way += 1
        split = raw[0] + 1
        block, body = raw[1:split], raw[split:]
        call = self.calls[stream] = Call(expected, perf_counter())
        head = grpc.frame(grpc.HEADERS, grpc.END_HEADERS, stream, block)
        if len(body) <= grpc.MAX_FRAME and len(body) <= self.window and len(body) <= self.first_window:
            self.window -= len(body)
            self.transport.write(head + grpc.frame(grpc.DATA, grpc.END_STREAM, stream, body))
            return
        self.transport.write(head)
        call.unsent, call.window = body, self.first_window
        self._send(stream, call)

    def _send(self, stream: int, call: "Call") -> None:
        """As much as both windows allow."""
        while call.unsent:
            room = min(self.window, call.window, grpc.MAX_FRAME)
            if room <= 0:
                return
            part, call.unsent = call.unsent[:room], call.unsent[room:]
            self.window -= len(part)
            call.window -= len(part)
            self.transport.write(grpc.frame(grpc.DATA, 0 if call.unsent else grpc.END_STREAM, stream, part))

    def data_received(self, data: bytes) -> None:
        if self.buffer:
            data = self.buffer + data
        at, size = 0, len(data)
        while size - at >= 9:
            head, flags, stream = grpc.FRAME_HEAD.unpack_from(data, at)
            end = at + 9 + (head >> 8)
            if end > size:
                break
            handle = self.handlers.get(head & 0xFF)
            if handle is not None:
                handle(flags, stream, data[at + 9 : end])
            at = end
        self.buffer = data[at:]

    def _data(self, flags: int, stream: int, payload: bytes) -> None:
        self.taken += len(payload)
        if self.taken > grpc.MAX_WINDOW // 2:
            self.transport.write(grpc.frame(grpc.WINDOW, 0, 0, struct.pack(">I", self.taken)))
            self.taken = 0
        call = self.calls.get(stream)
        if call is not None:
            call.message = call.message + payload if call.message else payload
        if flags & grpc.END_STREAM:
            self._ended(stream)

    def _headers(self, flags: int, stream: int, _: bytes) -> None:
        if flags & grpc.END_STREAM:
            self._ended(stream)

    def _ended(self, stream: int) -> None:
        call = self.calls.pop(stream, None)
        if call is None:
            return
        if grpc.accepts(call.message[5:], call.expected):
            self.ledger.right(self.node, perf_counter() - call.began, self.each)
        else:
            self.ledger.wrong("refused" if not call.message else f"other {call.message[5:]!r}")
        self.waiting -= 1
        self.ledger.under_way -= 1
        self.ask()

    def _reset(self, _flags: int, stream: int, payload: bytes) -> None:
        call = self.calls.get(stream)
        if call is not None:
            call.message = b""
            self._ended(stream)
            self.ledger.example = self.ledger.example or f"reset {payload!r}"

    def _settings(self, flags: int, _stream: int, payload: bytes) -> None:
        if flags & grpc.ACK:
            return
        for name, value in struct.iter_unpack(">HI", payload):
            if name == grpc.INITIAL_WINDOW_SETTING:
                for call in self.calls.values():
                    call.window += value - self.first_window
                self.first_window = value
        self.transport.write(grpc.frame(grpc.SETTINGS, grpc.ACK, 0))

    def _ping(self, flags: int, _stream: int, payload: bytes) -> None:
        if not flags & grpc.ACK:
            self.transport.write(grpc.frame(grpc.PING, grpc.ACK, 0, payload))

    def _go_away(self, _flags: int, _stream: int, payload: bytes) -> None:
        self.ledger.example = self.ledger.example or f"sent away {payload[8:]!r}"

    def _widened(self, _flags: int, stream: int, payload: bytes) -> None:
        by = int.from_bytes(payload, "big")
        if stream:
            if stream in self.calls:
                self.calls[stream].window += by
        else:
            self.window += by
        for each, call in list(self.calls.items()):
            if call.unsent:
                self._send(each, call)


class Call:
    """One stream."""

    __slots__ = ("began", "expected", "message", "unsent", "window")

    def __init__(self, expected: bytes, began: float) -> None:
        self.expected = expected
        self.began = began
        self.message = b""
        self.unsent = b""
        self.window = 0


KINDS: dict[Wire, type[Client]] = {
    Wire.RESP: RespClient,
    Wire.HTTP: HttpClient,
    Wire.POSTGRES: PostgresClient,
    Wire.GRPC: GrpcClient,
}
