"""aiocache: a cache, counters, compare-and-set by a script, and its RedLock."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiocache import Cache
from aiocache.lock import OptimisticLock, OptimisticLockError, RedLock

from tests.libraries.judge import HOST, Doors


def told(doors: Doors, story: Callable[[Any, Any], Awaitable[None]]) -> None:
    async def run() -> None:
        here, there, _ = (Cache(Cache.REDIS, endpoint=HOST, port=port, namespace="aio") for port in doors.ports)
        try:
            await story(here, there)
        finally:
            await here.close()
            await there.close()

    asyncio.run(run())


def test_values(doors: Doors) -> None:
    async def story(here: Any, _: Any) -> None:
        await here.set("a", "1")
        await here.set("b", "2", ttl=100)
        await here.set("c", "3", ttl=0.3)
        assert await here.multi_get(["a", "b", "never"]) == ["1", "2", None]
        while await here.exists("c"):
            await asyncio.sleep(0.02)
        assert await here.add("d", "1") is True
        with pytest.raises(ValueError, match="already exists"):
            await here.add("d", "2")
        await here.multi_set([("g", "3"), ("h", "4")])
        assert await here.multi_get(["g", "h"]) == ["3", "4"]
        assert await here.increment("n", 5) == 5
        assert await here.increment("n") == 6
        assert await here.expire("a", 100)
        assert await here.expire("a", 0)
        assert await here.delete("a") == 1

    told(doors, story)


def test_several_with_a_ttl(doors: Doors) -> None:
    async def story(here: Any, _: Any) -> None:
        await here.multi_set([("e", "1"), ("f", "2")], ttl=100)
        assert await here.multi_get(["e", "f"]) == ["1", "2"]

    told(doors, story)


def test_compare_and_set(doors: Doors) -> None:
    async def story(here: Any, there: Any) -> None:
        await here.set("cas", "1")
        async with OptimisticLock(here, "cas") as lock:
            await lock.cas("2")
        async with OptimisticLock(here, "cas") as lock:
            await there.set("cas", "other")
            with pytest.raises(OptimisticLockError):
                await lock.cas("3", ttl=100)
        assert await there.get("cas") == "other"

    told(doors, story)


def test_its_lock_computes_once(doors: Doors) -> None:
    async def story(here: Any, _: Any) -> None:
        computed = 0

        async def compute(cache: Any) -> str:
            nonlocal computed
            async with RedLock(cache, "dear", lease=30):
                found = await cache.get("dear")
                if found is None:
                    computed += 1
                    await asyncio.sleep(0.05)
                    await cache.set("dear", "value", ttl=100)
            return str(await cache.get("dear"))

        assert await asyncio.gather(*(compute(here) for _ in range(4))) == ["value"] * 4
        assert computed == 1

    told(doors, story)
