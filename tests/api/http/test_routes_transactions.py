"""GET /v2/transactions: the engine in words, the last transactions, and whose keys are shown."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from epoxy.api.http.router import Api
from epoxy.api.http.routes_transactions import MEANINGS, TransactionRoutes
from epoxy.api.metrics import Metrics
from epoxy.model.access import AccessRole
from epoxy.model.api_txn import MAX_WATCHED
from epoxy.model.transactions import Put, Txn
from epoxy.node.service import Node
from epoxy.protocol.txn.terms import Part
from tests.api.http.access_bench import GuardedNode, bearer
from tests.api.http.http_bench import Answer, ask, running
from tests.node.txn.test_engine import Cluster

READER, NARROW, OPERATOR = 1, 2, 3


class FeedApi:
    """One of three engines in virtual time, behind a node that asks for tokens."""

    def __init__(self) -> None:
        self.cluster = Cluster(3)
        engine_node = self.cluster.nodes[1]
        node = GuardedNode()
        node.give(READER, AccessRole.READER)
        node.give(NARROW, AccessRole.READER, prefixes=(b"a/",))
        node.give(OPERATOR, AccessRole.OPERATOR)
        seen = SimpleNamespace(
            ordered=engine_node.engine,
            transactions=engine_node.transactions,
            clock=engine_node,
            replica=node.replica,
            links=SimpleNamespace(rtt_ms=lambda peer: 10.0 * peer, reachable=lambda _: True),
            me=1,
            datacenter_of=node.datacenter_of,
        )
        self._api = Api(node, Metrics(), more=TransactionRoutes(cast(Node, seen)).table())

    def get(self, query: str = "", by: int = READER) -> Answer:
        return ask(self._api, "GET", f"/v2/transactions{query}", authorization=bearer(by))

    def feed(self, by: int = READER) -> Any:
        return self.get(by=by).json()

    def put(self, *keys: bytes) -> None:
        self.cluster.txn(1, Txn(then=tuple(Put(key=key, value=b"v") for key in keys)))


def test_the_engine_is_told_in_words() -> None:
    api = FeedApi()
    api.cluster.run(1_000)
    api.put(b"k")
    state = api.feed()["engine"]
    assert (state["state"], state["open"], state["meaning"]) == ("open", True, MEANINGS["open"])
    assert (state["floor_ms"], state["behind"], state["in_flight"], state["executed"]) == (20.0, 0, 0, 1)
    assert (state["fast_share"], state["kept_for"], state["refused"]) == (1.0, [], 0)


def test_every_state_has_a_meaning() -> None:
    assert {part.value for part in Part} | {"asking", "catching-up"} == MEANINGS.keys()


def test_transactions_are_kept_from_the_first_look_on() -> None:
    api = FeedApi()
    api.put(b"before")
    assert api.feed()["transactions"] == []
    api.put(b"a/1", b"b/%00")
    (kept,) = api.feed()["transactions"]
    assert (kept["keys"], kept["more_keys"], kept["writes"]) == (["a/1", "b/%25" + "00"], 0, True)
    assert (kept["outcome"], kept["path"], kept["reason"]) == ("committed", "fast", "")
    assert 0 < kept["waited_ms"] < kept["took_ms"] < kept["ago_ms"]


def test_a_client_sees_the_keys_it_may_read_and_no_transaction_without_one() -> None:
    api = FeedApi()
    api.feed()
    api.put(b"a/1", b"b/1")
    api.put(b"b/2")
    wide, narrow, operator = api.feed(), api.feed(NARROW), api.feed(OPERATOR)
    assert [each["keys"] for each in wide["transactions"]] == [["b/2"], ["a/1", "b/1"]]
    assert [(each["keys"], each["more_keys"]) for each in narrow["transactions"]] == [(["a/1"], 1)]
    assert (wide["left_out"], narrow["left_out"]) == (0, 1)
    assert (operator["transactions"], operator["left_out"]) == ([], 2), "an operator has no part in the data"
    assert operator["engine"]["open"]


def test_how_many_are_answered_is_bounded() -> None:
    api = FeedApi()
    api.feed()
    for number in range(3):
        api.put(b"k%d" % number)
    assert [each["keys"] for each in api.get("?limit=2").json()["transactions"]] == [["k2"], ["k1"]]
    for limit in ("0", str(MAX_WATCHED + 1), "x"):
        assert api.get(f"?limit={limit}").error()["code"] == "bad_parameter"


def test_it_is_not_for_strangers() -> None:
    assert FeedApi().get(by=9).status == 401


@pytest.mark.parametrize(("expected", "outcome"), [("1", "committed"), ("2", "condition_failed")])
def test_a_real_node_tells_whether_the_condition_held(expected: str, outcome: str) -> None:
    with running() as cluster:
        here = cluster.served[0]

        def order(document: dict[str, Any]) -> None:
            body = msgspec.json.encode(document)
            assert here.ask("POST", "/v2/txn", body, content_type="application/json").status == 200

        def put(value: str) -> list[dict[str, str]]:
            return [{"op": "put", "key": "k", "value": value}]

        assert here.ask("GET", "/v2/transactions").json()["transactions"] == []
        order({"then": put("1")})
        order({"compare": [{"key": "k", "value": expected}], "then": put("2")})
        newest, _ = here.ask("GET", "/v2/transactions").json()["transactions"]
        assert newest["outcome"] == outcome
