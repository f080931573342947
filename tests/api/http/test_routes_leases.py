"""GET /v2/leases: pages, bounds, and whose keys they show."""

from collections.abc import Iterator

import pytest

from epoxy.api.http.router import Api
from epoxy.api.http.routes_leases import SHOWN_OF_VALUE, LeaseRoutes, beginning
from epoxy.api.metrics import Metrics
from epoxy.model.access import AccessRole
from epoxy.model.sessions import session_key
from epoxy.model.writes import Write
from tests.api.http.access_bench import GuardedNode, bearer
from tests.api.http.http_bench import Answer, Cluster, ask, running
from tests.node.keys.test_leases import HERE, SESSION, write
from tests.node.keys.virtual_wan import VirtualWan

LONG = "é".encode() * SHOWN_OF_VALUE
READER, NARROW, CALLER = 1, 2, 3


class LeaseApi:
    """The leases of a replica in virtual time, behind a node that asks for tokens."""

    def __init__(self) -> None:
        wan = VirtualWan(5)
        here = wan.by_name[HERE]
        values = {b"job/1": b"ada", b"job/2": LONG, b"job/3": b"\xff\x00", b"lock/x": b"bob"}
        for key, value in values.items():
            write(wan, HERE, Write(key=key, value=value, mutable=True, ttl_ms=600_000))
        write(wan, HERE, Write(key=session_key(SESSION), value=b"", mutable=True, ttl_ms=600_000))
        write(wan, HERE, Write(key=b"job/4", value=b"cy", mutable=True, session=SESSION))
        node = GuardedNode()
        node.give(READER, AccessRole.READER)
        node.give(NARROW, AccessRole.WRITER, prefixes=(b"job/",))
        node.give(CALLER, AccessRole.CALLER)
        routes = LeaseRoutes(here.driver.leases, lambda key: here.replica.peek(key, use_cache=False))
        self._api = Api(node, Metrics(), more=routes.table())

    def get(self, query: str = "", by: int = READER) -> Answer:
        return ask(self._api, "GET", f"/v2/leases{query}", authorization=bearer(by))


@pytest.fixture(scope="module")
def leases() -> LeaseApi:
    return LeaseApi()


def test_a_row_tells_token_time_and_holder(leases: LeaseApi) -> None:
    page = leases.get().json()
    assert [row["key"] for row in page["leases"]] == ["job/1", "job/2", "job/3", "job/4", "lock/x"]
    first = page["leases"][0]
    assert 0 < first.pop("remaining") < 600_000
    assert first == {
        "key": "job/1",
        "version": 1,
        "ttl": 600_000,
        "over": False,
        "value": "ada",
        "value_bytes": 3,
        "cut": False,
    }
    assert page["leases"][3]["session"] == SESSION.hex()
    assert "ttl" not in page["leases"][3]
    assert page["next"] is None
    assert page["totals"] == {"leases": 5, "sessions": 1, "ended": 0, "late_ms": 0.0}


def test_long_values_are_cut_and_bytes_that_are_no_text_are_not_shown(leases: LeaseApi) -> None:
    _, long, raw, *_ = leases.get().json()["leases"]
    assert (long["cut"], long["value_bytes"]) == (True, len(LONG))
    assert long["value"] == "é" * (SHOWN_OF_VALUE // 2)
    assert (raw["value"], raw["value_bytes"], raw["cut"]) == (None, 2, False)


def test_a_letter_that_is_cut_in_two_is_left_out() -> None:
    assert beginning(b"x" * (SHOWN_OF_VALUE - 1) + "é".encode()) == "x" * (SHOWN_OF_VALUE - 1)


def test_pages_follow_each_other(leases: LeaseApi) -> None:
    first = leases.get("?limit=2&prefix=job/").json()
    assert ([row["key"] for row in first["leases"]], first["next"]) == (["job/1", "job/2"], "job/2")
    rest = leases.get(f"?limit=9&prefix=job/&after={first['next']}").json()
    assert ([row["key"] for row in rest["leases"]], rest["next"]) == (["job/3", "job/4"], None)


@pytest.mark.parametrize("query", ["?limit=0", "?limit=1001", "?limit=x", "?prefixes=a", f"?prefix={'p' * 1025}"])
def test_what_is_outside_the_contract_is_refused(leases: LeaseApi, query: str) -> None:
    assert (leases.get(query).status, leases.get(query).error()["code"]) == (400, "bad_parameter")


def test_a_grant_with_a_prefix_lists_that_prefix_alone_and_gets_no_totals(leases: LeaseApi) -> None:
    page = leases.get("?prefix=job/", by=NARROW).json()
    assert [row["key"] for row in page["leases"]] == ["job/1", "job/2", "job/3", "job/4"]
    assert page["totals"] is None
    wide = leases.get(by=NARROW)
    assert (wide.status, wide.error()["code"]) == (403, "forbidden")
    assert "job/" in wide.error()["message"]
    assert leases.get("?prefix=lock/", by=NARROW).status == 403
    assert leases.get(by=CALLER).status == 403


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running() as cluster:
        yield cluster


def test_a_lease_at_every_node_of_a_cluster(cluster: Cluster) -> None:
    here, there, _ = cluster.served
    taken = here.ask("PUT", "/v2/kv/lock%2Fdeploy?mode=put&if_absent=true&ttl=600000", b"ada")
    assert taken.status == 201
    moved = here.ask(
        "POST", "/v2/txn", b'{"then": [{"op": "put", "key": "of-txn", "value": "v", "ttl": 600000}]}',
        content_type="application/json",
    )  # fmt: skip
    assert moved.status == 200
    for node in (here, there):
        while len(rows := node.ask("GET", "/v2/leases").json()["leases"]) < 2:
            pass
        assert [(row["key"], row["value"], row.get("engine")) for row in rows] == [
            ("lock/deploy", "ada", None),
            ("of-txn", "v", "transactions"),
        ]
        assert rows[0]["version"] == int(taken.headers["epoxy-version"])
