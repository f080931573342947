"""Literal bytes, both ways."""

from collections.abc import Callable
from typing import Any, get_args

import pytest

from epoxy.codec import bare
from epoxy.model.members import MemberReply, MemberRequest
from epoxy.model.messages import Reply, Request
from tests.codec.golden import VALUES, read_golden
from tests.codec.strategies import FORMATS

BYTES = read_golden()

PRIMITIVES: dict[str, tuple[Callable[[list[bytes], Any], None], Callable[[bytes, int], tuple[Any, int]]]] = {
    "uint": (lambda out, value: out.append(bare.uint(value)), bare.decode_uint),
    "u32": (
        lambda out, value: bare.encode_unsigned(out, value, 4),
        lambda data, at: (int.from_bytes(data[at:], "little"), at + 4),
    ),
    "u64": (
        lambda out, value: bare.encode_unsigned(out, value, 8),
        lambda data, at: (int.from_bytes(data[at:], "little"), at + 8),
    ),
    "str": (lambda out, value: bare.encode_str(out, value, 0, 9), lambda data, at: bare.decode_str(data, at, 0, 9)),
    "data": (lambda out, value: bare.encode_data(out, value, 0, 9), lambda data, at: bare.decode_data(data, at, 0, 9)),
}


def encode(name: str) -> bytes:
    kind = name.split()[0]
    if kind in FORMATS:
        return FORMATS[kind].encode(VALUES[name])
    out: list[bytes] = []
    PRIMITIVES[kind][0](out, VALUES[name])
    return b"".join(out)


def decode(name: str) -> Any:
    kind = name.split()[0]
    if kind in FORMATS:
        return FORMATS[kind].decode(BYTES[name])
    value, position = PRIMITIVES[kind][1](BYTES[name], 0)
    assert position == len(BYTES[name])
    return value


@pytest.mark.parametrize("name", VALUES)
def test_values_become_the_bytes_written_down(name: str) -> None:
    assert encode(name).hex(" ") == BYTES[name].hex(" ")


@pytest.mark.parametrize("name", VALUES)
def test_the_bytes_written_down_become_values(name: str) -> None:
    assert decode(name) == VALUES[name]


def test_file_and_values_name_the_same_examples() -> None:
    assert list(BYTES) == list(VALUES)


def test_every_format_and_every_message_has_an_example() -> None:
    assert {name.split()[0] for name in BYTES} == set(FORMATS) | set(PRIMITIVES)
    shown = {type(value) for value in VALUES.values()}
    assert {*get_args(Request), *get_args(Reply), *get_args(MemberRequest), *get_args(MemberReply)} <= shown
