"""Timelines of some writes as server-sent events. Nothing is kept for a reader: one that is slow misses samples, and
the transport closes the connection of one that stops reading."""

import msgspec

from epoxy.api.http.backend import AccessInForce
from epoxy.api.http.calls import ApiCall
from epoxy.api.http.event_feeds import EVENTS, EventFeed, EventFeeds
from epoxy.api.http.routes import Route, RouteAnswer, refusal
from epoxy.model.access import Access
from epoxy.model.api_world import CommitSample
from epoxy.node.commit_samples import CommitSampler, SampleReader

MAX_SAMPLE_STREAMS = 16
"""Each is sent every sample: twenty a second. Sixteen are the screens of a team."""


class SampleRoutes:
    """All readers of one node."""

    def __init__(self, sampler: CommitSampler, access: AccessInForce) -> None:
        self._sampler = sampler
        self._feeds: EventFeeds[SampleFeed] = EventFeeds(access, MAX_SAMPLE_STREAMS, "samples")

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
        if self._feeds.has_room(call):
            self._feeds.add(SampleFeed(self._sampler, call))

    def close(self) -> None:
        """The node stops."""
        self._feeds.close()


class SampleFeed(EventFeed):
    """One reader. It is sent samples of keys that it may read."""

    def __init__(self, sampler: CommitSampler, call: ApiCall) -> None:
        super().__init__(call)
        self.follow(sampler.subscribe(SampleReader(self._wants, self._take)))

    def _wants(self, key: bytes) -> bool:
        return self.principal.may_read(key)

    def _take(self, sample: CommitSample) -> None:
        if self.stream.writable:
            self.stream.write(b"data: %s\n\n" % msgspec.json.encode(sample))
