"""Transactions over HTTP, with a node that says what it is told to."""

import msgspec
import pytest

from epoxy.api.http.router import Api
from epoxy.api.metrics import Metrics
from epoxy.model.marks import OWNED
from epoxy.model.transactions import (
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
    TxnOutcome,
    TxnRefused,
    TxnUnknown,
    Wrong,
    WrongEngine,
)
from epoxy.model.writes import ImmutableKey, Path
from tests.api.http.http_bench import Answer, FakeNode, ask, proposal

NOTHING = Executed(succeeded=True, reads=(NO_ROW,))


def post(body: object, outcome: TxnOutcome = NOTHING) -> tuple[FakeNode, Answer]:
    node = FakeNode()
    node.executed = outcome
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    return node, ask(Api(node, Metrics()), "POST", "/v2/txn", data, content_type="application/json")


def test_everything_that_can_be_asked_and_told() -> None:
    asked = {
        "compare": [
            {"key": "a", "value": "1", "absent": True},
            {"key": "b%2Fc", "one_of": ["x", "y"]},
            {"key": "d", "value_base64": "/w=="},
        ],
        "then": [
            {"op": "put", "key": "a", "value": "é"},
            {"op": "add", "key": "n", "amount": -5},
            {"op": "get", "key": "a"},
            {"op": "delete", "key": "d"},
        ],
        "else": [{"op": "put", "key": "a", "value_base64": "/w=="}],
        "reads": ["r"],
    }
    done = (
        Done(value=b"1", version=5),
        Done(value=b"x", wrong=Wrong.NOT_A_NUMBER),
        Done(value="é".encode()),
        Done(value=b"\xff"),
    )
    outcome = Executed(
        succeeded=True,
        compared=tuple(OrderedValue(value=value, version=2) for value in (b"1", b"x", b"\xff")),
        done=done,
        reads=(NO_ROW,),
    )
    node, answer = post(asked, outcome)
    assert node.txns == [
        Txn(
            compares=(
                Compare(key=b"a", values=(b"1",), absent=True),
                Compare(key=b"b/c", values=(b"x", b"y")),
                Compare(key=b"d", values=(b"\xff",)),
            ),
            then=(
                Put(key=b"a", value="é".encode()),
                Add(key=b"n", amount=5, negative=True),
                Get(key=b"a"),
                Delete(key=b"d"),
            ),
            otherwise=(Put(key=b"a", value=b"\xff"),),
            reads=(b"r",),
        )
    ]
    assert answer.status == 200
    assert answer.json() == {
        "succeeded": True,
        "compares": [
            {"key": "a", "value": "1", "value_base64": "MQ==", "version": 2},
            {"key": "b/c", "value": "x", "value_base64": "eA==", "version": 2},
            {"key": "d", "value": None, "value_base64": "/w==", "version": 2},
        ],
        "results": [
            {"op": "put", "key": "a", "value": "1", "value_base64": "MQ==", "version": 5},
            {
                "op": "add",
                "key": "n",
                "value": "x",
                "value_base64": "eA==",
                "version": 0,
                "error": "value is not an integer or out of range",
            },
            {"op": "get", "key": "a", "value": "é", "value_base64": "w6k=", "version": 0},
            {"op": "delete", "key": "d", "value": None, "value_base64": "/w==", "version": 0},
        ],
        "reads": [{"key": "r", "value": None, "value_base64": None, "version": 0}],
    }


@pytest.mark.parametrize(
    ("outcome", "status", "code", "definite"),
    [
        (TxnRefused(reason="full"), 429, "overloaded", True),
        (TxnRefused(reason="alone", no_quorum=True), 503, "no_quorum", True),
        (TxnUnknown(reason="late"), 503, "consensus_failed", False),
        (WrongEngine(keys=(b"a",)), 409, "wrong_engine", True),
    ],
)
def test_failures(outcome: TxnOutcome, status: int, code: str, definite: bool) -> None:
    _, answer = post({"reads": ["a"]}, outcome)
    assert answer.status == status
    assert (answer.error()["code"], answer.error()["definite"]) == (code, definite)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"not json", 400),
        ({}, 400),
        ({"nonsense": 1}, 400),
        ({"compare": [{"key": "a"}]}, 400),
        ({"compare": [{"key": "a", "value": "1", "value_base64": "MQ=="}]}, 400),
        ({"then": [{"op": "put", "key": "a"}]}, 400),
        ({"then": [{"op": "burn", "key": "a"}]}, 400),
        ({"then": [{"op": "add", "key": "a", "amount": 1 << 63}]}, 400),
        ({"reads": [""]}, 400),
        ({"reads": ["%ff"]}, 400),
        ({"reads": ["a" * 1025]}, 400),
        ({"reads": ["a"] * 129}, 413),
        ({"then": [{"op": "put", "key": "a", "value": "x" * (128 << 10)}]}, 413),
    ],
)
def test_what_is_outside_the_contract_is_not_begun(body: object, status: int) -> None:
    node, answer = post(body)
    assert answer.status == status
    assert answer.error()["definite"]
    assert not node.txns


def test_a_key_of_transactions_is_not_written_alone() -> None:
    node = FakeNode()
    node.outcome = ImmutableKey(committed=proposal(OWNED, mutable=False), path=Path.LOCAL)
    answer = ask(Api(node, Metrics()), "PUT", "/v2/kv/k?mode=put", b"v")
    assert answer.status == 409
    assert (answer.json()["error"]["code"], answer.json()["committed"]) == ("wrong_engine", None)


@pytest.mark.parametrize("body", [b"\xff", b'{"reads": ["\xff"]}', b'{"reads":' + b"[" * 100_000, b'{"\xff": 1}'])
def test_bytes_that_are_no_json(body: bytes) -> None:
    node = FakeNode()
    told = ask(Api(node, Metrics()), "POST", "/v2/txn", body, content_type="application/json")
    assert (told.status, told.error()["code"]) == (400, "bad_transaction")
    assert node.txns == []
