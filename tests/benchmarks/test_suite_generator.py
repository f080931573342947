"""The load generator against servers that answer right, wrong, in pieces, or not at all."""

import asyncio
import gc
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

import msgspec
import pytest

from benchmarks.suite import generator
from benchmarks.suite.clients import Ledger, replies
from benchmarks.suite.generator import asks, run
from benchmarks.suite.job import MARK, Choice, Exchange, Job, Outcome, Step, Wire
from benchmarks.suite.wires import grpc, resp

CREATE = Step(exchange=resp.create(MARK, MARK), choice=Choice.FRESH)

Answer = Callable[[bytes], list[bytes]]
"""A request in, the pieces of the answer out."""


class Server(asyncio.Protocol):
    """Writes one piece in each turn of the loop."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._pieces: deque[bytes] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        pieces = self._answer(data)
        if not pieces:
            self._transport.close()
        if not self._pieces:
            asyncio.get_running_loop().call_soon(self._write)
        self._pieces += pieces

    def _write(self) -> None:
        self._transport.write(self._pieces.popleft())
        if self._pieces:
            asyncio.get_running_loop().call_soon(self._write)


async def drive(
    answer: Answer, step: Step, *, limit: int, wire: Wire = Wire.RESP, pipeline: int = 1, pause_s: float = 0.0
) -> Outcome:
    server = await asyncio.get_running_loop().create_server(lambda: Server(answer), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    greeting = (grpc.greeting(),) if wire is Wire.GRPC else ()
    job = Job(wire=wire, ports=(port,), steps=(step,), clients=2, limit=limit, seconds=5.0, pipeline=pipeline)
    try:
        return await run(msgspec.structs.replace(job, greeting=greeting, pause_s=pause_s))
    finally:
        server.close()


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """The generator turns the garbage collector off; a test run wants it."""
    yield
    gc.enable()


def commands(data: bytes) -> int:
    return len(replies(data))


def test_right_answers_count() -> None:
    outcome = asyncio.run(drive(lambda data: [resp.OK * commands(data)], CREATE, limit=40))
    assert (outcome.operations, outcome.answered, outcome.failed) == (40, 40, 0)
    assert outcome.latency.p50 > 0


def test_an_answer_may_come_in_pieces() -> None:
    outcome = asyncio.run(drive(lambda _: [b"+", b"OK\r", b"\n"], CREATE, limit=10))
    assert (outcome.operations, outcome.failed) == (10, 0)


@pytest.mark.parametrize(
    ("wrong", "word"),
    [(b"$-1\r\n", "other"), (b"-BUSY too much\r\n", "BUSY"), (b"+NO\r\n", "other"), (b":1\r\n", "other")],
)
def test_a_planted_wrong_answer_is_counted_and_named(wrong: bytes, word: str) -> None:
    outcome = asyncio.run(drive(lambda _: [wrong], CREATE, limit=10))
    assert (outcome.operations, outcome.failed, set(outcome.faults)) == (0, 10, {word})


def test_the_right_ones_of_a_pipeline_count_beside_the_wrong_one() -> None:
    outcome = asyncio.run(drive(lambda _: [resp.OK * 3 + b"-BUSY x\r\n"], CREATE, limit=20, pipeline=4))
    assert (outcome.operations, outcome.faults) == (15, {"BUSY": 5})


def test_whoever_is_refused_may_wait_before_asking_again() -> None:
    outcome = asyncio.run(drive(lambda _: [b"-BUSY x\r\n"], CREATE, limit=6, pause_s=60.0))
    assert outcome.faults["BUSY"] == 2, "both clients had one answer, and none was under way while they waited"


def test_another_keys_value_is_a_wrong_answer() -> None:
    get = Step(exchange=resp.get(MARK, MARK), choice=Choice.FRESH)
    outcome = asyncio.run(drive(lambda _: [resp.bulk(b"000000000003")], get, limit=5))
    assert (outcome.operations, outcome.failed) == (1, 4)


def test_a_server_that_goes_away_is_a_failure() -> None:
    outcome = asyncio.run(drive(lambda _: [], CREATE, limit=4))
    assert (outcome.operations, outcome.faults) == (0, {"closed": 2})


def test_a_server_that_never_answers_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "PATIENCE_S", 0.05)

    async def silent() -> Outcome:
        server = await asyncio.get_running_loop().create_server(lambda: asyncio.Protocol(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        job = Job(wire=Wire.RESP, ports=(port,), steps=(CREATE,), clients=3, warm_s=0.01, seconds=0.02)
        try:
            return await run(job)
        finally:
            server.close()

    outcome = asyncio.run(silent())
    assert (outcome.operations, outcome.unanswered) == (0, 3)


class Http2:
    """Enough of a server: answers every request that has ended, however it is cut."""

    def __init__(self, message: bytes) -> None:
        self._message = message

    def __call__(self, data: bytes) -> list[bytes]:
        answers = [grpc.frame(grpc.SETTINGS, 0, 0)] if data.startswith(grpc.PREFACE) else []
        at = len(grpc.PREFACE) if data.startswith(grpc.PREFACE) else 0
        while at + 9 <= len(data):
            head, flags, stream = grpc.FRAME_HEAD.unpack_from(data, at)
            at += 9 + (head >> 8)
            if head & 0xFF == grpc.DATA and flags & grpc.END_STREAM:
                answers += self._answer(stream)
        return answers or [grpc.frame(grpc.PING, 0, 0, bytes(8))]

    def _answer(self, stream: int) -> list[bytes]:
        wrapped = b"\x00" + len(self._message).to_bytes(4, "big") + self._message
        whole = b"".join(
            (
                grpc.frame(grpc.HEADERS, grpc.END_HEADERS, stream, b"\x88"),
                grpc.frame(grpc.DATA, 0, stream, wrapped),
                grpc.frame(grpc.HEADERS, grpc.END_HEADERS | grpc.END_STREAM, stream, b"\x88"),
            )
        )
        return [whole[:20], whole[20:]]


SUCCESS = grpc.field(1, b"\x08\x01") + grpc.SUCCEEDED


def test_streams_of_grpc_end_with_what_their_messages_say() -> None:
    step = Step(exchange=grpc.create(MARK, MARK), choice=Choice.FRESH)
    right = asyncio.run(drive(Http2(SUCCESS), step, limit=12, wire=Wire.GRPC))
    assert (right.operations, right.failed) == (12, 0)
    wrong = asyncio.run(drive(Http2(grpc.field(1, b"\x08\x01")), step, limit=12, wire=Wire.GRPC))
    assert (wrong.operations, wrong.failed) == (0, 12)


def said(step: Step, client: int, count: int) -> list[int]:
    """The numbers that a client of four asks for."""
    job = Job(wire=Wire.RESP, ports=(1,), steps=(step,), clients=4)
    return [int(raw) for raw, _ in islice(asks(job, client, iter(())), count)]


def test_every_client_has_keys_of_its_own() -> None:
    step = Step(exchange=Exchange(MARK, MARK), choice=Choice.OWN, count=100)
    mine = [set(said(step, client, 100)) for client in range(4)]
    assert set.union(*mine) == set(range(100))
    assert sum(map(len, mine)) == 100


def test_keys_that_are_read_are_all_of_them_in_no_order() -> None:
    step = Step(exchange=Exchange(MARK, MARK), choice=Choice.ANY, count=1000)
    found = said(step, 0, 999)
    assert len(set(found)) == 999, "all but one: their number is odd"
    assert found != sorted(found)
    assert said(step, 1, 10) != found[:10], "another client begins elsewhere"
    assert said(step, 1, 5000)[-999:] != found


def test_of_millions_a_sample_is_read_from_everywhere() -> None:
    step = Step(exchange=Exchange(MARK, MARK), choice=Choice.ANY, count=10_000_000)
    assert {number // 1_000_000 for number in said(step, 0, 500)} == set(range(10))


def test_steps_are_taken_in_turns_and_pieces_put_together() -> None:
    read = Step(exchange=resp.get(MARK, MARK), choice=Choice.ONE)
    job = Job(wire=Wire.RESP, ports=(1,), steps=(read, CREATE), clients=2, pipeline=2)
    raw, reply = next(asks(job, 0, iter(range(5))))
    assert raw == resp.command(b"GET", b"0" * 12) + resp.command(b"SET", b"0" * 12, b"0" * 12, b"NX")
    assert reply == resp.bulk(b"0" * 12) + resp.OK
    others = next(asks(job, 1, iter(range(5))))[0]
    assert others.startswith(resp.command(b"SET", b"0" * 12, b"0" * 12, b"NX")), "another client begins elsewhere"


def test_fresh_keys_end_with_their_numbers() -> None:
    job = Job(wire=Wire.RESP, ports=(1,), steps=(CREATE,))
    assert len(list(islice(asks(job, 0, iter(range(3))), 10))) == 3


def test_nothing_counts_while_the_window_is_closed_but_faults_do() -> None:
    ledger = Ledger(1)
    ledger.right(0, 0.1, 1)
    ledger.wrong("BUSY because")
    assert (ledger.operations, ledger.answered, ledger.faults) == ([0], 1, {"BUSY": 1})
