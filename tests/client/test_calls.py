"""What both clients do with a node that behaves."""

from contextlib import closing
from typing import Any

import pytest

from epoxy import Add, Compare, InvalidRequest, Put, Value
from epoxy.model.ballot import Ballot
from epoxy.model.errors import ImmutableKey, NotAnInteger, VersionMismatch
from epoxy.model.messages import Inspected
from epoxy.model.records import Proposal, ProposalId, Settled
from epoxy.model.writes import Path, Source
from tests.client.both import BOTH
from tests.client.fake import FakeNode, Held

pytestmark = pytest.mark.parametrize("client_type", BOTH)

AWKWARD = [b"user/ada", b"a b+c%2F?&=#", bytes(range(256)), b"..", "Zürich".encode(), b"\xff", b"x" * 1024]


def test_a_name_is_won_once(node: FakeNode, client_type: Any) -> None:
    with client_type(node.url) as client:
        first = client.reserve(b"user/ada", b"eu")
        again = client.reserve(b"user/ada", b"eu")
        other = client.reserve(b"user/ada", b"us")
    assert (first.won, first.agreed, first.value, first.version, first.path) == (True, True, b"eu", 1, Path.FAST)
    assert (again.won, again.agreed, again.value, again.path) == (False, True, b"eu", Path.LOCAL)
    assert (other.won, other.agreed, other.value, other.mutable) == (False, False, b"eu", False)
    assert first.latency_ms > 0


@pytest.mark.parametrize("key", AWKWARD)
def test_keys_and_values_are_any_bytes(node: FakeNode, client_type: Any, key: bytes) -> None:
    with client_type(node.url) as client:
        assert client.put(key, key * 2).version == 1
        assert client.get(key) == key * 2
    assert node.kv == {key: Held(key * 2, 1, mutable=True)}


def test_the_longest_and_the_shortest_value(node: FakeNode, client_type: Any) -> None:
    with client_type(node.url) as client:
        client.reserve(b"long", bytes(1 << 20))
        client.reserve(b"short", b"")
        assert client.get(b"long") == bytes(1 << 20)
        assert client.get(b"short") == b""


def test_text_is_utf8(node: FakeNode, client_type: Any) -> None:
    with client_type(node.url) as client:
        client.put("Zürich", "Grüezi")
    assert node.kv["Zürich".encode()].value == "Grüezi".encode()


def test_compare_and_set_follows_a_read(node: FakeNode, client_type: Any) -> None:
    with client_type(node.url) as client:
        assert client.put(b"cfg", b"1", if_version=0).created
        value = client.get(b"cfg", read="linearizable")
        assert isinstance(value, Value)
        assert (value.value, value.version, value.mutable, value.source) == (b"1", 1, True, Source.QUORUM)
        written = client.put(b"cfg", b"2", if_version=value.version)
        assert (written.version, written.created) == (2, False)
        with pytest.raises(VersionMismatch, match="version 2 stands") as caught:
            client.put(b"cfg", b"3", if_version=value.version)
    assert (caught.value.definite, caught.value.value, caught.value.version) == (True, b"2", 2)


def test_a_condition_on_a_key_that_never_was(node: FakeNode, client_type: Any) -> None:
    with client_type(node.url) as client, pytest.raises(VersionMismatch, match="never written") as caught:
        client.put(b"k", b"v", if_version=7)
    assert (caught.value.value, caught.value.version) == (None, 0)


def test_a_reserved_name_refuses_puts_and_deletes(node: FakeNode, client_type: Any) -> None:
    with client_type(node.url) as client:
        client.reserve(b"k", b"v")
        for method, value in (("put", [b"w"]), ("delete", [])):
            with pytest.raises(ImmutableKey) as caught:
                getattr(client, method)(b"k", *value)
            assert (caught.value.definite, caught.value.value, caught.value.version) == (True, b"v", 1)


def test_deletes_and_what_they_leave(node: FakeNode, client_type: Any) -> None:
    with client_type(node.url) as client:
        never = client.delete(b"k")
        assert (never.deleted, never.version) == (False, 0)
        client.put(b"k", b"v")
        gone = client.delete(b"k", if_version=1)
        assert (gone.deleted, gone.version) == (True, 2)
        absent = client.read(b"k")
        assert (absent.found, absent.value, absent.version) == (False, None, 2)
        assert client.get(b"k") is None


def test_a_write_that_returns_what_it_replaced(node: FakeNode, client_type: Any) -> None:
    with client_type(node.url) as client:
        assert client.put(b"k", b"", returning=True).previous is None
        assert client.put(b"k", b"2", returning=True).previous == b""
        assert client.put(b"k", b"3").previous is None
        assert client.delete(b"k", returning=True).previous == b"3"
        assert client.delete(b"k", returning=True).previous is None
    assert node.requests[0] == "PUT /v2/kv/k?mode=put&returning=true"


def test_sums(node: FakeNode, client_type: Any) -> None:
    with client_type(node.url) as client:
        first = client.add(b"n")
        assert (first.number, first.version, first.created) == (1, 1, True)
        second = client.add(b"n", -(1 << 63), if_version=1)
        assert (second.number, second.version, second.created) == (1 - (1 << 63), 2, False)
        with pytest.raises(VersionMismatch, match="version 2 stands"):
            client.add(b"n", if_version=1)
        with pytest.raises(NotAnInteger, match="more than 64 bits") as caught:
            client.add(b"n", -2)
        assert (caught.value.definite, caught.value.value, caught.value.version) == (True, b"%d" % second.number, 2)
        client.put(b"n", b"word")
        with pytest.raises(NotAnInteger, match="the value is no decimal number"):
            client.add(b"n")
        client.reserve(b"name", b"1")
        with pytest.raises(ImmutableKey):
            client.add(b"name")


@pytest.mark.parametrize("amount", [1 << 63, -(1 << 63) - 1, 1.0, "1", None])
def test_an_amount_is_a_number_of_64_bits(node: FakeNode, client_type: Any, amount: Any) -> None:
    with client_type(node.url) as client, pytest.raises(InvalidRequest, match="an amount is a number of 64 bits"):
        client.add(b"n", amount)
    assert not node.requests


def test_pages_go_on_where_they_ended(node: FakeNode, client_type: Any) -> None:
    keys = [b"p/%c" % i for i in range(250, 256)]
    with client_type(node.url) as client:
        for key in [*keys, b"q"]:
            client.put(key, b"v" + key)
        first = client.page(b"p/", limit=4)
        second = client.page(b"p/", after=first.after, limit=4)
    assert [item.key for item in [*first.items, *second.items]] == keys
    assert (first.after, second.after) == (keys[3], None)
    assert first.items[0].value == b"v" + keys[0]


def test_status_has_names_and_all_that_was_said(node: FakeNode, client_type: Any) -> None:
    node.status["fans"] = 3
    with client_type(node.url) as client:
        status = client.status()
    assert (status.id, status.datacenter, status.pid, status.floor_ms) == (1, "us-east-1", 4711, 70.0)
    assert [(peer.id, peer.reachable) for peer in status.peers] == [(2, True), (3, True)]
    assert status.document["fans"] == 3


def test_inspect_tells_what_every_replica_holds(node: FakeNode, client_type: Any) -> None:
    committed = Proposal(value=b"\xff", version=2, mutable=True, proposal_id=ProposalId(1, 7))
    held = Inspected(
        epoch=1,
        committed=committed,
        lineage=(Settled(1, ProposalId(2, 5)),),
        promised=Ballot(2, 1),
        vote=None,
        cached=None,
        changelog=(bytes(10),),
    )
    node.inspected = {
        "key": "k",
        "replicas": [
            {"id": 1, "datacenter": "a", "held": held, "reason": ""},
            {"id": 2, "datacenter": "b", "held": None, "reason": "no answer in time"},
        ],
    }
    with client_type(node.url) as client:
        here, there = client.inspect(b"k").replicas
    assert (here.id, here.held) == (1, held)
    assert (there.datacenter, there.held, there.reason) == ("b", None, "no answer in time")


def test_connections_are_kept(node: FakeNode, client_type: Any) -> None:
    with client_type(node.url) as client:
        for _ in range(5):
            client.get(b"k")
    assert len(set(node.peers)) == 1


def test_changes_come_back_after_a_lost_connection(node: FakeNode, client_type: Any) -> None:
    """The fake ends the stream whenever it has told all it knows."""
    node.commit_event(b"a", Held(b"1", 1, mutable=True))
    node.commit_event(b"\xff", Held(None, 2, mutable=True))
    with client_type(node.url) as client, closing(client.changes()) as arriving:
        first, second = next(arriving), next(arriving)
        node.commit_event(b"c", Held(b"3", 3, mutable=False))
        third = next(arriving)
    assert [(c.cursor, c.key, c.value, c.version) for c in (first, second, third)] == [
        ("1", b"a", b"1", 1),
        ("2", b"\xff", None, 2),
        ("3", b"c", b"3", 3),
    ]
    assert node.requests[0] == "GET /v2/changes"
    assert node.requests[-1] == "GET /v2/changes?after=2"


def test_changes_without_following_end(node: FakeNode, client_type: Any) -> None:
    node.commit_event(b"a", Held(b"1", 1, mutable=True))
    with client_type(node.url) as client, closing(client.changes(b"p/\xff", after="0", follow=False)) as arriving:
        assert [change.key for change in arriving] == [b"a"]
    assert node.requests == ["GET /v2/changes?prefix=p%2F%FF&after=0&follow=false"]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda c: c.reserve(b"", b"v"), "a key has 1 to 1,024 bytes, not 0"),
        (lambda c: c.get(b"x" * 1025), "a key has 1 to 1,024 bytes, not 1,025"),
        (lambda c: c.put(b"k", bytes((1 << 20) + 1)), "a value has at most 1,048,576 bytes"),
        (lambda c: c.put(b"k", 3), "a value is bytes or str, not int"),
        (lambda c: c.get(None), "a key is bytes or str, not NoneType"),
        (lambda c: c.put(b"k", b"v", if_version=-1), "a version is between 0"),
        (lambda c: c.put(b"k", b"v", if_version="1"), "a version is between 0 .* not '1'"),
        (lambda c: c.txn(), "names at least one key"),
        (lambda c: c.txn(then=["k"]), "and Put, Add, Delete and Get, not str"),
        (lambda c: c.txn(compares=[Put(key=b"k", value=b"v")]), "has Compares, .* not Put"),
        (lambda c: c.txn(compares=[Compare(key=b"k")]), "says what the key may hold: values, a version, or absent"),
        (lambda c: c.txn(then=[Add(key=b"k", amount=1 << 63)]), "an amount is at most 9223372036854775807"),
        (lambda c: c.get(b"k", read="eventual"), "there are: optimistic, skip_cache, linearizable"),
        (lambda c: c.page(limit=0), "a page has 1 to 1,000 keys"),
        (lambda c: c.get(b"k", timeout=0), "a timeout is above 0"),
        (lambda c: c.get(b"k", timeout=float("nan")), "a timeout is above 0"),
    ],
)
def test_bad_input_is_refused_before_anything_is_sent(node: FakeNode, client_type: Any, ask: Any, words: str) -> None:
    with client_type(node.url) as client, pytest.raises(InvalidRequest, match=words) as caught:
        ask(client)
    assert caught.value.definite
    assert node.requests == []
