"""Clients whose answers tell a number: the sum of an INCR, the version of an overwrite. All numbers are kept, so that
what was acknowledged can be held against what is there in the end."""

from time import perf_counter

from benchmarks.suite.clients import HttpClient, RespClient, replies, said
from benchmarks.suite.streams import Call, GrpcClient
from benchmarks.suite.wires import grpc, http1

VERSION = b"epoxy-version:"


class SumClient(RespClient):
    """INCR: any integer is right."""

    def data_received(self, data: bytes) -> None:
        if not self.ready.done():
            self._greeted(data)
            return
        data = self.buffer + data
        if not data.endswith(b"\r\n"):
            self.buffer = data
        elif data[:1] == b":":
            self.ledger.numbers.append(int(data[1:-2]))
            self.right()
        else:
            self.wrong(said(replies(data)[0]))


class VersionClient(HttpClient):
    """An overwrite: created or not, its version is told in a header."""

    def data_received(self, data: bytes) -> None:
        data = self.buffer + data
        size = http1.whole(data)
        head = data[: data.find(http1.HEAD_END)].lower()
        at = head.find(VERSION)
        if not size:
            self.buffer = data
        elif data[9:11] == b"20" and at >= 0:
            self.ledger.numbers.append(int(head[at + len(VERSION) :].partition(b"\r\n")[0]))
            self.right()
        else:
            self.wrong(f"{data[9:12].decode('ascii', 'replace')} {data[:size]!r}")


class AddingClient(GrpcClient):
    """etcd has no INCR. The best there is: a transaction that compares the revision of the last value seen, puts the
    next number, and otherwise reads what is there, so that each try needs one request. One number is one operation,
    however many tries it took; those are counted."""

    def start(self) -> None:
        self.seen = (0, 0)  # the revision and the number of the last value
        self.ask()

    def ask(self) -> None:
        if self.ledger.stopped:
            return
        ask = next(self.asks, None)
        if ask is None:
            return
        self.key = ask[0]
        self.waiting += 1
        self.ledger.under_way += 1
        self._try(perf_counter())

    def _try(self, began: float) -> None:
        stream, self.next_id = self.next_id, self.next_id + 2
        raw = grpc.replace_number(self.key, revision=self.seen[0], number=self.seen[1] + 1)
        split = raw[0] + 1
        self.calls[stream] = Call(b"", began)
        head = grpc.frame(grpc.HEADERS, grpc.END_HEADERS, stream, raw[1:split])
        body = raw[split:]
        self.window -= len(body)
        self.transport.write(head + grpc.frame(grpc.DATA, grpc.END_STREAM, stream, body))

    def _ended(self, stream: int) -> None:
        call = self.calls.pop(stream, None)
        if call is None:
            return
        if not call.message:
            self._over()
            self.ledger.wrong("refused")
            self.ask()
            return
        answer = grpc.replaced_number(call.message[5:])
        if not answer.succeeded:
            self.seen = answer.revision, answer.number
            self.ledger.retries += 1
            self._try(call.began)
            return
        self.seen = answer.revision, self.seen[1] + 1
        self.ledger.numbers.append(self.seen[1])
        self.ledger.right(self.node, perf_counter() - call.began, self.each)
        self._over()
        self.ask()

    def _over(self) -> None:
        self.waiting -= 1
        self.ledger.under_way -= 1
