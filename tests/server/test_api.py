"""The HTTP door with a node that says what it is told to: every status, every header, every error, literally."""

from collections.abc import Callable
from typing import Any

import pytest

from epoxy.model.records import Proposal
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    Consistency,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NothingToDelete,
    Outcome,
    Path,
    ReadFailed,
    ReadResult,
    Refused,
    Source,
    VersionMismatch,
    Write,
)
from epoxy.node.standing import STARTING
from epoxy.server.api import Api, build_api
from epoxy.server.metrics import Metrics
from epoxy.server.routes_status import MAX_INSPECTIONS
from epoxy.transport.exchange import Exchange
from tests.server.http_bench import Answer, FakeNode, Wire, ask, proposal, request

JSON = "application/json"


class Door:
    def __init__(self) -> None:
        self.node = FakeNode()
        self.metrics = Metrics()
        self.api: Api = build_api(self.node, self.metrics)

    def ask(self, method: str, target: str, body: bytes | None = None, **headers: str) -> Answer:
        return ask(self.api, method, target, body, **headers)

    def write(self, outcome: Outcome, target: str = "/v2/kv/k", method: str = "PUT", **headers: str) -> Answer:
        self.node.outcome = outcome
        return self.ask(method, target, b"v" if method == "PUT" else None, **headers)


@pytest.fixture
def door() -> Door:
    return Door()


def ours(answer: Answer) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("epoxy-")}


def told(code: str, message: str, **more: Any) -> dict[str, Any]:
    return {"code": code, "message": message, "definite": True} | more


def won(**more: Any) -> Committed:
    return Committed(proposal=proposal(), mine=True, path=Path.FAST, **more)


# What the node is asked


@pytest.mark.parametrize(
    ("target", "key"),
    [
        ("/v2/kv/k", b"k"),
        ("/v2/kv/user/ada", b"user/ada"),
        ("/v2/kv/user%2Fada", b"user/ada"),
        ("/v2/kv/%00%ff+%25", b"\x00\xff+%"),
        ("/v2/kv/\xe9", b"\xe9"),
        ("/v2/kv/" + "k" * 1024, b"k" * 1024),
        ("/v2/kv//", b"/"),
    ],
)
def test_a_key_is_the_rest_of_the_path(door: Door, target: str, key: bytes) -> None:
    door.write(won(), target)
    assert door.node.writes == [Write(key=key, value=b"v")]


@pytest.mark.parametrize(
    ("target", "headers", "write"),
    [
        ("", {}, Write(key=b"k", value=b"v")),
        ("?mode=reserve", {}, Write(key=b"k", value=b"v")),
        ("?mode=put", {}, Write(key=b"k", value=b"v", mutable=True)),
        ("?", {"epoxy_mode": "put"}, Write(key=b"k", value=b"v", mutable=True)),
        ("", {"mode": "put"}, Write(key=b"k", value=b"v", mutable=True)),
        ("?mode=put", {"epoxy_mode": "put"}, Write(key=b"k", value=b"v", mutable=True)),
        ("?mode=put&if_version=0", {}, Write(key=b"k", value=b"v", mutable=True, if_version=0)),
        (
            "?if_version=18446744073709551615&mode=put",
            {},
            Write(key=b"k", value=b"v", mutable=True, if_version=2**64 - 1),
        ),
        ("?&m%6Fde=p%75t&", {}, Write(key=b"k", value=b"v", mutable=True)),
    ],
)
def test_modes_and_conditions(door: Door, target: str, headers: dict[str, str], write: Write) -> None:
    door.write(won(), f"/v2/kv/k{target}", **headers)
    assert door.node.writes == [write]


def test_an_empty_value_is_a_value(door: Door) -> None:
    door.node.outcome = won()
    assert door.ask("PUT", "/v2/kv/k", b"").status == 201
    assert door.ask("PUT", "/v2/kv/k", transfer_encoding="chunked").status == 201
    assert [write.value for write in door.node.writes] == [b"", b""]


@pytest.mark.parametrize(("target", "if_version"), [("", None), ("?if_version=3", 3)])
def test_delete_writes_a_tombstone(door: Door, target: str, if_version: int | None) -> None:
    door.write(won(), f"/v2/kv/k{target}", "DELETE")
    assert door.node.writes == [Write(key=b"k", value=None, mutable=True, if_version=if_version)]


# What a writer is told


@pytest.mark.parametrize(
    ("outcome", "status", "version", "mutable", "mine"),
    [
        (won(), 201, "1", "false", "true"),
        (Committed(proposal=proposal(), mine=False, path=Path.FAST), 200, "1", "false", "false"),
        (Committed(proposal=proposal(b"v", 1, mutable=True), mine=True, path=Path.FAST), 201, "1", "true", "true"),
        (
            Committed(
                proposal=proposal(b"v", 5, mutable=True),
                mine=True,
                path=Path.FAST,
                previous=proposal(b"u", 4, mutable=True),
            ),
            200,
            "5",
            "true",
            "true",
        ),
        (
            Committed(proposal=proposal(b"v", 5), mine=True, path=Path.FAST, previous=proposal(None, 4, mutable=True)),
            201,
            "5",
            "false",
            "true",
        ),
    ],
)
def test_committed(door: Door, outcome: Committed, status: int, version: str, mutable: str, mine: str) -> None:
    answer = door.write(outcome)
    assert (answer.status, answer.body) == (status, b"")
    assert ours(answer) == {
        "epoxy-version": version,
        "epoxy-mutable": mutable,
        "epoxy-path": "fast",
        "epoxy-mine": mine,
    }


def test_committed_as_json(door: Door) -> None:
    answer = door.write(won(), "/v2/kv/user/%C3%A9%00", accept=f"text/html, {JSON};q=0.9")
    assert answer.status == 201
    assert answer.json() == {
        "key": "user/%C3%A9%00",
        "value": "v",
        "value_base64": "dg==",
        "version": 1,
        "mutable": False,
        "deleted": False,
        "mine": True,
        "path": "fast",
    }


@pytest.mark.parametrize("path", list(Path))
def test_the_path_is_named(door: Door, path: Path) -> None:
    outcome = Committed(proposal=proposal(), mine=False, path=path)
    assert door.write(outcome).headers["epoxy-path"] == path.value


CONFLICTS: list[tuple[Outcome, str, str, Proposal | None]] = [
    (
        ExpectedValueDoesNotMatch(committed=proposal(b"other"), path=Path.LOCAL),
        "taken",
        "the name is held by another value",
        proposal(b"other"),
    ),
    (
        ImmutableKey(committed=proposal(b"kept"), path=Path.LOCAL),
        "immutable",
        "the name is reserved, for ever",
        proposal(b"kept"),
    ),
    (
        VersionMismatch(committed=proposal(b"newer", 9, mutable=True), path=Path.LOCAL),
        "version_mismatch",
        "if_version is not the committed version",
        proposal(b"newer", 9, mutable=True),
    ),
    (
        VersionMismatch(committed=proposal(None, 9, mutable=True), path=Path.LOCAL),
        "version_mismatch",
        "if_version is not the committed version",
        proposal(None, 9, mutable=True),
    ),
    (
        VersionMismatch(committed=None, path=Path.LOCAL),
        "version_mismatch",
        "if_version is not the committed version",
        None,
    ),
]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize(("outcome", "code", "message", "there"), CONFLICTS)
def test_a_conflict_brings_what_is_there(
    door: Door, method: str, outcome: Outcome, code: str, message: str, there: Proposal | None
) -> None:
    answer = door.write(outcome, method=method)
    about = {"epoxy-version": str(there.version), "epoxy-mutable": str(there.mutable).lower()} if there else {}
    assert (answer.status, answer.body) == (409, (there.value if there else None) or b"")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert ours(answer) == {"epoxy-error": code, "epoxy-path": "local", "epoxy-mine": "false"} | about

    answer = door.write(outcome, method=method, accept=JSON)
    assert answer.status == 409
    assert ours(answer) == {"epoxy-error": code, "epoxy-path": "local", "epoxy-mine": "false"} | about
    assert answer.json()["error"] == told(code, message)
    committed = answer.json()["committed"]
    assert (committed and (committed["value"], committed["version"], committed["deleted"])) == (
        there
        and ((there.value or b"").decode() if there.value is not None else None, there.version, there.is_tombstone)
    )


def test_nothing_to_delete(door: Door) -> None:
    answer = door.write(NothingToDelete(committed=None, path=Path.SLOW), method="DELETE")
    assert answer.status == 404
    assert answer.error() == told("not_found", "there is nothing to delete under this key")
    assert ours(answer) == {"epoxy-error": "not_found", "epoxy-path": "slow", "epoxy-mine": "false"}
    tombstone = proposal(None, 4, mutable=True)
    answer = door.write(NothingToDelete(committed=tombstone, path=Path.SLOW), method="DELETE", accept=JSON)
    assert answer.status == 404
    assert answer.headers["epoxy-version"] == "4"


def test_a_deleted_key(door: Door) -> None:
    outcome = Committed(
        proposal=proposal(None, 2, mutable=True), mine=True, path=Path.SLOW, previous=proposal(b"v", 1, mutable=True)
    )
    answer = door.write(outcome, method="DELETE")
    assert (answer.status, answer.body, answer.headers["epoxy-version"]) == (200, b"", "2")
    answer = door.write(outcome, method="DELETE", accept=JSON)
    assert answer.json() == {
        "key": "k",
        "value": None,
        "value_base64": None,
        "version": 2,
        "mutable": True,
        "deleted": True,
        "mine": True,
        "path": "slow",
    }


def test_an_unknown_outcome_is_not_definite(door: Door) -> None:
    answer = door.write(ConsensusFailed(reason="no quorum after 10 retries"))
    assert answer.status == 503
    words = "the outcome is unknown: no quorum after 10 retries. The write may still take effect"
    assert answer.error() == told("consensus_failed", words, definite=False)
    assert "retry-after" not in answer.headers


def test_turned_away_at_the_door(door: Door) -> None:
    answer = door.write(Refused(reason="256 writes are waiting for this key already"))
    assert answer.status == 429
    words = "turned away: 256 writes are waiting for this key already"
    assert answer.error() == told("overloaded", words, retry_after_ms=1000)
    assert answer.headers["retry-after"] == "1"


# What a reader is told


def test_a_value_known_here_is_answered_at_once(door: Door) -> None:
    door.node.here = ReadResult(committed=proposal(b"\x00\xff", 0), source=Source.LEGACY)
    answer = door.ask("GET", "/v2/kv/k")
    assert (answer.status, answer.body) == (200, b"\x00\xff")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert ours(answer) == {"epoxy-version": "0", "epoxy-mutable": "false", "epoxy-source": "legacy"}
    assert door.node.reads == []


def test_a_value_as_json(door: Door) -> None:
    door.node.here = ReadResult(committed=proposal(b"\x00\xff", 3, mutable=True), source=Source.CACHE)
    answer = door.ask("GET", "/v2/kv/k", accept=JSON)
    assert answer.json() == {
        "key": "k",
        "value": None,
        "value_base64": "AP8=",
        "version": 3,
        "mutable": True,
        "deleted": False,
        "source": "cache",
    }


@pytest.mark.parametrize("source", list(Source))
def test_the_source_is_named(door: Door, source: Source) -> None:
    door.node.reading = ReadResult(committed=proposal(), source=source)
    assert door.ask("GET", "/v2/kv/k").headers["epoxy-source"] == source.value


@pytest.mark.parametrize(
    ("here", "query", "asked"),
    [
        (None, "", Consistency.OPTIMISTIC),
        (None, "?read=optimistic", Consistency.OPTIMISTIC),
        (None, "?read=skip_cache", Consistency.SKIP_CACHE),
        (None, "?read=linearizable", Consistency.LINEARIZABLE),
        (Source.CACHE, "?read=optimistic", None),
        (Source.CACHE, "?read=skip_cache", Consistency.SKIP_CACHE),
        (Source.CACHE, "?read=linearizable", Consistency.LINEARIZABLE),
        (Source.LOCAL, "?read=skip_cache", None),
        (Source.LOCAL, "?read=linearizable", Consistency.LINEARIZABLE),
    ],
)
def test_others_are_asked_when_they_must_be(
    door: Door, here: Source | None, query: str, asked: Consistency | None
) -> None:
    door.node.here = ReadResult(committed=proposal(), source=here) if here is not None else None
    door.node.reading = ReadResult(committed=proposal(), source=Source.QUORUM)
    assert door.ask("GET", f"/v2/kv/k{query}").status == 200
    assert door.node.reads == ([(b"k", asked)] if asked is not None else [])


def test_absent(door: Door) -> None:
    door.node.reading = ReadResult(committed=None, source=Source.REMOTE)
    answer = door.ask("GET", "/v2/kv/k")
    assert answer.status == 404
    assert answer.error() == told("not_found", "no value is committed under this key")
    assert ours(answer) == {"epoxy-error": "not_found", "epoxy-source": "remote"}


def test_deleted_is_absent_with_a_version(door: Door) -> None:
    door.node.here = ReadResult(committed=proposal(None, 7, mutable=True), source=Source.LOCAL)
    answer = door.ask("GET", "/v2/kv/k")
    assert answer.status == 404
    assert answer.error()["code"] == "not_found"
    assert ours(answer) == {
        "epoxy-error": "not_found",
        "epoxy-source": "local",
        "epoxy-version": "7",
        "epoxy-mutable": "true",
    }


def test_too_few_to_say(door: Door) -> None:
    door.node.reading = ReadFailed(reason="only 1 of 3 replicas answered")
    answer = door.ask("GET", "/v2/kv/k")
    assert answer.status == 503
    assert answer.error() == told("read_failed", "only 1 of 3 replicas answered", retry_after_ms=1000)


def test_a_read_that_is_one_too_many(door: Door) -> None:
    door.node.reading = Refused(reason="2000 reads are asking other regions already")
    answer = door.ask("GET", "/v2/kv/k")
    assert answer.status == 429
    words = "turned away: 2000 reads are asking other regions already"
    assert answer.error() == told("overloaded", words, retry_after_ms=1000)
    assert answer.headers["retry-after"] == "1"


def test_head_is_get_without_the_body(door: Door) -> None:
    door.node.here = ReadResult(committed=proposal(b"four"), source=Source.LOCAL)
    answer = door.ask("HEAD", "/v2/kv/k")
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b"", "4")
    assert answer.headers["epoxy-version"] == "1"


# What is refused


@pytest.mark.parametrize(
    ("method", "target", "code", "message"),
    [
        ("GET", "/v2/kv/", "bad_key", "a key has 1 to 1024 bytes, not 0"),
        ("PUT", "/v2/kv/" + "k" * 1025, "bad_key", "a key has 1 to 1024 bytes, not 1025"),
        ("DELETE", "/v2/kv/" + "%00" * 1025, "bad_key", "a key has 1 to 1024 bytes, not 1025"),
        ("GET", "/v2/inspect/", "bad_key", "a key has 1 to 1024 bytes, not 0"),
        ("PUT", "/v2/kv/%FF/config", "bad_key", "keys that begin with the byte ff are the cluster's own"),
        (
            "GET",
            "/v2/kv/100%",
            "bad_encoding",
            "'%' is not a percent sign and two hexadecimal digits; write % as %25",
        ),
        (
            "PUT",
            "/v2/kv/%zz",
            "bad_encoding",
            "'%zz' is not a percent sign and two hexadecimal digits; write % as %25",
        ),
        (
            "GET",
            "/v2/kv?prefix=%\xe9\x01",
            "bad_encoding",
            "'%\\xe9\\x01' is not a percent sign and two hexadecimal digits; write % as %25",
        ),
        ("PUT", "/v2/kv/k?mode=set", "bad_parameter", "mode is one of reserve, put, not 'set'"),
        ("PUT", "/v2/kv/k?mode=", "bad_parameter", "mode is one of reserve, put, not ''"),
        (
            "PUT",
            "/v2/kv/k?if-version=1",
            "bad_parameter",
            "unknown parameter 'if-version'; there are: if_version, mode",
        ),
        ("PUT", "/v2/kv/k?mode=put&mode=put", "bad_parameter", "'mode' is given twice"),
        ("GET", "/v2/kv/k?mode=put", "bad_parameter", "unknown parameter 'mode'; there are: read"),
        ("GET", "/v2/status?x=1", "bad_parameter", "unknown parameter 'x'; there are: none"),
        (
            "PUT",
            "/v2/kv/k?if_version=1",
            "bad_parameter",
            "if_version belongs to mode=put: a reserved name has one version",
        ),
        (
            "PUT",
            "/v2/kv/k?mode=put&if_version=one",
            "bad_parameter",
            "if_version is a number from 0 to 18446744073709551615, not 'one'",
        ),
        (
            "PUT",
            "/v2/kv/k?mode=put&if_version=18446744073709551616",
            "bad_parameter",
            "if_version is a number from 0 to 18446744073709551615, not '18446744073709551616'",
        ),
        (
            "DELETE",
            "/v2/kv/k?if_version=-1",
            "bad_parameter",
            "if_version is a number from 0 to 18446744073709551615, not '-1'",
        ),
        (
            "DELETE",
            "/v2/kv/k?if_version=",
            "bad_parameter",
            "if_version is a number from 0 to 18446744073709551615, not ''",
        ),
        (
            "GET",
            "/v2/kv/k?read=fast",
            "bad_parameter",
            "read is one of optimistic, skip_cache, linearizable, not 'fast'",
        ),
        ("GET", "/v2/kv?limit=0", "bad_parameter", "limit is a number from 1 to 1000, not '0'"),
        ("GET", "/v2/kv?limit=1001", "bad_parameter", "limit is a number from 1 to 1000, not '1001'"),
        ("GET", "/v2/kv?prefix=" + "p" * 1025, "bad_parameter", "prefix has at most 1024 bytes, not 1025"),
        (
            "GET",
            "/v2/kv/k?read=" + "x" * 65,
            "bad_parameter",
            f"read is one of optimistic, skip_cache, linearizable, not '{'x' * 64}...'",
        ),
        ("GET", "/v2/changes?after=12", "bad_parameter", "a cursor is 20 hexadecimal digits, or now, not '12'"),
        (
            "GET",
            "/v2/changes?after=zz000000000000000000",
            "bad_parameter",
            "a cursor is 20 hexadecimal digits, or now, not 'zz000000000000000000'",
        ),
        ("GET", "/v2/changes?prefix=" + "p" * 1025, "bad_parameter", "prefix has at most 1024 bytes, not 1025"),
        ("GET", "/v2/changes?follow=no", "bad_parameter", "follow is one of true, false, not 'no'"),
    ],
)
def test_bad_input_gets_a_definite_word(door: Door, method: str, target: str, code: str, message: str) -> None:
    answer = door.ask(method, target, b"v" if method == "PUT" else None)
    assert answer.status == 400
    assert answer.error() == told(code, message)
    assert (door.node.writes, door.node.reads) == ([], [])


def test_two_modes_that_differ(door: Door) -> None:
    answer = door.ask("PUT", "/v2/kv/k?mode=put", b"v", epoxy_mode="reserve")
    assert answer.status == 400
    assert answer.error() == told("bad_parameter", "mode is given in two places, and they differ")


def test_a_forgotten_body(door: Door) -> None:
    answer = door.ask("PUT", "/v2/kv/k")
    assert answer.status == 411
    assert answer.error() == told("length_required", "the value is the body; for an empty one send Content-Length: 0")
    assert door.node.writes == []


def test_a_value_that_is_too_large(door: Door) -> None:
    door.node.outcome = won()
    assert door.ask("PUT", "/v2/kv/k", bytes(1 << 20)).status == 201
    answer = door.ask("PUT", "/v2/kv/k", bytes((1 << 20) + 1))
    assert answer.status == 413
    assert answer.error() == told("body_too_large", "the body has more than 1048576 bytes")
    assert len(door.node.writes) == 1


@pytest.mark.parametrize("target", ["/", "/ui", "/v2", "/v2/kvs", "/v2/status/", "/V2/kv/k", "/v2/epoxy/message"])
def test_no_such_route(door: Door, target: str) -> None:
    answer = door.ask("GET", target)
    assert answer.status == 404
    words = f"nothing is at '{target}'; GET /openapi.json lists what there is"
    assert answer.error() == told("no_such_route", words)


@pytest.mark.parametrize(
    ("method", "target", "allow"),
    [
        ("POST", "/v2/kv/k", "DELETE, GET, HEAD, PUT"),
        ("OPTIONS", "/v2/kv/k", "DELETE, GET, HEAD, PUT"),
        ("PUT", "/v2/kv", "GET, HEAD"),
        ("HEAD", "/v2/changes", "GET"),
        ("DELETE", "/v2/members", "GET, HEAD, POST"),
        ("GET", "/v2/txn", "POST"),
        ("POST", "/metrics", "GET, HEAD"),
    ],
)
def test_a_method_that_is_not_possible(door: Door, method: str, target: str, allow: str) -> None:
    answer = door.ask(method, target)
    assert (answer.status, answer.headers["allow"]) == (405, allow)
    if method != "HEAD":
        assert answer.error() == told("method_not_allowed", f"{method} is not possible here")


@pytest.mark.parametrize(
    ("method", "target"),
    [("GET", "/v2/kv/k"), ("PUT", "/v2/kv/k"), ("GET", "/v2/kv"), ("GET", "/v2/changes"), ("GET", "/v2/inspect/k")],
)
def test_a_node_that_is_not_ready(door: Door, method: str, target: str) -> None:
    door.node.ready, door.node.standing = False, STARTING
    answer = door.ask(method, target, b"v")
    assert answer.status == 503
    assert answer.error() == told("not_ready", "the node is starting or stopping", retry_after_ms=1000)
    assert door.node.writes == []


# Everything else


def test_health_does_not_depend_on_being_ready(door: Door) -> None:
    assert (door.ask("GET", "/readyz").status, door.ask("GET", "/readyz").body) == (200, b"ready\n")
    door.node.ready, door.node.standing = False, STARTING
    assert (door.ask("GET", "/healthz").status, door.ask("GET", "/healthz").body) == (200, b"ok\n")
    assert door.ask("GET", "/v2/status").json() == {"id": 1, "ready": False}
    answer = door.ask("GET", "/readyz")
    assert answer.status == 503
    assert answer.error() == told("not_ready", "the node is starting or stopping", retry_after_ms=1000)


def test_members(door: Door) -> None:
    assert door.ask("GET", "/v2/members").json() == {
        "epoch": 1,
        "coordinator_id": 1,
        "quorum_policy": "optimal",
        "quorums": {"fast": 2, "slow": 2},
        "joint": False,
        "previous": None,
        "wanted": [1, 2, 3],
        "replicas": [
            {"id": i, "status": "active", "url": "", "identity": 0, "datacenter": f"dc-{i}"} for i in (1, 2, 3)
        ],
    }


def test_only_so_many_inspections_at_a_time(door: Door) -> None:
    waiting: list[Callable[[], None]] = []
    door.node.inspections = waiting
    wires = [Wire(request("GET", "/v2/inspect/k")) for _ in range(MAX_INSPECTIONS)]
    for wire in wires:
        door.api(wire.exchange)
    assert [wire.sent for wire in wires] == [b""] * MAX_INSPECTIONS
    assert door.ask("GET", "/v2/inspect/k").error()["code"] == "overloaded"
    for answer in waiting:
        answer()
    assert {wire.answer().status for wire in wires} == {200}
    door.node.inspections = None
    assert door.ask("GET", "/v2/inspect/k").status == 200


def test_inspect(door: Door) -> None:
    assert door.ask("GET", "/v2/inspect/a%2Fb%00").json() == {
        "key": "a/b%00",
        "replicas": [{"id": 1, "key": "YS9iAA=="}],
    }


def test_other_handlers_share_the_port() -> None:
    served: list[bytes] = []

    def peers(exchange: Exchange) -> None:
        served.append(exchange.request.body)
        exchange.respond(401)

    api = build_api(FakeNode(), Metrics(), {b"/v2/epoxy/message": peers})
    assert ask(api, "POST", "/v2/epoxy/message", b"batch").status == 401
    assert ask(api, "POST", "/v2/epoxy/message/", b"no").status == 404
    assert served == [b"batch"]


def test_a_page(door: Door) -> None:
    door.node.keys = [
        (b"a", proposal(b"1")),
        (b"b b", proposal(None, 2, mutable=True)),
        (b"b/\xff", proposal(b"\xff", 3, mutable=True)),
        (b"c", proposal(b"4")),
    ]
    page = door.ask("GET", "/v2/kv").json()
    assert [row["key"] for row in page["keys"]] == ["a", "b/%FF", "c"]
    assert page["next"] is None
    assert page["keys"][1] == {
        "key": "b/%FF",
        "value": None,
        "value_base64": "/w==",
        "version": 3,
        "mutable": True,
        "deleted": False,
    }
    page = door.ask("GET", "/v2/kv?prefix=b+b&limit=1").json()
    assert page == {"keys": [], "next": "b%20b"}, "a deleted key fills its place"
    page = door.ask("GET", "/v2/kv?prefix=b&limit=1&after=b%20b").json()
    assert ([row["key"] for row in page["keys"]], page["next"]) == (["b/%FF"], "b/%FF")
    assert door.ask("GET", "/v2/kv?after=b/%FF").json()["keys"][0]["key"] == "c"


def test_pages_are_walked_to_the_end(door: Door) -> None:
    door.node.keys = [(b"k%04d" % i, proposal(b"%d" % i)) for i in range(250)]
    seen: list[str] = []
    after: str | None = ""
    sizes = []
    while after is not None:
        page = door.ask("GET", f"/v2/kv?limit=100&after={after}").json()
        seen += [row["key"] for row in page["keys"]]
        sizes.append(len(page["keys"]))
        after = page["next"]
    assert sizes == [100, 100, 50]
    assert seen == [f"k{i:04}" for i in range(250)]


def test_a_page_of_large_values_ends_early(door: Door) -> None:
    door.node.keys = [(b"k%04d" % i, proposal(bytes(1 << 20))) for i in range(40)]
    page = door.ask("GET", "/v2/kv?limit=1000").json()
    assert (len(page["keys"]), page["next"]) == (16, "k0015")
    assert max(door.node.asked) == 16, "no more than a batch is held at once"


def test_requests_are_counted_by_kind_and_result(door: Door) -> None:
    door.node.here = ReadResult(committed=proposal(), source=Source.LOCAL)
    door.ask("GET", "/v2/kv/k")
    door.ask("GET", "/v2/kv/%")
    door.ask("POST", "/v2/kv/k")
    door.ask("GET", "/nowhere")
    door.write(won())
    door.write(CONFLICTS[0][0])
    door.write(ConsensusFailed(reason="x"))
    text = door.ask("GET", "/metrics").body.decode()
    counted = [line for line in text.splitlines() if line.startswith("epoxy_requests_total")]
    assert sorted(counted) == [
        'epoxy_requests_total{request_type="http_get_key",result="invalid"} 1.0',
        'epoxy_requests_total{request_type="http_get_key",result="ok"} 1.0',
        'epoxy_requests_total{request_type="http_put_key",result="conflict"} 1.0',
        'epoxy_requests_total{request_type="http_put_key",result="ok"} 1.0',
        'epoxy_requests_total{request_type="http_put_key",result="unavailable"} 1.0',
        'epoxy_requests_total{request_type="http_unknown",result="invalid"} 1.0',
        'epoxy_requests_total{request_type="http_unknown",result="not_found"} 1.0',
    ]
