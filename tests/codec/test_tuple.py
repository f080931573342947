"""Our tuple keys are FoundationDB's, byte for byte, and sort like the tuples they stand for."""

import enum
import types

import fdb
import fdb.tuple as reference
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from epoxy.codec.tuple import MAX_DEPTH, Item, escape, pack, pack_bytes, strinc, unpack
from epoxy.model.errors import CodecError, InvalidRequest, NonCanonical, Oversized, Truncated, UnknownTag

# The reference looks for the values of a database in its versionstamps; that class comes with the native library, which
# we do without. Nothing is an instance of this one.
fdb.impl = types.SimpleNamespace(Value=type("Value", (), {}))

# From the published specification of the tuple layer: its test cases and worked examples, as far as we have the types.
PUBLISHED: list[tuple[tuple[Item, ...], bytes]] = [
    ((b"foo\x00bar",), b"\x01foo\x00\xffbar\x00"),
    (("F\u00d4O\u0000bar",), b"\x02F\xc3\x94O\x00\xffbar\x00"),
    (((b"foo\x00bar", ()),), b"\x05\x01foo\x00\xffbar\x00\x05\x00\x00"),
    (((),), b"\x05\x00"),
    ((-5551212,), b"\x11\xabK\x93"),
    ((-1,), b"\x13\xfe"),
    ((0,), b"\x14"),
]

INTEGERS = st.integers(-(1 << 70), 1 << 70) | st.builds(
    lambda sign, bits, off: sign * ((1 << bits) + off),
    st.sampled_from((-1, 1)),
    st.integers(0, 2039),
    st.integers(-2, 2),
)
LEAVES: st.SearchStrategy[Item] = (
    st.binary(max_size=6)
    | st.lists(st.sampled_from((b"\x00", b"\xff", b"\x00\xff", b"a")), max_size=4).map(b"".join)
    | st.text(max_size=4)
    | INTEGERS
)
ITEMS: st.SearchStrategy[Item] = st.recursive(
    LEAVES, lambda children: st.lists(children, max_size=3).map(tuple), max_leaves=6
)
TUPLES = st.lists(ITEMS, max_size=4).map(tuple)


@pytest.mark.parametrize(
    ("items", "packed"), PUBLISHED, ids=lambda value: value.hex() if isinstance(value, bytes) else None
)
def test_published_vectors(items: tuple[Item, ...], packed: bytes) -> None:
    assert pack(items) == packed
    assert unpack(packed) == items


@given(TUPLES)
@example(((1 << 64) - 1, 1 - (1 << 64), 1 << 64, -(1 << 64), (1 << 64) - 2))
def test_bytes_are_those_of_the_reference(items: tuple[Item, ...]) -> None:
    assert pack(items) == reference.pack(items)


@given(TUPLES)
def test_unpack_is_the_inverse_of_pack(items: tuple[Item, ...]) -> None:
    back = unpack(pack(items))
    assert back == items
    assert pack(back) == pack(items)
    assert back == reference.unpack(pack(items))


@given(TUPLES, TUPLES)
@example((b"",), (b"\x00",))
@example(((),), ((0,),))
@example((-(1 << 64),), (1 - (1 << 64),))
def test_bytes_sort_like_tuples(one: tuple[Item, ...], other: tuple[Item, ...]) -> None:
    ours = (pack(one) > pack(other)) - (pack(one) < pack(other))
    assert ours == reference.compare(one, other)


@given(st.binary(max_size=40))
@example(b"\x1d\x08" + b"\xff" * 8)
@example(b"\x0b\xf7" + b"\x00" * 8)
def test_what_decodes_is_what_we_would_have_written(data: bytes) -> None:
    try:
        items = unpack(data)
    except CodecError:
        return
    assert pack(items) == data


@given(TUPLES, st.data())
def test_a_cut_tuple_is_a_shorter_tuple_or_refused(items: tuple[Item, ...], data: st.DataObject) -> None:
    packed = pack(items)
    cut = packed[: data.draw(st.integers(0, len(packed)))]
    try:
        assert pack(unpack(cut)) == cut
    except CodecError:
        assert cut != packed


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"\x01abc", Truncated),
        (b"\x01abc\x00\xff", Truncated),
        (b"\x02abc", Truncated),
        (b"\x05\x01a\x00", Truncated),
        (b"\x16\x01", Truncated),
        (b"\x1d", Truncated),
        (b"\x1d\x09\x01", Truncated),
        (b"\x15\x00", NonCanonical),
        (b"\x16\x00\x01", NonCanonical),
        (b"\x12\xff\xfe", NonCanonical),
        (b"\x1c" + b"\xff" * 8, NonCanonical),
        (b"\x1d\x09\x00" + b"\xff" * 8, NonCanonical),
        (b"\x1d\x00", NonCanonical),
        (b"\x0b\xff", NonCanonical),
        (b"\x0b\xf6\xff" + bytes(8), NonCanonical),
        (b"\x02\xff\x00", NonCanonical),
        (b"\x02\xc0\x80\x00", NonCanonical),
        (b"\x00", UnknownTag),
        (b"\x05\x00\xff", UnknownTag),
        (b"\x20\x80\x00\x00\x00", UnknownTag),
        (b"\x21" + bytes(8), UnknownTag),
        (b"\x26", UnknownTag),
        (b"\x33" + bytes(12), UnknownTag),
        (b"\x03", UnknownTag),
        (b"\x04", UnknownTag),
        (b"\x22", UnknownTag),
        (b"\x30" + bytes(16), UnknownTag),
        (b"\xff", UnknownTag),
        (b"\x05" * (MAX_DEPTH + 1), Oversized),
    ],
    ids=lambda value: value.hex() if isinstance(value, bytes) else None,
)
def test_strange_bytes_are_refused_by_name(data: bytes, error: type[CodecError]) -> None:
    with pytest.raises(error):
        unpack(data)
    with pytest.raises(error):
        unpack(pack((b"before", 7)) + data)


def test_nesting_ends_where_decoding_does() -> None:
    deepest: Item = ()
    for _ in range(MAX_DEPTH - 1):
        deepest = (deepest,)
    assert unpack(pack((deepest,))) == (deepest,)
    with pytest.raises(Oversized):
        pack(((deepest,),))


def test_what_has_no_place_in_a_key() -> None:
    with pytest.raises(Oversized):
        pack((1 << 2040,))
    with pytest.raises(CodecError):
        pack(("\ud800",))
    with pytest.raises(TypeError):
        pack(({},))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        pack((True,))


def test_subclasses_pack_like_their_bases() -> None:
    class Code(enum.IntEnum):
        SEVEN = 7
        LARGE = 70_000

    class Name(bytes):
        pass

    assert pack((Code.SEVEN, Code.LARGE, Name(b"n"))) == pack((7, 70_000, b"n"))


@given(st.binary(max_size=20))
def test_the_shortcut_for_bytes(value: bytes) -> None:
    assert pack_bytes(value) == pack((value,)) == b"\x01" + escape(value) + b"\x00"


@given(st.binary(min_size=1, max_size=5).filter(lambda prefix: prefix.strip(b"\xff")), st.binary(max_size=5))
def test_strinc_is_the_first_key_beyond(prefix: bytes, key: bytes) -> None:
    assert prefix + b"\xff" * 9 < strinc(prefix)
    assert (prefix <= key < strinc(prefix)) == key.startswith(prefix)


@pytest.mark.parametrize("prefix", [b"", b"\xff", b"\xff\xff"])
def test_strinc_without_a_key_beyond(prefix: bytes) -> None:
    with pytest.raises(InvalidRequest):
        strinc(prefix)
