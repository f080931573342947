"""Changes as server-sent events: in order, from any cursor, never more than the reader takes."""

import asyncio
import http.client
import json
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from epoxy.api.http import event_feeds, routes_changes
from epoxy.api.http.router import Api
from epoxy.api.metrics import Metrics
from epoxy.model.marks import OWNED
from epoxy.model.records import ChangelogEntry, Proposal, ProposalId
from epoxy.transport.limits import HttpLimits
from tests.api.http.http_bench import PATIENCE_S, Answer, FakeNode, Wire, proposal, request, running, stamp


class Reader:
    """A stream of a fake node, read as it is sent."""

    def __init__(self, api: Api, target: str = "/v2/changes", **headers: str) -> None:
        self.wire = Wire(request("GET", target, None, **headers))
        self._seen = 0
        api(self.wire.exchange)

    def answer(self) -> Answer:
        return self.wire.answer()

    def blocks(self) -> list[str]:
        return self.answer().body.decode().split("\n\n")[:-1]

    def keys(self) -> list[str]:
        """Of the events so far."""
        return [
            json.loads(line[6:])["key"] for block in self.blocks() for line in block.split("\n") if line[:6] == "data: "
        ]

    def ids(self) -> list[str]:
        return [line[4:] for block in self.blocks() for line in block.split("\n") if line[:4] == "id: "]

    def drain(self) -> None:
        self.wire.choked = False
        assert self.wire.stream is not None
        self.wire.stream.drained()

    def hang_up(self) -> None:
        assert self.wire.stream is not None
        self.wire.stream.lost()


def in_a_loop(test: Callable[[FakeNode, Api], Coroutine[Any, Any, None]]) -> None:
    node = FakeNode()
    asyncio.run(test(node, Api(node, Metrics())))


async def settle() -> None:
    """Turns of the event loop, more than any of these streams needs."""
    for _ in range(50):
        await asyncio.sleep(0)


def commit_keys(node: FakeNode, *keys: bytes) -> None:
    for key in keys:
        node.commit(key, proposal(b"v", 1))


def test_a_cursor_whose_next_change_is_gone_is_told() -> None:
    async def story(node: FakeNode, api: Api) -> None:
        commit_keys(node, b"a", b"b", b"c")
        node.log, node.gone = node.log[2:], stamp(2)
        answer = Reader(api, f"/v2/changes?after={stamp(1).hex()}").answer()
        assert (answer.status, answer.json()["error"]["code"]) == (410, "cursor_gone")
        for kept in (f"?after={stamp(2).hex()}", "?after=now", ""):
            reader = Reader(api, f"/v2/changes{kept}")
            await settle()
            assert reader.answer().status == 200
            assert reader.keys() == ([] if "now" in kept else ["c"])

    in_a_loop(story)


@pytest.mark.parametrize("follow", ["true", "false"])
def test_a_reader_who_falls_behind_what_is_kept_is_told_and_not_skipped_ahead(follow: str) -> None:
    async def story(node: FakeNode, api: Api) -> None:
        commit_keys(node, b"a", b"b", b"c", b"d")
        reader = Reader(api, f"/v2/changes?follow={follow}&after={stamp(1).hex()}")
        reader.wire.choked = True
        await settle()
        node.log, node.gone = node.log[3:], stamp(3)
        reader.drain()
        await settle()
        (block,) = reader.blocks()
        assert block.startswith("event: gone\ndata: ")

    in_a_loop(story)


def test_that_a_key_was_given_to_transactions_is_not_told() -> None:
    async def story(node: FakeNode, api: Api) -> None:
        node.commit(b"a", proposal(OWNED, 1))
        commit_keys(node, b"b")
        for _ in range(2 * routes_changes.BATCH_ROWS):
            node.commit(b"c", proposal(OWNED, 1))
        node.commit(b"d", proposal(OWNED, 1, mutable=True))
        reader = Reader(api, "/v2/changes?follow=false")
        await settle()
        assert reader.keys() == ["b", "d"], "somebody's own bytes are a value like any other"

    in_a_loop(story)


def test_a_fold_is_one_change_with_its_last_value_and_the_versions_it_made() -> None:
    async def story(node: FakeNode, api: Api) -> None:
        ids = ProposalId(1, 1), ProposalId(2, 2)
        fold = Proposal(value=b"9", version=9, mutable=True, proposal_id=ProposalId(1, 3), folded=ids)
        node.commit(b"n", fold)
        node.commit(b"m", proposal(b"v", 4, mutable=True))
        reader = Reader(api, "/v2/changes?follow=false")
        await settle()
        told = [json.loads(block.partition("data: ")[2]) for block in reader.blocks() if "data: " in block]
        assert [(each["value"], each["first_version"], each["version"]) for each in told] == [("9", 7, 9), ("v", 4, 4)]

    in_a_loop(story)


def test_long_values_are_read_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes_changes, "BATCH_BYTES", 1000)

    async def story(node: FakeNode, api: Api) -> None:
        for i in range(40):
            node.commit(b"k%02d" % i, proposal(bytes(1000 if i < 20 else 10), 1))
        limits: list[int] = []
        changes = node.changes

        def noted(after: bytes | None, limit: int) -> list[tuple[bytes, ChangelogEntry]]:
            limits.append(limit)
            return changes(after, limit)

        node.changes = noted  # type: ignore[method-assign]
        reader = Reader(api, "/v2/changes?follow=false")
        await settle()
        assert reader.keys() == [f"k{i:02}" for i in range(40)]
        assert limits == [16, 1, 1, 1, 1, 1, 16, 16]

    in_a_loop(story)


def test_what_there_is_and_then_what_comes() -> None:
    async def story(node: FakeNode, api: Api) -> None:
        commit_keys(node, b"a", b"b")
        reader = Reader(api)
        await settle()
        assert reader.keys() == ["a", "b"]
        node.commit(b"c\n", proposal(None, 2, mutable=True))
        await settle()
        answer = reader.answer()
        assert answer.status == 200
        assert answer.headers["content-type"] == "text/event-stream"
        assert answer.headers["cache-control"] == "no-store"
        assert reader.blocks()[0] == (
            "id: 00000000000000000001\n"
            'data: {"key":"a","value":"v","value_base64":"dg==","version":1,"mutable":false,"deleted":false,'
            '"first_version":1}'
        )
        assert reader.blocks()[2] == (
            "id: 00000000000000000003\n"
            'data: {"key":"c%0A","value":null,"value_base64":null,"version":2,"mutable":true,"deleted":true,'
            '"first_version":2}'
        )

    in_a_loop(story)


def test_a_cursor_resumes_and_the_header_wins() -> None:
    async def story(node: FakeNode, api: Api) -> None:
        commit_keys(node, b"a", b"b", b"c")
        by_query = Reader(api, f"/v2/changes?after={stamp(1).hex()}")
        by_header = Reader(api, last_event_id=stamp(2).hex())
        by_both = Reader(api, f"/v2/changes?after={stamp(1).hex()}", last_event_id=stamp(2).hex().upper())
        await settle()
        assert [reader.keys() for reader in (by_query, by_header, by_both)] == [["b", "c"], ["c"], ["c"]]

    in_a_loop(story)


@pytest.mark.parametrize("before", [0, 1, 2, 37])
def test_only_what_is_to_come(before: int) -> None:
    async def story(node: FakeNode, api: Api) -> None:
        commit_keys(node, *(b"old",) * before)
        reader = Reader(api, "/v2/changes?after=now")
        await settle()
        assert reader.keys() == []
        commit_keys(node, b"new")
        await settle()
        assert reader.keys() == ["new"]

    in_a_loop(story)


def test_a_long_backlog_is_sent_in_batches() -> None:
    async def story(node: FakeNode, api: Api) -> None:
        keys = [b"k%02d" % i for i in range(3 * routes_changes.BATCH_ROWS)]
        commit_keys(node, *keys)
        reader = Reader(api)
        await asyncio.sleep(0)
        assert len(reader.keys()) == routes_changes.BATCH_ROWS
        await settle()
        assert reader.keys() == [key.decode() for key in keys]

    in_a_loop(story)


def test_a_prefix_and_no_waiting() -> None:
    async def story(node: FakeNode, api: Api) -> None:
        commit_keys(node, b"user/a", b"job/b", b"user/c")
        reader = Reader(api, "/v2/changes?prefix=user/&follow=false")
        await settle()
        assert reader.keys() == ["user/a", "user/c"]
        assert reader.wire.sent.endswith(b"0\r\n\r\n")
        assert node.listeners == []
        commit_keys(node, b"user/d")
        await settle()
        assert reader.keys() == ["user/a", "user/c"]

    in_a_loop(story)


def test_a_slow_reader_falls_behind_in_the_log_alone() -> None:
    async def story(node: FakeNode, api: Api) -> None:
        reader = Reader(api)
        await settle()
        reader.wire.choked = True
        sent = len(reader.wire.sent)
        for _ in range(100):
            node.commit(b"large", proposal(bytes(1000), 1))
        await settle()
        assert len(reader.wire.sent) == sent
        reader.drain()
        await settle()
        assert reader.ids() == [stamp(i + 1).hex() for i in range(100)]

    in_a_loop(story)


def test_a_reader_that_has_gone_is_forgotten() -> None:
    async def story(node: FakeNode, api: Api) -> None:
        reader = Reader(api)
        await settle()
        assert len(node.listeners) == 1
        reader.hang_up()
        assert node.listeners == []
        commit_keys(node, b"a")
        await settle()
        assert reader.keys() == []

    in_a_loop(story)


def wind(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From now on timers of this loop ring when the test says so: those that wait, each once."""
    loop, waiting = asyncio.get_running_loop(), list[asyncio.TimerHandle]()

    def call_later(delay: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        assert delay == event_feeds.HEARTBEAT_S
        timer = asyncio.TimerHandle(loop.time() + delay, callback, (), loop)
        waiting.append(timer)
        return timer

    def ring() -> None:
        due = waiting[:]
        waiting.clear()
        for timer in due:
            if not timer.cancelled():
                timer._run()

    monkeypatch.setattr(loop, "call_later", call_later)
    return ring


def test_heartbeats_carry_the_cursor(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(node: FakeNode, api: Api) -> None:
        ring = wind(monkeypatch)
        quiet, filtered = Reader(api), Reader(api, "/v2/changes?prefix=user/")
        await settle()
        assert quiet.blocks() == []
        ring()
        ring()
        assert quiet.blocks() == [": alive", ": alive"]
        commit_keys(node, b"job/b")
        await settle()
        ring()
        assert filtered.blocks()[-1] == ": alive\nid: 00000000000000000001"
        assert filtered.keys() == []
        filtered.wire.choked = True
        sent = len(filtered.wire.sent)
        ring()
        assert len(filtered.wire.sent) == sent, "not even a heartbeat is piled up"
        api.close()
        ring()

    in_a_loop(story)


def test_streams_are_limited() -> None:
    async def story(node: FakeNode, api: Api) -> None:
        readers = [Reader(api) for _ in range(routes_changes.MAX_STREAMS)]
        await settle()
        answer = Reader(api).answer()
        assert answer.status == 429
        assert answer.error() == {
            "code": "too_many_streams",
            "message": "64 streams of changes are open already",
            "definite": True,
            "retry_after_ms": 1000,
        }
        readers[7].hang_up()
        late = Reader(api)
        assert late.answer().status == 200
        api.close()
        await settle()
        assert node.listeners == []
        assert late.wire.sent.endswith(b"0\r\n\r\n")

    in_a_loop(story)


# Over real sockets


def read_events(response: http.client.HTTPResponse, count: int) -> list[tuple[str, str]]:
    """(id, key) of the next events."""
    found: list[tuple[str, str]] = []
    cursor = ""
    while len(found) < count:
        line = response.readline().decode().rstrip("\n")
        if line.startswith("id: "):
            cursor = line[4:]
        elif line.startswith("data: "):
            found.append((cursor, json.loads(line[6:])["key"]))
    return found


def open_stream(port: int, **headers: str) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("GET", "/v2/changes", headers=headers)
    return connection, connection.getresponse()


def test_every_replica_tells_of_every_commit() -> None:
    with running() as cluster:
        streams = [open_stream(served.port) for served in cluster.served]
        for i, served in enumerate(cluster.served):
            assert served.ask("PUT", f"/v2/kv/from-{i}", b"v").status == 201
        for connection, response in streams:
            assert {key for _, key in read_events(response, 3)} == {"from-0", "from-1", "from-2"}
            response.close()
            connection.close()


def test_a_broken_connection_is_resumed() -> None:
    with running(1) as cluster:
        served = cluster.served[0]
        for i in range(5):
            served.ask("PUT", f"/v2/kv/k{i}", b"v")
        connection, response = open_stream(served.port)
        first = read_events(response, 2)
        response.close()
        connection.close()
        connection, response = open_stream(served.port, **{"Last-Event-ID": first[-1][0]})
        assert [key for _, key in first + read_events(response, 3)] == ["k0", "k1", "k2", "k3", "k4"]
        response.close()
        connection.close()


def test_a_reader_that_stops_reading_is_hung_up_on() -> None:
    """... and nobody else notices, nor is anything piled up for it."""
    with running(1, HttpLimits(write_timeout_s=2.0)) as cluster:
        served = cluster.served[0]
        for i in range(24):
            assert served.ask("PUT", f"/v2/kv/k{i:02}", bytes(1 << 20)).status == 201
        with socket.create_connection(("127.0.0.1", served.port), timeout=PATIENCE_S) as stalled:
            stalled.sendall(b"GET /v2/changes HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert stalled.recv(1) == b"H"
            while cluster.call(lambda: len(served.node.feed._listeners)):
                assert served.ask("GET", "/v2/kv/k00").status == 200
        assert served.ask("GET", "/v2/changes?follow=false").status == 200
