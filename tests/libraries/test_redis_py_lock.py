"""`redis.lock.Lock` and its async twin: SET NX [PX], and scripts that release, extend and reacquire."""

import asyncio
import time

import pytest
import redis
import redis.asyncio
from redis.exceptions import LockNotOwnedError

from tests.libraries.judge import Doors, crowd


def test_two_clients_never_hold_it_together(clients: list["redis.Redis"]) -> None:
    overlap = crowd([lambda each=each: each.lock("rp/crowd", timeout=30, sleep=0.01) for each in clients])  # type: ignore[misc]
    assert (overlap.most, overlap.entered) == (1, 9)


def test_without_a_timeout_it_is_held_until_it_is_released(clients: list["redis.Redis"]) -> None:
    here, there, _ = clients
    lock, other = here.lock("rp/held"), there.lock("rp/held")
    assert lock.acquire(blocking=False)
    assert not other.acquire(blocking=False)
    assert here.ttl("rp/held") == -1
    assert lock.locked()
    assert lock.owned()
    lock.release()
    assert other.acquire(blocking=False)
    other.release()


def test_a_holder_that_is_gone_loses_it_after_the_timeout_and_not_before(clients: list["redis.Redis"]) -> None:
    here, there, _ = clients
    lock, other = here.lock("rp/lost", timeout=0.4), there.lock("rp/lost", timeout=30)
    began = time.monotonic()
    assert lock.acquire(blocking=False)
    assert other.acquire(blocking_timeout=30)
    assert time.monotonic() - began >= 0.4
    with pytest.raises(LockNotOwnedError):
        lock.release()
    assert other.owned()
    other.release()


def test_extend_and_reacquire(clients: list["redis.Redis"]) -> None:
    here, there, _ = clients
    lock = here.lock("rp/longer", timeout=100)
    assert lock.acquire()
    assert lock.extend(100)
    assert 100_000 < here.pttl("rp/longer") <= 200_000
    assert lock.extend(50, replace_ttl=True)
    assert 0 < here.pttl("rp/longer") <= 50_000
    assert lock.reacquire()
    assert 50_000 < here.pttl("rp/longer") <= 100_000
    there.delete("rp/longer")
    with pytest.raises(LockNotOwnedError):
        lock.extend(10)
    with pytest.raises(LockNotOwnedError):
        lock.reacquire()


def test_async(doors: Doors) -> None:
    async def told() -> None:
        clients = [redis.asyncio.Redis(port=port) for port in doors.ports]
        inside, most, entered = 0, 0, 0

        async def take(client: "redis.asyncio.Redis") -> None:
            nonlocal inside, most, entered
            for _ in range(3):
                async with client.lock("rp/async", timeout=30, sleep=0.01):
                    inside, entered = inside + 1, entered + 1
                    most = max(most, inside)
                    await asyncio.sleep(0.005)
                    inside -= 1

        await asyncio.gather(*map(take, clients))
        assert (most, entered) == (1, 9)
        here, there, _ = clients
        lock = here.lock("rp/async/longer", timeout=100)
        assert await lock.acquire()
        assert await lock.extend(100)
        assert await here.pttl("rp/async/longer") > 100_000
        assert await lock.reacquire()
        assert await here.pttl("rp/async/longer") <= 100_000
        assert not await there.lock("rp/async/longer").acquire(blocking=False)
        await lock.release()
        stolen = here.lock("rp/async/stolen", timeout=0.1)
        await stolen.acquire()
        while await there.exists("rp/async/stolen"):
            await asyncio.sleep(0.02)
        with pytest.raises(LockNotOwnedError):
            await stolen.release()
        for client in clients:
            await client.aclose()

    asyncio.run(told())
