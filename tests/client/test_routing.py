"""Definite failures go on to the next node; a write whose fate is unknown is never sent twice."""

import asyncio
import select
import time
from typing import Any

import pytest

from epoxy import (
    AccessRefused,
    AsyncClient,
    Client,
    ConnectionLost,
    ConsensusFailed,
    InvalidRequest,
    NotRunning,
    OutcomeUnknown,
    Timeout,
    Unavailable,
    UnexpectedAnswer,
)
from epoxy.client import responses, routing
from epoxy.client.actor_calls import Which
from epoxy.client.routing import Fleet, fleet_of
from epoxy.testing import free_ports
from tests.client.both import BOTH
from tests.client.fake import FakeNode, Handler, Held, Misdeed, garbage, hang_up, problem, stay_silent, web_page

both = pytest.mark.parametrize("client_type", BOTH)

PATIENT_S = 60.0


def timeout_for(misdeed: Misdeed, seconds: float) -> float:
    """Short only where nothing will come; elsewhere a slow machine must not decide."""
    return seconds if misdeed is stay_silent else PATIENT_S


def until_asked(node: FakeNode) -> None:
    """It may read what it was sent after the client has given up."""
    deadline = time.monotonic() + PATIENT_S
    while not node.requests:
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.fixture
def nobody() -> str:
    """An address where nothing listens."""
    (port,) = free_ports(1)
    return f"http://127.0.0.1:{port}"


WRITES: list[Any] = [
    pytest.param(lambda c: c.reserve(b"k", b"v"), id="reserve"),
    pytest.param(lambda c: c.put(b"k", b"v"), id="put"),
    pytest.param(lambda c: c.delete(b"k"), id="delete"),
]


@both
@pytest.mark.parametrize("write", WRITES)
def test_a_refused_connection_sends_a_write_on(node: FakeNode, nobody: str, client_type: Any, write: Any) -> None:
    with client_type(nobody, node.url) as client:
        write(client)
    assert len(node.requests) == 1


@both
@pytest.mark.parametrize("write", [*WRITES, pytest.param(lambda c: c.get(b"k"), id="get")])
@pytest.mark.parametrize(
    ("status", "code"),
    [(401, "unauthenticated"), (403, "forbidden"), (429, "quota_requests"), (403, "quota_bytes")],
)
def test_a_refusal_for_want_of_rights_is_not_asked_for_at_another_node(
    client_type: Any, write: Any, status: int, code: str
) -> None:
    with FakeNode() as first, FakeNode() as second:
        first.misdeeds.append(problem(status, code, definite=True))
        with client_type(first.url, second.url) as client, pytest.raises(AccessRefused, match=code) as caught:
            write(client)
        assert first.url in str(caught.value)
        assert second.requests == []


def test_a_planted_fault_a_quota_that_the_next_node_is_asked_to_exceed_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(responses, "access_refusal", lambda *_: None)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_a_refusal_for_want_of_rights_is_not_asked_for_at_another_node(
            Client, lambda client: client.put(b"k", b"v"), 429, "quota_requests"
        )


@both
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize(
    ("misdeed", "expected"),
    [
        (hang_up, ConnectionLost),
        (stay_silent, Timeout),
        (garbage, ConnectionLost),
        (web_page(200), UnexpectedAnswer),
        (web_page(502), UnexpectedAnswer),
        (web_page(408), UnexpectedAnswer),
        (problem(503, "consensus_failed", definite=False), ConsensusFailed),
        (problem(500, "internal", definite=False), OutcomeUnknown),
    ],
)
def test_a_write_of_unknown_fate_is_raised_and_not_repeated(
    nodes: list[FakeNode], client_type: Any, write: Any, misdeed: Misdeed, expected: type[OutcomeUnknown]
) -> None:
    first, second, _ = nodes
    first.misdeeds.append(misdeed)
    patience = timeout_for(misdeed, 1.0)
    with client_type(first.url, second.url, timeout=patience) as client, pytest.raises(expected) as caught:
        write(client)
    assert type(caught.value) is expected
    assert not caught.value.definite
    assert first.url in str(caught.value)
    until_asked(first)
    assert (len(first.requests), second.requests) == (1, [])


@both
@pytest.mark.parametrize("misdeed", [problem(503, "overloaded", definite=True), web_page(404), web_page(501)])
def test_a_definite_no_sends_a_write_on(nodes: list[FakeNode], client_type: Any, misdeed: Misdeed) -> None:
    first, second, _ = nodes
    first.misdeeds.append(misdeed)
    with client_type(first.url, second.url) as client:
        assert client.reserve(b"k", b"v").won
    assert (len(first.requests), len(second.requests)) == (1, 1)


@both
@pytest.mark.parametrize("misdeed", [hang_up, stay_silent, garbage, web_page(200), web_page(404), web_page(500)])
def test_a_read_always_goes_on(nodes: list[FakeNode], client_type: Any, misdeed: Misdeed) -> None:
    """A 404 of another server must not look like a free name."""
    first, second, third = nodes
    first.misdeeds.append(misdeed)
    second.misdeeds.append(misdeed)
    with client_type(first.url, second.url, third.url, timeout=timeout_for(misdeed, 6.0)) as client:
        assert client.get(b"k") is None
    assert (len(first.requests), len(second.requests), len(third.requests)) == (1, 1, 1)


@pytest.mark.parametrize("misdeed", [hang_up, problem(503, "consensus_failed", definite=False)])
@pytest.mark.parametrize("key", ["", "once"])
def test_a_request_with_an_idempotency_key_goes_on_and_says_that_it_may_have_been_carried_out(
    nodes: list[FakeNode], misdeed: Misdeed, key: str
) -> None:
    first, second, _ = nodes
    first.misdeeds.append(misdeed)
    second.misdeeds.append(problem(503, "unavailable", definite=True))
    with Client(first.url, second.url) as client, pytest.raises(OutcomeUnknown):
        client.actors.request(Which(name="room", key="x"), b"", idempotency_key=key)
    assert (len(first.requests), len(second.requests)) == (1, 1 if key else 0)


def test_a_request_with_an_idempotency_key_that_no_node_took_was_not_carried_out(nodes: list[FakeNode]) -> None:
    nodes[0].misdeeds.append(problem(503, "unavailable", definite=True))
    with Client(nodes[0].url) as client, pytest.raises(Unavailable):
        client.actors.request(Which(name="room", key="x"), b"", idempotency_key="once")


@both
def test_a_mistake_of_ours_is_not_tried_elsewhere(nodes: list[FakeNode], client_type: Any) -> None:
    first, second, _ = nodes
    first.misdeeds.append(problem(400, "bad_parameter", definite=True))
    with client_type(first.url, second.url) as client, pytest.raises(InvalidRequest, match="about bad_parameter"):
        client.put(b"k", b"v")
    assert second.requests == []


@both
def test_an_actor_that_does_not_start_is_not_asked_through_another_node(
    nodes: list[FakeNode], client_type: Any
) -> None:
    first, second, _ = nodes
    first.misdeeds.append(problem(503, "not_running", definite=True))
    with client_type(first.url, second.url) as client, pytest.raises(NotRunning, match="about not_running") as caught:
        client.put(b"k", b"v")
    assert caught.value.definite
    assert second.requests == []


@both
def test_when_nobody_can_be_reached_every_address_is_named(nobody: str, client_type: Any) -> None:
    with client_type(nobody, "http://127.0.0.1:1") as client, pytest.raises(Unavailable) as caught:
        client.put(b"k", b"v")
    assert caught.value.definite
    assert str(caught.value) == f"{nobody}: connection refused; http://127.0.0.1:1: connection refused"


@both
def test_a_server_that_is_not_ours_is_called_by_its_name(node: FakeNode, client_type: Any) -> None:
    node.misdeeds.extend([web_page(404), web_page(200), garbage])
    with client_type(node.url) as client:
        with pytest.raises(Unavailable, match=r"answered 404 \(text/html\), .* address of an Epoxy node"):
            client.get(b"k")
        with pytest.raises(Unavailable, match="no Epoxy node says"):
            client.status()
        with pytest.raises(Unavailable, match="something that is no HTTP"):
            client.get(b"k")


def close_after_answer(request: Handler) -> None:
    """Without having announced it."""
    request.close_connection = False
    request.error(404, "not_found", Epoxy_Source="local")
    request.close_connection = True


def test_a_write_is_not_lost_on_a_kept_connection_that_died(node: FakeNode) -> None:
    node.misdeeds.append(close_after_answer)
    with Client(node.url) as client:
        client.get(b"k")
        (kept,) = next(iter(client._pools.values()))._idle
        select.select([kept.socket], [], [])  # the news has arrived
        assert client.put(b"k", b"v").version == 1
    assert len(set(node.peers)) == 2


def test_nor_by_the_other_client(node: FakeNode) -> None:
    async def story() -> None:
        async with AsyncClient(node.url) as client:
            await client.get(b"k")
            (kept,) = next(iter(client._pools.values()))._idle
            while kept.fit:
                await asyncio.sleep(0)
            assert (await client.put(b"k", b"v")).version == 1

    node.misdeeds.append(close_after_answer)
    asyncio.run(story())
    assert len(set(node.peers)) == 2


@both
def test_a_stream_that_nobody_offers(nobody: str, node: FakeNode, client_type: Any) -> None:
    node.misdeeds.append(web_page(200))
    with client_type(nobody, node.url) as client, pytest.raises(Unavailable) as caught:
        next(client.changes())
    assert f"{nobody}: connection refused; {node.url}: answered 200 (text/html)" in str(caught.value)


@both
def test_a_stream_waits_for_a_node_that_restarts(node: FakeNode, client_type: Any) -> None:
    node.commit_event(b"a", Held(b"1", 1, mutable=True))
    with client_type(node.url) as client:
        arriving = client.changes()
        assert next(arriving).key == b"a"
        node.misdeeds.append(problem(503, "not_ready", definite=True))
        node.commit_event(b"b", Held(b"2", 1, mutable=True))
        assert next(arriving).key == b"b"
        arriving.close()


@both
def test_a_bad_cursor_is_told(node: FakeNode, client_type: Any) -> None:
    node.misdeeds.append(problem(400, "bad_parameter", definite=True))
    with client_type(node.url) as client, pytest.raises(InvalidRequest, match="bad_parameter"):
        next(client.changes(after="x"))


def test_all_connections_busy_is_definite(node: FakeNode) -> None:
    with Client(node.url, max_connections=1, timeout=5.0) as client:
        pool = next(iter(client._pools.values()))
        assert pool._free.acquire()
        with pytest.raises(Unavailable, match="all 1 connections were busy"):
            client.put(b"k", b"v", timeout=0.05)
        pool._free.release()
    assert node.requests == []


def test_a_node_out_of_reach_comes_last_for_a_while() -> None:
    fleet = fleet_of(["http://a:1", "http://b:1"])
    a, b = fleet.nodes
    assert fleet.in_order(0.0) == [a, b]
    fleet.out_of_reach(a, 10.0)
    assert fleet.in_order(10.5) == [b, a]
    assert fleet.in_order(10.0 + routing.COOLDOWN_S) == [a, b]


def test_a_node_that_did_not_answer_comes_last_from_the_next_call_on() -> None:
    """However long the call was: its time limit may be longer than that while."""
    fleet = fleet_of(["http://a:1", "http://b:1"])
    a, b = fleet.nodes
    fleet.was_silent(a)
    assert fleet.in_order(100.0) == [b, a]
    assert fleet.in_order(100.0 + routing.COOLDOWN_S) == [a, b]


@pytest.mark.parametrize("client_type", BOTH)
def test_a_write_that_was_not_answered_is_followed_by_one_elsewhere(nodes: list[FakeNode], client_type: Any) -> None:
    """So a lock is renewed at another node, if the nearest one hangs."""
    nodes[0].misdeeds.append(hang_up)
    with client_type(*[node.url for node in nodes[:2]]) as client:
        with pytest.raises(OutcomeUnknown):
            client.put(b"k", b"1")
        client.put(b"k", b"2")
    assert (nodes[0].kv, nodes[1].kv[b"k"].value) == ({}, b"2")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("http://h:1",), [("h", 1, False, "")]),
        (("h:1", "h:1"), [("h", 1, False, "")]),
        (("127.0.0.1:7800",), [("127.0.0.1", 7800, False, "")]),
        ((["https://h", "http://h"],), [("h", 443, True, ""), ("h", 80, False, "")]),
        (("http://[::1]:7800/",), [("::1", 7800, False, "")]),
        (("http://h:1/epoxy/",), [("h", 1, False, "/epoxy")]),
    ],
)
def test_addresses(given: Any, expected: list[tuple[str, int, bool, str]]) -> None:
    fleet: Fleet = fleet_of(given)
    assert [(node.host, node.port, node.secure, node.prefix) for node in fleet.nodes] == expected


@pytest.mark.parametrize(
    "url",
    ["", "http://", "ftp://h:1", "redis://h:1", "http://h:x", "http://h:99999", "http://a b:1", "http://h:1/?q=1",
     "http://u:p@h:1", "http://h\r\nX: y:1", "http://hé:1"],
)  # fmt: skip
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(InvalidRequest, match="address of a node"):
        fleet_of([url])


def test_no_address_at_all() -> None:
    with pytest.raises(InvalidRequest, match="needs 1 to 64 addresses"):
        Client()


def test_the_addresses_of_a_member_are_those_of_all_its_nodes() -> None:
    """As nodes tell them: in one text, with commas between them."""
    fleet = fleet_of(["http://a:7800,http://b:7800", ["http://c:7800", "http://a:7800"]])
    assert [node.url for node in fleet.nodes] == ["http://a:7800", "http://b:7800", "http://c:7800"]
    with pytest.raises(InvalidRequest):
        fleet_of(["http://a:7800,"])
