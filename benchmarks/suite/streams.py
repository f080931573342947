"""gRPC over HTTP/2: several streams on one connection, and flow control in both directions."""

import struct
from collections.abc import Callable, Iterator
from time import perf_counter

from benchmarks.suite.clients import Ask, Client, Ledger
from benchmarks.suite.wires import grpc


class GrpcClient(Client):
    """`streams` requests at a time, each on a stream of its own."""

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
        """No answer is waited for before the next one."""
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
