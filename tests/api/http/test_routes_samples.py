"""Samples of commits as server-sent events: to readers who may read them, never more than they take."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from epoxy.api.http import routes_samples
from epoxy.api.http.event_feeds import HEARTBEAT_S
from epoxy.api.http.router import Api
from epoxy.api.http.routes_samples import MAX_SAMPLE_STREAMS, SampleRoutes
from epoxy.api.metrics import Metrics
from epoxy.model.access import AccessRole
from epoxy.node.commit_samples import SAMPLE_EVERY_MS, CommitSampler
from tests.api.http.access_bench import GuardedNode, bearer
from tests.api.http.http_bench import Answer, FakeNode, Wire, request
from tests.node.bench import Node
from tests.protocol.keys.harness import config_of


class Reader:
    def __init__(self, api: Api, **headers: str) -> None:
        self.wire = Wire(request("GET", "/v2/commits/samples", None, **headers))
        api(self.wire.exchange)

    def answer(self) -> Answer:
        return self.wire.answer()

    def keys(self) -> list[str]:
        lines = self.answer().body.decode().split("\n")
        return [json.loads(line[6:])["key"] for line in lines if line.startswith("data: ")]

    def hang_up(self) -> None:
        assert self.wire.stream is not None
        self.wire.stream.lost()

    @property
    def is_over(self) -> bool:
        return self.wire.sent.endswith(b"0\r\n\r\n")


class Served:
    """A replica alone, whose writes are decided at once, behind the API of a node."""

    def __init__(self, node: FakeNode) -> None:
        self.engine = Node(config=config_of(1))
        self.sampler = CommitSampler(self.engine.driver, lambda: 0.0)
        self.routes = SampleRoutes(self.sampler, node.access)
        self.api = Api(node, Metrics(), more=self.routes.table())

    def commit(self, *keys: bytes) -> None:
        for key in keys:
            self.engine.write(key=key)
            self.engine.disk.sync()
            self.engine.clock.advance(SAMPLE_EVERY_MS)


def in_a_loop(test: Callable[[Served], Coroutine[Any, Any, None]]) -> None:
    async def story() -> None:
        await test(Served(FakeNode()))

    asyncio.run(story())


def test_samples_are_sent_as_they_come() -> None:
    async def story(served: Served) -> None:
        reader = Reader(served.api)
        assert (reader.answer().status, reader.answer().headers["content-type"]) == (200, "text/event-stream")
        served.commit(b"a", b"b\n")
        assert reader.keys() == ["a", "b%0A"]
        second = Reader(served.api)
        served.commit(b"c")
        assert (reader.keys(), second.keys()) == (["a", "b%0A", "c"], ["c"])

    in_a_loop(story)


def test_a_slow_reader_misses_samples_and_nothing_is_kept_for_it() -> None:
    async def story(served: Served) -> None:
        slow, quick = Reader(served.api), Reader(served.api)
        slow.wire.choked = True
        sent = len(slow.wire.sent)
        served.commit(*(b"%d" % i for i in range(100)))
        assert len(slow.wire.sent) == sent
        assert len(quick.keys()) == 100
        slow.wire.choked = False
        assert slow.wire.stream is not None
        slow.wire.stream.drained()
        served.commit(b"later")
        assert slow.keys() == ["later"]

    in_a_loop(story)


def test_a_stream_that_keeps_for_the_slow_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: it writes whether the reader takes it or not."""

    def pile(self: routes_samples.SampleFeed, sample: object) -> None:  # noqa: ARG001
        self.stream.write(b"data: {}\n\n")

    monkeypatch.setattr(routes_samples.SampleFeed, "_take", pile)
    with pytest.raises(AssertionError):
        test_a_slow_reader_misses_samples_and_nothing_is_kept_for_it()


def test_the_driver_is_left_alone_when_the_last_reader_is_gone() -> None:
    async def story(served: Served) -> None:
        assert served.sampler.is_idle
        readers = [Reader(served.api) for _ in range(3)]
        assert not served.sampler.is_idle
        for reader in readers:
            assert not served.sampler.is_idle
            reader.hang_up()
        assert served.sampler.is_idle
        served.commit(b"a")
        assert served.sampler.is_idle

    in_a_loop(story)


def test_streams_of_samples_are_limited() -> None:
    async def story(served: Served) -> None:
        readers = [Reader(served.api) for _ in range(MAX_SAMPLE_STREAMS)]
        refused = Reader(served.api).answer()
        assert (refused.status, refused.error()["code"]) == (429, "too_many_streams")
        readers[3].hang_up()
        late = Reader(served.api)
        assert late.answer().status == 200
        served.routes.close()
        assert late.is_over
        assert served.sampler.is_idle

    in_a_loop(story)


def test_heartbeats_keep_the_connection_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(served: Served) -> None:
        loop, beats = asyncio.get_running_loop(), list[Callable[[], None]]()
        real = loop.call_later

        def call_later(delay: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
            assert delay == HEARTBEAT_S
            beats.append(callback)
            return real(3600, lambda: None)

        monkeypatch.setattr(loop, "call_later", call_later)
        reader = Reader(served.api)
        beats.pop()()
        beats.pop()()
        assert reader.answer().body.decode() == ": alive\n\n: alive\n\n"
        reader.wire.choked = True
        sent = len(reader.wire.sent)
        beats.pop()()
        assert len(reader.wire.sent) == sent
        served.routes.close()

    in_a_loop(story)


# Rights


def test_readers_are_sent_what_they_may_read_until_it_is_revoked() -> None:
    async def story() -> None:
        node = GuardedNode()
        node.give(1, AccessRole.READER)
        node.give(2, AccessRole.READER, prefixes=(b"user/",))
        node.give(3, AccessRole.OPERATOR)
        served = Served(node)
        assert Reader(served.api).answer().status == 401
        assert Reader(served.api, authorization=bearer(3)).answer().status == 403
        everything, some = (Reader(served.api, authorization=bearer(number)) for number in (1, 2))
        served.commit(b"user/a", b"room/b")
        assert (everything.keys(), some.keys()) == (["user/a", "room/b"], ["user/a"])
        node.give(2, AccessRole.READER, prefixes=(b"room/",))
        served.commit(b"room/c", b"user/d")
        assert some.keys() == ["user/a", "room/c"]
        node.revoke(1)
        assert everything.is_over
        assert not some.is_over
        node.give(2, AccessRole.CALLER)
        assert some.is_over
        assert served.sampler.is_idle
        served.commit(b"user/e")
        assert everything.keys() == ["user/a", "room/b", "room/c", "user/d"]

    asyncio.run(story())
