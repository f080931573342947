"""cashews: a cache with locks, rate limits and a decorator."""

import asyncio

from cashews import Cache

from tests.libraries.judge import Doors


def test_cashews(doors: Doors) -> None:
    async def story() -> None:
        cache = Cache()
        cache.setup(doors.url, suppress=False)
        await cache.set("cw/a", {"n": 1}, expire="100s")
        assert await cache.get("cw/a") == {"n": 1}
        assert 0 < await cache.get_expire("cw/a") <= 100
        assert await cache.set("cw/a", 2, exist=False) is False
        assert await cache.exists("cw/a")
        await cache.expire("cw/a", "1000s")
        assert await cache.get_expire("cw/a") > 100
        await cache.set("cw/b", 1)
        await cache.set("cw/c", 2)
        assert await cache.get_many("cw/b", "cw/c", "cw/never") == (1, 2, None)
        assert [await cache.incr("cw/n", expire=100) for _ in range(3)] == [1, 2, 3]
        assert 0 < await cache.get_expire("cw/n") <= 100
        await cache.delete_many("cw/b", "cw/c")
        assert await cache.get("cw/b") is None
        await cache.delete_match("cw/*")
        assert await cache.get("cw/a") is None
        await cache.close()

    asyncio.run(story())


def test_several_at_once(doors: Doors) -> None:
    async def story() -> None:
        cache = Cache()
        cache.setup(doors.url, suppress=False)
        try:
            await cache.set_many({"cw/many/b": 1, "cw/many/c": 2}, expire="100s")
            assert await cache.get_many("cw/many/b", "cw/many/c") == (1, 2)
        finally:
            await cache.close()

    asyncio.run(story())


def test_what_ends(doors: Doors) -> None:
    async def story() -> None:
        cache = Cache()
        cache.setup(doors.url, suppress=False)
        calls = 0

        @cache(ttl=0.3, key="cw/dear:{n}")
        async def dear(n: int) -> int:
            nonlocal calls
            calls += 1
            return n * n

        assert [await dear(7), await dear(7)] == [49, 49]
        assert calls == 1
        while calls == 1:
            assert await dear(7) == 49
            await asyncio.sleep(0.02)
        await cache.close()

    asyncio.run(story())


def test_its_lock(doors: Doors) -> None:
    async def story() -> None:
        cache = Cache()
        cache.setup(doors.url, suppress=False)
        inside, most, entered = 0, 0, 0

        async def take() -> None:
            nonlocal inside, most, entered
            async with cache.lock("cw/lock", expire="30s"):
                inside, entered = inside + 1, entered + 1
                most = max(most, inside)
                await asyncio.sleep(0.01)
                inside -= 1

        await asyncio.gather(*(take() for _ in range(5)))
        assert (most, entered) == (1, 5)
        assert await cache.is_locked("cw/lock") is False
        await cache.close()

    asyncio.run(story())
