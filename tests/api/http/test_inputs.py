"""What the HTTP API refuses, each with a definite word."""

import pytest

from epoxy.node.members.lifecycle import STARTING
from tests.api.http.fake_api import FakeApi, told, won


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
            "unknown parameter 'if-version'; there are: if_absent, if_version, keep_ttl, mode, returning, session, ttl",
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
def test_bad_input_gets_a_definite_word(fake: FakeApi, method: str, target: str, code: str, message: str) -> None:
    answer = fake.ask(method, target, b"v" if method == "PUT" else None)
    assert answer.status == 400
    assert answer.error() == told(code, message)
    assert (fake.node.writes, fake.node.reads) == ([], [])


def test_two_modes_that_differ(fake: FakeApi) -> None:
    answer = fake.ask("PUT", "/v2/kv/k?mode=put", b"v", epoxy_mode="reserve")
    assert answer.status == 400
    assert answer.error() == told("bad_parameter", "mode is given in two places, and they differ")


def test_a_forgotten_body(fake: FakeApi) -> None:
    answer = fake.ask("PUT", "/v2/kv/k")
    assert answer.status == 411
    assert answer.error() == told("length_required", "the value is the body; for an empty one send Content-Length: 0")
    assert fake.node.writes == []


def test_a_value_that_is_too_large(fake: FakeApi) -> None:
    fake.node.outcome = won()
    assert fake.ask("PUT", "/v2/kv/k", bytes(1 << 20)).status == 201
    answer = fake.ask("PUT", "/v2/kv/k", bytes((1 << 20) + 1))
    assert answer.status == 413
    assert answer.error() == told("body_too_large", "the body has more than 1048576 bytes")
    assert len(fake.node.writes) == 1


@pytest.mark.parametrize("target", ["/", "/uis", "/v2", "/v2/kvs", "/v2/status/", "/V2/kv/k", "/v2/epoxy/message"])
def test_no_such_route(fake: FakeApi, target: str) -> None:
    answer = fake.ask("GET", target)
    assert answer.status == 404
    words = f"nothing is at '{target}'; GET /openapi.json lists what there is"
    assert answer.error() == told("no_such_route", words)


@pytest.mark.parametrize(
    ("method", "target", "allow"),
    [
        ("POST", "/v2/kv/k", "DELETE, GET, HEAD, PATCH, PUT"),
        ("OPTIONS", "/v2/kv/k", "DELETE, GET, HEAD, PATCH, PUT"),
        ("PUT", "/v2/kv", "GET, HEAD"),
        ("HEAD", "/v2/changes", "GET"),
        ("DELETE", "/v2/members", "GET, HEAD, POST"),
        ("GET", "/v2/txn", "POST"),
        ("POST", "/metrics", "GET, HEAD"),
    ],
)
def test_a_method_that_is_not_possible(fake: FakeApi, method: str, target: str, allow: str) -> None:
    answer = fake.ask(method, target)
    assert (answer.status, answer.headers["allow"]) == (405, allow)
    if method != "HEAD":
        assert answer.error() == told("method_not_allowed", f"{method} is not possible here")


@pytest.mark.parametrize(
    ("method", "target"),
    [("GET", "/v2/kv/k"), ("PUT", "/v2/kv/k"), ("GET", "/v2/kv"), ("GET", "/v2/changes"), ("GET", "/v2/inspect/k")],
)
def test_a_node_that_is_not_ready(fake: FakeApi, method: str, target: str) -> None:
    fake.node.ready, fake.node.lifecycle = False, STARTING
    answer = fake.ask(method, target, b"v")
    assert answer.status == 503
    assert answer.error() == told("not_ready", "the node is starting", retry_after_ms=1000)
    assert fake.node.writes == []
