"""Writes through the HTTP API: what the node is asked."""

import pytest

from epoxy.model.integers import LEAST_INTEGER, MOST_INTEGER
from epoxy.model.writes import Write
from tests.api.http.fake_api import FakeApi, told, won


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
def test_a_key_is_the_rest_of_the_path(fake: FakeApi, target: str, key: bytes) -> None:
    fake.write(won(), target)
    assert fake.node.writes == [Write(key=key, value=b"v")]


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
        ("?mode=put&returning=true", {}, Write(key=b"k", value=b"v", mutable=True, returning=True)),
        ("?mode=put&returning=false", {}, Write(key=b"k", value=b"v", mutable=True)),
    ],
)
def test_modes_and_conditions(fake: FakeApi, target: str, headers: dict[str, str], write: Write) -> None:
    fake.write(won(), f"/v2/kv/k{target}", **headers)
    assert fake.node.writes == [write]


def test_an_empty_value_is_a_value(fake: FakeApi) -> None:
    fake.node.outcome = won()
    assert fake.ask("PUT", "/v2/kv/k", b"").status == 201
    assert fake.ask("PUT", "/v2/kv/k", transfer_encoding="chunked").status == 201
    assert [write.value for write in fake.node.writes] == [b"", b""]


@pytest.mark.parametrize(
    ("target", "write"),
    [
        ("", Write(key=b"k", value=None, mutable=True)),
        ("?if_version=3", Write(key=b"k", value=None, mutable=True, if_version=3)),
        ("?returning=true", Write(key=b"k", value=None, mutable=True, returning=True)),
    ],
)
def test_delete_writes_a_tombstone(fake: FakeApi, target: str, write: Write) -> None:
    fake.write(won(), f"/v2/kv/k{target}", "DELETE")
    assert fake.node.writes == [write]


@pytest.mark.parametrize("amount", [0, 5, -5, MOST_INTEGER, LEAST_INTEGER])
def test_patch_adds(fake: FakeApi, amount: int) -> None:
    fake.write(won(), f"/v2/kv/k?add={amount}", "PATCH")
    fake.write(won(), f"/v2/kv/k?if_version=7&add={amount}", "PATCH")
    add = Write(key=b"k", value=None, mutable=True, amount=amount)
    assert fake.node.writes == [add, Write(key=b"k", value=None, mutable=True, amount=amount, if_version=7)]


OF_ABSENT = "if_absent goes with none of if_version, returning and keep_ttl"
NOTHING_TO_DO = (
    "nothing to do: ?add=N adds N to the number under the key, ?ttl=MS lets its value expire that much later"
)
SIGNED = f"a number from {LEAST_INTEGER} to {MOST_INTEGER}"


@pytest.mark.parametrize(
    ("method", "target", "message"),
    [
        ("PATCH", "", NOTHING_TO_DO),
        ("PATCH", "?if_version=1", NOTHING_TO_DO),
        ("PATCH", "?add=", f"add is {SIGNED}, not ''"),
        ("PATCH", "?add=one", f"add is {SIGNED}, not 'one'"),
        ("PATCH", "?add=1.5", f"add is {SIGNED}, not '1.5'"),
        ("PATCH", "?add=+1", f"add is {SIGNED}, not ' 1'"),
        ("PATCH", f"?add={MOST_INTEGER + 1}", f"add is {SIGNED}, not '{MOST_INTEGER + 1}'"),
        ("PATCH", f"?add={LEAST_INTEGER - 1}", f"add is {SIGNED}, not '{LEAST_INTEGER - 1}'"),
        ("PATCH", "?add=1&returning=true", "unknown parameter 'returning'; there are: add, if_version, session, ttl"),
        ("PUT", "?returning=true", "returning belongs to mode=put: a reserved name replaces nothing"),
        ("PUT", "?mode=put&returning=1", "returning is one of true, false, not '1'"),
        ("PUT", "?mode=put&if_version=-0", "if_version is a number from 0 to 18446744073709551615, not '-0'"),
        ("PUT", "?ttl=5", "ttl belongs to mode=put: a reserved name is taken for ever"),
        ("PUT", "?if_absent=true", "if_absent belongs to mode=put: a name is reserved only if it is free"),
        ("PUT", "?mode=put&ttl=0", "ttl is a number from 1 to 35184372088832, not '0'"),
        ("PUT", "?mode=put&ttl=1s", "ttl is a number from 1 to 35184372088832, not '1s'"),
        ("PUT", "?mode=put&ttl=35184372088833", "ttl is a number from 1 to 35184372088832, not '35184372088833'"),
        ("PUT", "?mode=put&ttl=5&keep_ttl=true", "ttl and keep_ttl: a value has one expiry; give one of them"),
        ("PUT", "?mode=put&session=abc", "the id of a session has 32 hexadecimal digits, not 'abc'"),
        ("PUT", "?mode=put&if_absent=true&if_version=0", OF_ABSENT),
        ("PUT", "?mode=put&if_absent=true&returning=true", OF_ABSENT),
        ("PUT", "?mode=put&if_absent=true&keep_ttl=true", OF_ABSENT),
        ("PATCH", f"?ttl=5&session={'0' * 32}", "ttl and session: a value has one expiry; give one of them"),
        ("DELETE", "?returning=yes", "returning is one of true, false, not 'yes'"),
    ],
)
def test_what_is_outside_the_contract_reaches_no_node(fake: FakeApi, method: str, target: str, message: str) -> None:
    answer = fake.write(won(), f"/v2/kv/k{target}", method)
    assert (answer.status, answer.error()) == (400, told("bad_parameter", message))
    assert fake.node.writes == []


def test_an_amount_in_the_body_is_refused(fake: FakeApi) -> None:
    answer = fake.ask("PATCH", "/v2/kv/k?add=1", b"2")
    words = "the request has a body; what to do is said by parameters"
    assert (answer.status, answer.error()) == (400, told("bad_request", words))
    assert fake.node.writes == []
