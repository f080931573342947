"""The protocols of the load generator, to the byte; and that a wrong answer is never taken for a right one."""

import struct

import hiredis
import httptools
import pytest

from benchmarks.suite.job import DIGITS, MARK, Exchange, value_of
from benchmarks.suite.wires import grpc, http1, postgres, resp

KEY = b"bench/x/" + MARK


def test_a_number_takes_the_place_of_the_mark_without_changing_a_length() -> None:
    assert len(DIGITS % 7) == len(MARK)
    for exchange in (
        resp.create(KEY, value_of(16)),
        grpc.create(KEY, value_of(16)),
        http1.create(KEY, value_of(16)),
        postgres.create(KEY, value_of(16)),
    ):
        parts = exchange.raw.split(MARK)
        assert len(parts) >= 3, "in the key and in the value"
        assert len((DIGITS % 123).join(parts)) == len(exchange.raw)


@pytest.mark.parametrize("size", [16, 1024, 65536])
def test_a_value_has_its_size_and_tells_its_key(size: int) -> None:
    assert len(value_of(size)) == size
    assert value_of(size).count(MARK) == 1
    assert value_of(size) == value_of(size), "the same in every process"
    assert value_of(size) != value_of(size, b"w")


def test_a_value_that_cannot_tell_its_key_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16 bytes"):
        value_of(15)


def test_resp_commands_are_read_by_the_reference_reader() -> None:
    reader = hiredis.Reader()
    reader.feed(resp.create(b"key", b"value\r\n!").raw)
    assert reader.gets() == [b"SET", b"key", b"value\r\n!", b"NX"]
    reader.feed(resp.get(b"key", b"value\r\n!").reply)
    assert reader.gets() == b"value\r\n!"
    reader.feed(resp.waited(resp.put(b"key", b"v"), 1).raw)
    assert [reader.gets(), reader.gets()] == [[b"SET", b"key", b"v"], [b"WAIT", b"1", b"0"]]


class Heard:
    def __init__(self) -> None:
        self.body = b""

    def on_body(self, part: bytes) -> None:
        self.body += part


def test_http_requests_are_read_by_the_parser_of_our_server() -> None:
    heard = Heard()
    parser = httptools.HttpRequestParser(heard)
    parser.feed_data(http1.create(b"key", b"\r\n\r\nvalue").raw)
    assert (parser.get_method(), heard.body) == (b"PUT", b"\r\n\r\nvalue")


def answer(status: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {status} Words\r\nContent-Length: {len(body)}\r\nX: y\r\n\r\n".encode() + body


def test_an_http_answer_is_whole_when_its_last_byte_is_there() -> None:
    data = answer("200", b"value")
    assert http1.whole(data) == len(data)
    assert [http1.whole(data[:size]) for size in range(len(data))] == [0] * len(data)
    with pytest.raises(ValueError, match="without a length"):
        http1.whole(b"HTTP/1.1 200 OK\r\n\r\n")


@pytest.mark.parametrize(
    ("data", "accepted"),
    [
        (answer("200", b"value"), True),
        (answer("404", b"value"), False),
        (answer("200", b"other"), False),
        (answer("200", b""), False),
    ],
)
def test_an_http_answer_must_have_the_status_and_the_value(data: bytes, accepted: bool) -> None:
    assert http1.accepts(data, http1.get(b"key", b"value").reply) is accepted


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 1 << 20])
def test_varints_are_those_of_protobuf(number: int) -> None:
    raw, decoded = grpc.varint(number), 0
    for place, byte in enumerate(raw):
        decoded |= (byte & 0x7F) << 7 * place
        assert bool(byte & 0x80) is (place < len(raw) - 1)
    assert decoded == number


def test_a_frame_says_how_long_it_is_what_it_is_and_whose() -> None:
    assert grpc.frame(grpc.DATA, grpc.END_STREAM, 5, b"abc") == b"\x00\x00\x03\x00\x01\x00\x00\x00\x05abc"
    assert grpc.FRAME_HEAD.unpack(grpc.frame(grpc.PING, 0, 0, bytes(8))[:9]) == (8 << 8 | grpc.PING, 0, 0)


def test_a_call_is_a_header_block_and_a_message_that_says_its_length() -> None:
    raw = grpc.call(grpc.RANGE, b"message")
    block, body = raw[1 : 1 + raw[0]], raw[1 + raw[0] :]
    assert block == grpc.header_block(grpc.RANGE)
    assert body == b"\x00" + struct.pack(">I", 7) + b"message"
    # POST and http by their numbers in the static table, and the path as it is, under name 4, not indexed.
    assert block[:3] == b"\x83\x86\x04"
    assert block[3 : 4 + len(grpc.RANGE)] == bytes([len(grpc.RANGE)]) + grpc.RANGE


HEADER = grpc.field(1, grpc.flag(1, 7) + grpc.flag(3, 9))


@pytest.mark.parametrize(
    ("exchange", "message", "accepted"),
    [
        (grpc.create(b"k", b"value"), HEADER + grpc.SUCCEEDED + grpc.field(3, b"x"), True),
        (grpc.create(b"k", b"value"), HEADER + grpc.field(3, b"x"), False),
        (grpc.create(b"k", b"value"), HEADER + grpc.field(3, grpc.SUCCEEDED), False),
        (grpc.get(b"k", b"value", linearizable=True), HEADER + grpc.field(2, grpc.field(5, b"value")), True),
        (grpc.get(b"k", b"value", linearizable=True), HEADER + grpc.field(2, grpc.field(5, b"other")), False),
        (grpc.get(b"k", b"value", linearizable=True), HEADER, False),
        (grpc.put(b"k", b"value"), HEADER, True),
        (grpc.put(b"k", b"value"), b"", False),
    ],
)
def test_an_etcd_answer_must_say_that_it_succeeded_or_hold_the_value(
    exchange: Exchange, message: bytes, accepted: bool
) -> None:
    assert grpc.accepts(message, exchange.reply) is accepted


def test_a_serializable_read_differs_from_a_linearizable_one_by_one_flag() -> None:
    sure, local = (grpc.get(b"k", b"v", linearizable=flag).raw for flag in (True, False))
    assert local[: len(sure)].endswith(sure[-3:])
    assert local.endswith(grpc.flag(7, 1))


def test_postgres_messages_count_their_bytes() -> None:
    assert postgres.message(b"Q", b"x\0") == b"Q\x00\x00\x00\x06x\0"
    assert struct.unpack(">I", postgres.startup("a", "b")[:4])[0] == len(postgres.startup("a", "b"))
    assert postgres.get(b"k", b"vv").reply.endswith(postgres.READY)


def test_what_postgres_complains_about_is_told() -> None:
    error = postgres.message(b"E", b"SERROR\0C42P01\0Mno such table\0\0")
    assert postgres.trouble(error) == "no such table"
    assert postgres.trouble(b"C...") == "other C"
