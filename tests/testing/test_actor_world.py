"""A cluster and workers for tests of actors, as the page about clients shows them."""

import asyncio

import pytest

import epoxy
from epoxy import InvalidRequest, Which
from epoxy.envoy import Actor, Worker, WorkerRefused

worker = Worker("http://nowhere.example:1", pool="chat", key="of the code")


@worker.actor("room")
async def room(actor: Actor) -> None:
    asked = 0
    async for request in actor:
        asked += 1
        request.respond(f"{actor.key} {asked} {request.text}")


LOBBY = Which(name="room", key="lobby")


def test_a_few_lines_are_enough() -> None:
    with epoxy.testing.actors(worker) as world:
        client = world.client()
        assert client.actors.request(LOBBY, b"hi", pool="chat") == b"lobby 1 hi"
        assert client.actors.request(LOBBY, b"ho", pool="chat") == b"lobby 2 ho"
        (first,) = world.workers
        assert [actor.key for actor in first.worker.actors] == ["lobby"]
        second = world.add_worker(version=2)
        first.drain()
        assert not first.running
        assert client.actors.request(LOBBY, b"hi", pool="chat") == b"lobby 1 hi", "it moved, without a state"
        assert [actor.key for actor in second.worker.actors] == ["lobby"]
        with pytest.raises(WorkerRefused, match="is in use"):
            world.add_worker(key=second.worker.key)
    assert not any(each.running for each in (first, second))
    assert worker.key == "of the code"


def test_in_async_tests_too() -> None:
    async def story() -> None:
        async with epoxy.testing.actors(worker) as world, world.async_client() as client:
            assert await client.actors.request(LOBBY, b"hi", pool="chat") == b"lobby 1 hi"

    asyncio.run(story())


def test_a_world_that_is_not_open_says_how_to_open_it() -> None:
    with pytest.raises(InvalidRequest, match=r"with epoxy\.testing\.actors\(worker\) as world"):
        epoxy.testing.actors(worker).client()
