"""Readers of server-sent events: a stream that ended before it was followed, and room for another."""

import asyncio
from typing import cast

from epoxy.api.http.backend import AccessInForce
from epoxy.api.http.calls import ApiCall
from epoxy.api.http.event_feeds import EventFeed, EventFeeds
from epoxy.protocol.access.principal import OPEN, Principal
from epoxy.transport.http.exchange import Exchange, Stream


class Call:
    """An exchange whose connection may be lost before its handler runs."""

    def __init__(self, *, gone: bool = False) -> None:
        self.principal: Principal | None = OPEN
        self.failed: list[int] = []
        self.made = Stream(cast(Exchange, None))
        if gone:
            self.made.lost()

    def stream(self, _content_type: bytes, _headers: object) -> Stream:
        return self.made

    def principal_now(self) -> Principal | None:
        return self.principal

    def fail(self, status: int, *_words: object, **_more: object) -> None:
        self.failed.append(status)


class Grants:
    def __init__(self) -> None:
        self.watchers: list[object] = []


def feeds(most: int) -> "EventFeeds[EventFeed]":
    return EventFeeds(cast(AccessInForce, Grants()), most, "words")


def opened(call: Call, ended: list[str]) -> EventFeed:
    feed = EventFeed(cast(ApiCall, call))
    feed.follow(lambda: ended.append("left"))
    return feed


def test_a_reader_that_is_gone_already_is_unsubscribed_and_takes_no_room() -> None:
    async def story() -> None:
        ended: list[str] = []
        readers, call = feeds(1), Call(gone=True)
        readers.add(opened(call, ended))
        assert ended == ["left"]
        assert readers.has_room(cast(ApiCall, call))

    asyncio.run(story())


def test_room_is_limited_and_comes_back_with_the_end_of_a_reader() -> None:
    async def story() -> None:
        ended: list[str] = []
        readers, first, second = feeds(1), Call(), Call()
        readers.add(opened(first, ended))
        assert not readers.has_room(cast(ApiCall, second))
        assert second.failed == [429]
        first.made.lost()
        assert ended == ["left"]
        assert readers.has_room(cast(ApiCall, second))

    asyncio.run(story())
