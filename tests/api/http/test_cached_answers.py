"""Answers from the transport's cache, which no handler sees: given to those alone who may read the key."""

from collections.abc import Awaitable, Callable

import pytest

from epoxy.model.access import AccessRole
from epoxy.model.writes import ReadResult, Source
from tests.api.http.access_bench import Guarded, bearer
from tests.api.http.http_bench import proposal
from tests.transport.http.harness import Client, RunningServer, with_server

READER = AccessRole.READER
KEY = b"/v2/kv/user/ann"

Story = Callable[[Guarded, RunningServer], Awaitable[None]]


async def status(client: Client, path: bytes, token: int = 0) -> int:
    shown = b"authorization: %b\r\n" % bearer(token).encode() if token else b""
    client.send(b"GET %b HTTP/1.1\r\nhost: localhost\r\n%b\r\n" % (path, shown))
    head, _ = await client.answer()
    return int(head.split()[1])


def play(story: Story, *, told: bool = True) -> None:
    """`told`: the cache hears of changes of grants, as it does in a node's process."""
    here = Guarded()
    here.node.here = ReadResult(committed=proposal(b"secret"), source=Source.LOCAL)

    async def run(server: RunningServer) -> None:
        if told:
            here.node.access.watchers.append(server.connections.response_cache.rights_changed)
        await story(here, server)

    with_server(here.api, run)


async def filled(here: Guarded, server: RunningServer) -> Client:
    """A connection that has its answers from the cache."""
    here.node.give(1, READER)
    client = await server.dial()
    cache = server.connections.response_cache
    for _ in range(3):
        assert await status(client, KEY, 1) == 200
    assert cache.served == 1
    return client


async def strangers_get_nothing(here: Guarded, server: RunningServer) -> None:
    known = await filled(here, server)
    here.node.give(2, READER, prefixes=(b"other/",))
    here.node.give(3, AccessRole.OPERATOR)
    stranger, elsewhere, operator = [await server.dial() for _ in range(3)]
    for _ in range(3):
        assert await status(stranger, KEY) == 401
        assert await status(elsewhere, KEY, 2) == 403
        assert await status(elsewhere, b"/v2/kv/other/x", 2) == 200
        assert await status(operator, KEY, 3) == 403
    assert await status(known, KEY) == 401, "the same connection, without its token"
    assert await status(known, KEY, 1) == 200


def test_a_stranger_gets_no_cached_answer() -> None:
    play(strangers_get_nothing)


def test_a_limited_reader_gets_those_under_its_prefixes() -> None:
    async def story(here: Guarded, server: RunningServer) -> None:
        await filled(here, server)
        cache = server.connections.response_cache
        here.node.give(2, READER, prefixes=(b"user/", b"100%"))
        client = await server.dial()
        for _ in range(3):
            assert await status(client, KEY, 2) == 200
        assert cache.served == 2, "the third time from the cache"
        for path in (b"/v2/kv/100%41", b"/v2/kv/us%65q/x", b"/v2/kv/usera", b"/v2/kv/%FF"):
            assert [await status(client, path, 2) for _ in range(2)] in ([403, 403], [400, 400]), path
        assert await status(client, b"/v2/kv/100%25x", 2) == 200
        assert await status(client, b"/v2/kv/us%65r/ann", 2) == 200
        served = cache.served
        everything = await server.dial()
        for _ in range(3):
            await status(everything, b"/v2/kv/100%41", 1)
        assert cache.served == served + 1
        assert await status(client, b"/v2/kv/100%41", 2) == 403, (
            "the answer is cached, and its address begins like 100%"
        )

    play(story)


async def revoked_at_once(here: Guarded, server: RunningServer) -> None:
    client = await filled(here, server)
    here.node.revoke(1)
    assert await status(client, KEY, 1) == 401
    here.node.give(1, READER, prefixes=(b"other/",))
    assert [await status(client, KEY, 1) for _ in range(3)] == [403] * 3


def test_what_is_revoked_is_refused_on_an_open_connection() -> None:
    play(revoked_at_once)


def test_a_client_whose_requests_are_counted_gets_none() -> None:
    async def story(here: Guarded, server: RunningServer) -> None:
        here.node.give(1, READER, requests_per_s=1000)
        client = await server.dial()
        assert [await status(client, KEY, 1) for _ in range(4)] == [200] * 4
        assert server.connections.response_cache.served == 0

    play(story)


def test_planted_a_cache_that_does_not_hear_of_changes_serves_the_revoked() -> None:
    with pytest.raises(AssertionError):
        play(revoked_at_once, told=False)


def test_planted_prefixes_that_are_not_compared_let_strangers_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("epoxy.api.http.key_answers.addresses", lambda _principal: (b"/",))
    with pytest.raises(AssertionError):
        play(strangers_get_nothing)
