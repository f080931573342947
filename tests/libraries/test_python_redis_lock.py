"""python-redis-lock. It waits on a list, and its scripts name that list as a second key."""

import pytest
import redis
import redis_lock

from tests.libraries.judge import JUDGED_BY_REDIS, until


def test_it_is_taken_once_and_ends(clients: list["redis.Redis"]) -> None:
    here, there, _ = clients
    lock = redis_lock.Lock(here, "prl/a", expire=1)
    other = redis_lock.Lock(there, "prl/a", expire=1)
    assert lock.acquire(blocking=False)
    assert not other.acquire(blocking=False)
    assert lock.get_owner_id() == lock.id
    until(lambda: other.acquire(blocking=False), "the lock is free")


def test_its_release_is_refused_with_a_reason(clients: list["redis.Redis"]) -> None:
    """Redis releases it. Here a script has one key, so such a lock ends by its expiry alone."""
    here, *_ = clients
    lock = redis_lock.Lock(here, "prl/b", expire=100)
    assert lock.acquire(blocking=False)
    if JUDGED_BY_REDIS:
        lock.release()
        assert not here.exists("lock:prl/b")
    else:
        with pytest.raises(redis.ResponseError, match="one key"):
            lock.release()
        assert here.exists("lock:prl/b")
