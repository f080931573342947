"""RESP: every reply spelled out, every stream read the same however it is cut, nothing taken on trust."""

from collections.abc import Callable
from itertools import pairwise
from time import process_time

import hiredis
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from epoxy.codec import resp
from epoxy.codec.resp import MAX_HEADER_BYTES, MAX_INLINE_BYTES, OVERSIZED, CommandReader
from epoxy.codec.resp_limits import SHORT_ARGUMENTS, SHORT_BYTES, ReaderLimits
from epoxy.model.errors import InvalidValue, Oversized

LIMITS = ReaderLimits(arguments=16, argument_bytes=2048, command_bytes=8192)

ARGUMENTS = st.binary(max_size=40) | st.sampled_from(
    [b"", b"\r\n", b"*2\r\n", b"$3\r\nabc\r\n", b"x" * (SHORT_BYTES + 1)]
)
COMMANDS = st.lists(st.lists(ARGUMENTS, min_size=1, max_size=6), max_size=8)


def packed(commands: list[list[bytes]]) -> bytes:
    return b"".join(resp.array([resp.bulk(argument) for argument in command]) for command in commands)


def read(data: bytes, *cuts: int) -> tuple[list[list[bytes]], CommandReader]:
    reader, commands = CommandReader(LIMITS), []
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for begin, end in pairwise(places):
        commands += reader.feed(data[begin:end])
    return commands, reader


@pytest.mark.parametrize(
    ("encoded", "expected"),
    [
        (resp.simple("PONG"), b"+PONG\r\n"),
        (resp.error("ERR no"), b"-ERR no\r\n"),
        (resp.integer(-7), b":-7\r\n"),
        (resp.bulk(b""), b"$0\r\n\r\n"),
        (resp.bulk(b"a\r\nb"), b"$4\r\na\r\nb\r\n"),
        (resp.bulk_text("é"), b"$2\r\n\xc3\xa9\r\n"),
        (resp.null(2), b"$-1\r\n"),
        (resp.null(3), b"_\r\n"),
        (resp.maybe_bulk(None, 3), b"_\r\n"),
        (resp.maybe_bulk(b"v", 2), b"$1\r\nv\r\n"),
        (resp.array([]), b"*0\r\n"),
        (resp.array([resp.integer(1), resp.bulk(b"x")]), b"*2\r\n:1\r\n$1\r\nx\r\n"),
        (resp.mapping([(resp.bulk(b"k"), resp.integer(1))], 2), b"*2\r\n$1\r\nk\r\n:1\r\n"),
        (resp.mapping([(resp.bulk(b"k"), resp.integer(1))], 3), b"%1\r\n$1\r\nk\r\n:1\r\n"),
        (resp.verbatim("hi", 2), b"$2\r\nhi\r\n"),
        (resp.verbatim("hi", 3), b"=6\r\ntxt:hi\r\n"),
    ],
)
def test_replies(encoded: bytes, expected: bytes) -> None:
    assert encoded == expected


@given(st.text(max_size=60))
def test_a_message_cannot_end_its_own_line(text: str) -> None:
    for encoded in (resp.error(text), resp.simple(text)):
        assert encoded[1:].find(b"\r") == encoded.find(b"\n") - 2 == len(encoded) - 3


@given(COMMANDS, st.lists(st.integers(min_value=0, max_value=4000), max_size=6))
@example([[b"GET", b"k"], [b"SET", b"k", b"\r\n*1\r\n$4\r\nPING\r\n"]], [])
def test_a_stream_is_read_the_same_however_it_is_cut(commands: list[list[bytes]], cuts: list[int]) -> None:
    got, reader = read(packed(commands), *cuts)
    assert got == commands
    assert reader.fault is None


@given(COMMANDS)
def test_byte_by_byte(commands: list[list[bytes]]) -> None:
    data = packed(commands)
    assert read(data, *range(len(data)))[0] == commands


@given(COMMANDS)
def test_the_reference_reads_and_writes_the_same(commands: list[list[bytes]]) -> None:
    pack: Callable[[tuple[bytes, ...]], bytes] = hiredis.pack_command  # type: ignore[assignment]
    assert b"".join(pack(tuple(command)) for command in commands) == packed(commands)
    reader = hiredis.Reader()
    reader.feed(packed(commands))
    assert [reader.gets() for _ in commands] == read(packed(commands))[0]


@given(
    st.binary(max_size=200) | st.text(alphabet="*$0123456789\r\nab", max_size=60).map(str.encode), st.integers(0, 200)
)
def test_garbage_is_read_the_same_however_it_is_cut(data: bytes, cut: int) -> None:
    whole, first = read(data)
    parts, second = read(data, cut)
    assert whole == parts
    assert (first.fault is None) == (second.fault is None)


@pytest.mark.parametrize(
    ("data", "kind", "words"),
    [
        (b" PING\r\n", InvalidValue, "expected '*'"),
        (b"P1NG\r\n", InvalidValue, "expected '*', got b'P'"),
        (b"Host: example.com\r\n", InvalidValue, "expected '*', got b'H'"),
        (b"\x16\x03\x01\r\n", InvalidValue, "expected '*'"),
        (b"POST / HTTP/1.1\r\n", InvalidValue, "no HTTP"),
        (b"GET /k HTTP/1.1\r\n", InvalidValue, "no HTTP"),
        (b"SET /k http/1.1\r\nHost: attacker\r\n\r\n", InvalidValue, "no HTTP"),
        (b"SET k 'v'\r\n", InvalidValue, "quotes"),
        (b"ECHO " + b"x" * MAX_INLINE_BYTES, Oversized, "an inline command of more than 1024 bytes"),
        (b"\r\n\rx", InvalidValue, "expected '*'"),
        (b"*x\r\n", InvalidValue, "no length"),
        (b"*-1\r\n", InvalidValue, "no length"),
        (b"*\r\n", InvalidValue, "no length"),
        (b"* 1\r\n", InvalidValue, "no length"),
        (b"*1\r\n:1\r\n", InvalidValue, "expected '$', got b':'"),
        (b"*1\r\n*1\r\n", InvalidValue, "expected '$', got b'*'"),
        (b"*1\r\n$-1\r\n", InvalidValue, "no length"),
        (b"*1\r\n$2\r\nabcd\r\n", InvalidValue, "does not end there"),
        (b"*1\r\n$1" + b"0" * MAX_HEADER_BYTES, InvalidValue, "ten digits"),
        (b"*17\r\n", Oversized, "17 arguments, the limit is 16"),
        (b"*4294967295\r\n", Oversized, "the limit is 16"),
        (b"*1\r\n$2049\r\n", Oversized, "2049 bytes, the limit is 2048"),
        (b"*16\r\n" + resp.bulk(b"x" * 2048) * 4 + b"$1\r\n", Oversized, "more than 8192"),
    ],
)
def test_faults(data: bytes, kind: type[Exception], words: str) -> None:
    """An announced size is refused before a byte of it has come."""
    commands, reader = read(packed([[b"PING"]]) + data)
    assert commands == [[b"PING"]]
    assert isinstance(reader.fault, kind)
    assert words in str(reader.fault)
    assert reader.feed(packed([[b"PING"]])) == []


@pytest.mark.parametrize("line", [b"GET k", b"set k v nx", b"EPOXY.VERSION k", b"info  replication "])
def test_any_command_may_be_a_line(line: bytes) -> None:
    data = line + b"\r\n" + line + b"\n"
    assert read(data, *range(len(data)))[0] == [line.split()] * 2


def test_the_limits_themselves_pass() -> None:
    commands = [[b"x"] * 16, [b"x" * 2048] * 4]
    assert read(packed(commands))[0] == commands


def test_an_empty_array_is_no_command() -> None:
    assert read(b"*0\r\n" + packed([[b"PING"]]) + b"*0\r\n")[0] == [[b"PING"]]


def test_empty_lines_between_commands_are_passed_over() -> None:
    """`redis-cli --pipe` sends one."""
    data = b"\r\n" + packed([[b"PING"]]) + b"\r\n\r\n" + packed([[b"ECHO", b"x"]])
    for cuts in (range(0), range(len(data))):
        commands, reader = read(data, *cuts)
        assert (commands, reader.fault) == ([[b"PING"], [b"ECHO", b"x"]], None)


def test_probes_may_send_a_few_commands_as_text() -> None:
    data = b"PING\r\nping\n\r\n\nauth secret\r\n" + packed([[b"GET", b"k"]]) + b"ECHO  hi \r\nINFO server\r\nQUIT\r\n"
    expected = [[b"PING"], [b"ping"], [b"auth", b"secret"], [b"GET", b"k"], [b"ECHO", b"hi"], [b"INFO", b"server"]]
    for cuts in (range(0), range(len(data))):
        commands, reader = read(data, *cuts)
        assert (commands, reader.fault) == ([*expected, [b"QUIT"]], None)


PASSING = ReaderLimits(arguments=16, argument_bytes=2048, command_bytes=8192, passed_bytes=10_000)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ([b"SET", b"k", b"x" * 5000], b"an argument of 5000 bytes, the limit is 2048"),
        ([b"SET", b"x" * 2049, b"y" * 5000], b"an argument of 2049 bytes, the limit is 2048"),
        ([b"x" * 10_000], b"an argument of 10000 bytes, the limit is 2048"),
        ([b"DEL", *[b"x" * 2000] * 5], b"a command of more than 8192 bytes"),
        ([b"DEL", *[b"k"] * 100], b"101 arguments, the limit is 16"),
    ],
)
def test_a_command_beyond_the_limits_is_passed_over_and_told(command: list[bytes], words: bytes) -> None:
    data = packed([[b"PING"], command, [b"GET", b"k"]])
    for size in (1, 7, 1000, len(data)):
        reader = CommandReader(PASSING)
        read: list[list[bytes]] = []
        for begin in range(0, len(data), size):
            read += reader.feed(data[begin : begin + size])
            assert sum(map(len, reader._pieces)) <= size + PASSING.argument_bytes + MAX_HEADER_BYTES
        assert read == [[b"PING"], [OVERSIZED, words], [b"GET", b"k"]]
        assert read[1][0] is OVERSIZED
        assert reader.at_rest


@pytest.mark.parametrize("data", [b"*1\r\n$10001\r\n", b"*1048577\r\n"])
def test_what_is_too_long_even_to_be_passed_over_is_a_fault(data: bytes) -> None:
    reader = CommandReader(PASSING)
    assert reader.feed(data) == []
    assert isinstance(reader.fault, Oversized)


def test_between_the_pieces_of_what_is_passed_over_nothing_begins() -> None:
    reader = CommandReader(PASSING)
    reader.feed(b"*1\r\n$5000\r\n")
    assert not reader.at_rest


@pytest.mark.parametrize("nothing", [b"*0\r\n", b"\r\n", b"PING\r\n", b"*1\r\n$2\r\n\r\n\r\n"])
def test_reading_takes_time_in_proportion(nothing: bytes) -> None:
    """A hundred times as much takes a hundred times as long, not ten thousand times: nothing copies what is behind."""

    def seconds(data: bytes) -> float:
        began = process_time()
        assert read(data)[1].fault is None
        return process_time() - began

    few = min(seconds(nothing * 1_000) for _ in range(5))
    assert seconds(nothing * 100_000) < 1_000 * max(few, 1e-4)


def test_a_header_cut_between_its_line_ends() -> None:
    assert read(b"*1\r\n$4\r\nPING\r\n", 3, 7, 13)[0] == [[b"PING"]]


def test_limits_that_a_short_command_would_exceed_are_refused() -> None:
    with pytest.raises(AssertionError):
        ReaderLimits(arguments=SHORT_ARGUMENTS - 1, argument_bytes=2048, command_bytes=8192)
