"""Transactions as JSON: what clients write, what they get, and what is refused."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.codec.txn_json import MAX_JSON_BYTES, decode_executed, decode_txn, encode_txn, executed_json, in_words
from epoxy.model.errors import CodecError, InvalidValue, Oversized
from epoxy.model.transactions import (
    MAX_PARTS,
    MAX_TRANSACTION_BYTES,
    MOST,
    NO_ROW,
    Add,
    Compare,
    Delete,
    Done,
    Executed,
    Get,
    OrderedValue,
    Put,
    Txn,
    Wrong,
)

KEYS = st.binary(min_size=1, max_size=6)
VALUES = st.binary(max_size=6)
OPERATIONS = st.lists(
    st.builds(Get, key=KEYS)
    | st.builds(Put, key=KEYS, value=VALUES)
    | st.builds(Delete, key=KEYS)
    | st.builds(Add, key=KEYS, amount=st.integers(-MOST, MOST)),
    max_size=3,
).map(tuple)
COMPARES = st.lists(
    st.builds(Compare, key=KEYS, values=st.lists(VALUES, min_size=1, max_size=2).map(tuple), absent=st.booleans()),
    max_size=2,
).map(tuple)
TXNS = st.builds(
    Txn,
    compares=COMPARES,
    then=OPERATIONS,
    otherwise=OPERATIONS,
    reads=st.lists(KEYS, min_size=1, max_size=2).map(tuple),
)


@given(TXNS)
def test_what_a_client_encodes_is_what_the_node_reads(txn: Txn) -> None:
    assert decode_txn(encode_txn(txn)) == txn


def test_the_spellings_of_keys_and_values() -> None:
    text = {
        "compare": [{"key": "a%2Fb", "value": "1", "one_of": ["2"], "one_of_base64": ["Aw=="], "absent": True}],
        "then": [{"op": "put", "key": "k", "value_base64": "AP8="}, {"op": "add", "key": "n", "amount": -5}],
        "else": [{"op": "get", "key": "k"}, {"op": "delete", "key": "k"}],
        "reads": ["%00"],
    }
    assert decode_txn(json.dumps(text).encode()) == Txn(
        compares=(Compare(key=b"a/b", values=(b"1", b"2", b"\x03"), absent=True),),
        then=(Put(key=b"k", value=b"\x00\xff"), Add(key=b"n", amount=5, negative=True)),
        otherwise=(Get(key=b"k"), Delete(key=b"k")),
        reads=(b"\x00",),
    )


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ({}, InvalidValue, "at least one key"),
        ({"reads": [""]}, InvalidValue, "1 to 1024 bytes"),
        ({"reads": ["k"] * (MAX_PARTS + 1)}, Oversized, "at most 128"),
        ({"then": [{"op": "put", "key": "k"}]}, InvalidValue, "a put has a value: 'k'"),
        ({"then": [{"op": "put", "key": "k", "value": "v", "value_base64": "dg=="}]}, InvalidValue, "not both"),
        ({"then": [{"op": "add", "key": "k", "amount": MOST + 1}]}, InvalidValue, "63 bits: 'k'"),
        ({"then": [{"op": "swap", "key": "k"}]}, InvalidValue, "swap"),
        ({"then": [{"op": "get", "key": "k", "extra": 1}]}, InvalidValue, "extra"),
        ({"compare": [{"key": "k"}]}, InvalidValue, "value, one_of, a version or absent: 'k'"),
        ({"compare": [{"key": "k", "one_of": ["v"] * (MAX_PARTS + 1)}]}, Oversized, "at most 128 values"),
        ({"then": [{"op": "put", "key": "k", "value": "v" * MAX_TRANSACTION_BYTES}]}, Oversized, "here are 131073"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_refused_and_why(text: object, error: type[CodecError], message: str) -> None:
    with pytest.raises(error, match=message):
        decode_txn(json.dumps(text).encode())


def test_too_much_json_is_not_even_parsed() -> None:
    with pytest.raises(Oversized, match="bytes of JSON"):
        decode_txn(b"{" * (MAX_JSON_BYTES + 1))


TXN = Txn(
    compares=(Compare(key=b"c", absent=True),),
    then=(Get(key=b"k"), Add(key=b"\xff", amount=1)),
    otherwise=(Delete(key=b"k"),),
    reads=(b"r",),
)
SUCCEEDED = Executed(
    succeeded=True,
    compared=(NO_ROW,),
    done=(Done(value=b"\xff", version=6), Done(value=b"x", version=2, wrong=Wrong.NOT_A_NUMBER)),
    reads=(OrderedValue(value=b"text", version=4),),
)


def test_a_result_names_operations_keys_values_and_errors() -> None:
    shown = json.loads(msgspec.json.encode(executed_json(TXN, SUCCEEDED)))
    assert shown == {
        "succeeded": True,
        "compares": [{"key": "c", "value": None, "value_base64": None, "version": 0}],
        "results": [
            {"op": "get", "key": "k", "value": None, "value_base64": "/w==", "version": 6},
            {
                "op": "add",
                "key": "%FF",
                "value": "x",
                "value_base64": "eA==",
                "version": 2,
                "error": Wrong.NOT_A_NUMBER.value,
            },
        ],
        "reads": [{"key": "r", "value": "text", "value_base64": "dGV4dA==", "version": 4}],
    }


@pytest.mark.parametrize(
    "executed",
    [
        SUCCEEDED,
        Executed(
            succeeded=False, compared=(OrderedValue(value=b"1", version=2),), done=(Done(value=None),), reads=(NO_ROW,)
        ),
    ],
)
def test_a_client_reads_the_result_back(executed: Executed) -> None:
    assert decode_executed(msgspec.json.encode(executed_json(TXN, executed))) == executed


@pytest.mark.parametrize("data", [b"", b"[]", b'{"succeeded": true}', b"\xff"])
def test_what_is_no_result(data: bytes) -> None:
    with pytest.raises(CodecError):
        decode_executed(data)


def test_an_error_that_no_node_reports() -> None:
    data = msgspec.json.encode(executed_json(TXN, SUCCEEDED)).replace(Wrong.NOT_A_NUMBER.value.encode(), b"?")
    with pytest.raises(CodecError, match="not the result of a transaction"):
        decode_executed(data)


def test_values_on_a_terminal() -> None:
    assert [in_words(value) for value in (None, b"", b"text", b"\xff")] == ["(absent)", "", "text", "base64:/w=="]
