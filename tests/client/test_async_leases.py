"""Locks for asyncio: a lock that is lost ends the block that holds it."""

import asyncio
import pickle
from typing import Any

import pytest

from epoxy.client.async_leases import AsyncLock
from epoxy.client.calls import Call
from epoxy.model.errors import InvalidRequest, Lost, NotObtained
from tests.client.lease_world import LeaseWorld

KEY = "/v2/kv/k"
PATIENCE_S = 20.0


def lock(world: LeaseWorld, ttl: float = 30.0) -> AsyncLock:
    return AsyncLock(world.run_async, "k", ttl, 0, "")


def test_taken_renewed_and_given_back() -> None:
    world = LeaseWorld()

    async def story() -> None:
        async with lock(world, ttl=0.5) as mine:
            while world.asked.count("PATCH") < 2:
                await asyncio.sleep(0.01)
            assert (mine.is_held, mine.token) == (True, 1)
            with pytest.raises(NotObtained):
                await lock(world).acquire()
            with pytest.raises(InvalidRequest, match="held already"):
                await mine.acquire()
            with pytest.raises(TypeError, match="is not pickled"):
                pickle.dumps(mine)
        assert world.values[KEY][0] is None
        with pytest.raises(InvalidRequest, match="is not held"):
            mine.check()
        await mine.release()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))


def test_a_lock_that_is_lost_cancels_its_block_and_nothing_else() -> None:
    world = LeaseWorld()

    async def lose() -> None:
        async with lock(world, ttl=0.5):
            world.values[KEY] = (b"theirs", 7)
            await asyncio.Event().wait()

    async def story() -> str:
        with pytest.raises(Lost, match="is over, or another's"):
            await lose()
        assert world.values[KEY] == (b"theirs", 7)
        await asyncio.sleep(0)
        return "went on"

    assert asyncio.run(asyncio.wait_for(story(), PATIENCE_S)) == "went on"


def test_a_block_that_is_cancelled_gives_the_lock_back() -> None:
    world = LeaseWorld()

    async def hold(begun: asyncio.Event) -> None:
        async with lock(world):
            begun.set()
            await asyncio.Event().wait()

    async def story() -> None:
        begun = asyncio.Event()
        task = asyncio.create_task(hold(begun))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))
    assert world.values[KEY][0] is None


def test_the_exception_of_a_block_is_not_replaced() -> None:
    world = LeaseWorld()

    async def story() -> None:
        async with lock(world) as mine:
            mine._flow.held.ended("lost")
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        asyncio.run(story())


def test_two_tasks_do_not_take_one_object_and_it_is_not_believed_in_while_it_is_given_back() -> None:
    world = LeaseWorld()
    believed = []

    async def story() -> None:
        mine = lock(world)

        async def slowly(call: Call[Any]) -> Any:
            believed.append((call.method, mine.is_held))
            await asyncio.sleep(0)
            return world.run(call)

        mine._run = slowly
        taken, refused = await asyncio.gather(mine.acquire(), mine.acquire(), return_exceptions=True)
        assert taken is mine
        assert isinstance(refused, InvalidRequest)
        await mine.release()

    asyncio.run(asyncio.wait_for(story(), PATIENCE_S))
    assert believed == [("PUT", False), ("DELETE", False)]
