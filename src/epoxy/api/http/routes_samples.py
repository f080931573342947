"""Timelines of some writes as server-sent events. Nothing is kept for a reader: one that is slow misses samples, and
the transport closes the connection of one that stops reading."""

import asyncio

import msgspec

from epoxy.api.http.backend import AccessInForce
from epoxy.api.http.calls import RETRY_AFTER_MS, ApiCall
from epoxy.api.http.routes import Route, RouteAnswer, refusal
from epoxy.api.http.routes_changes import EVENTS, HEADERS, HEARTBEAT_S
from epoxy.model.access import Access
from epoxy.model.api_world import CommitSample
from epoxy.node.commit_samples import CommitSampler, SampleReader
from epoxy.transport.http.exchange import Stream

MAX_SAMPLE_STREAMS = 16
"""Each is sent every sample: twenty a second. Sixteen are the screens of a team."""


class SampleRoutes:
    """All readers of one node."""

    def __init__(self, sampler: CommitSampler, access: AccessInForce) -> None:
        self._sampler = sampler
        self._feeds: set[SampleFeed] = set()
        access.watchers.append(self._look_again)

    def table(self) -> list[Route]:
        return [
            Route(
                method="GET",
                path="/v2/commits/samples",
                handler=self.get,
                kind="http_get_samples",
                access=Access.READ,
                operation="getCommitSamples",
                summary="Timelines of some of this node's writes, as they are answered",
                answers={
                    200: RouteAnswer("Server-sent events.", {EVENTS.decode(): CommitSample}),
                    429: refusal("Too many streams are open.", "too_many_streams"),
                },
                head=False,
            )
        ]

    def get(self, call: ApiCall) -> None:
        call.parameters()
        if len(self._feeds) >= MAX_SAMPLE_STREAMS:
            message = f"{MAX_SAMPLE_STREAMS} streams of samples are open already"
            call.fail(429, "too_many_streams", message, retry_after_ms=RETRY_AFTER_MS)
            return
        stream = call.stream(EVENTS, HEADERS)
        feed = SampleFeed(self._sampler, stream, call)
        self._feeds.add(feed)
        stream.on_close(lambda: self._feeds.discard(feed))

    def _look_again(self) -> None:
        """What is in force has changed."""
        for feed in tuple(self._feeds):
            feed.look_again()

    def close(self) -> None:
        """The node stops."""
        for feed in tuple(self._feeds):
            feed.close()


class SampleFeed:
    """One reader. It is sent samples of keys that it may read."""

    def __init__(self, sampler: CommitSampler, stream: Stream, call: ApiCall) -> None:
        self._stream = stream
        self._call = call
        self._principal = call.principal
        self._over = False
        self._loop = asyncio.get_running_loop()
        self._heartbeat = self._loop.call_later(HEARTBEAT_S, self._beat)
        self._unsubscribe = sampler.subscribe(SampleReader(self._wants, self._take))
        stream.on_close(self._closed)

    def look_again(self) -> None:
        """Whether the reader may still read, and what."""
        principal = self._call.principal_now()
        if principal is None or not principal.reads:
            self.close()
        else:
            self._principal = principal

    def close(self) -> None:
        if not self._over:
            self._closed()
            self._stream.close()

    def _closed(self) -> None:
        if not self._over:
            self._over = True
            self._heartbeat.cancel()
            self._unsubscribe()

    def _wants(self, key: bytes) -> bool:
        return self._principal.may_read(key)

    def _take(self, sample: CommitSample) -> None:
        if self._stream.writable:
            self._stream.write(b"data: %s\n\n" % msgspec.json.encode(sample))

    def _beat(self) -> None:
        self._heartbeat = self._loop.call_later(HEARTBEAT_S, self._beat)
        if self._stream.writable:
            self._stream.write(b": alive\n\n")
