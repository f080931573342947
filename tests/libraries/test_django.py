"""django: its own cache backend for Redis, sessions in that cache, and django-redis with its lock."""

import time
from typing import Any

import pytest
from django.contrib.sessions.backends.cache import SessionStore
from django.core.cache import caches

from tests.libraries.judge import crowd, until

pytestmark = pytest.mark.usefixtures("site")


@pytest.fixture(params=["default", "other"])
def cache(request: pytest.FixtureRequest) -> Any:
    return caches[request.param]


def test_values(cache: Any) -> None:
    cache.set("a", {"n": [1, 2]})
    assert cache.get("a") == {"n": [1, 2]}
    assert cache.get("none", "default") == "default"
    assert "a" in cache
    assert cache.delete("a") is True
    assert cache.delete("a") is False
    assert cache.get("a") is None
    assert cache.get_or_set("b", lambda: 7, 100) == 7
    assert cache.get_or_set("b", lambda: 8, 100) == 7


def test_add_creates_and_does_not_replace(cache: Any) -> None:
    cache.delete("add")
    assert cache.add("add", 1, 100) is True
    assert cache.add("add", 2, 100) is False
    assert cache.get("add") == 1


def test_numbers(cache: Any) -> None:
    cache.set("n", 1, 100)
    assert cache.incr("n") == 2
    assert cache.incr("n", 40) == 42
    assert cache.decr("n", 2) == 40
    assert cache.get("n") == 40
    with pytest.raises(ValueError, match="not found"):
        cache.incr("never")


def test_many(cache: Any) -> None:
    cache.set_many({"m1": 1, "m2": "two"}, 100)
    assert cache.get_many(["m1", "m2", "m3"]) == {"m1": 1, "m2": "two"}
    cache.delete_many(["m1", "m2"])
    assert cache.get_many(["m1", "m2"]) == {}


def test_what_has_a_timeout_ends_and_not_early(cache: Any) -> None:
    began = time.monotonic()
    cache.set("short", "x", 1)
    until(lambda: cache.get("short") is None, "over")
    assert time.monotonic() - began >= 1
    cache.set("longer", "x", 1)
    assert cache.touch("longer", 1000) is True
    cache.set("forever", "x", None)
    assert cache.touch("forever", None) is not None
    assert cache.touch("never", 1000) is False


def test_a_session() -> None:
    session = SessionStore()
    session["user"] = "ada"
    session.save()
    key = session.session_key
    assert SessionStore(key)["user"] == "ada"
    assert session.exists(key)
    session.cycle_key()
    assert session.session_key != key
    assert SessionStore(session.session_key)["user"] == "ada"
    assert SessionStore(key).load() == {}
    session.set_expiry(1)
    session.save()
    until(lambda: SessionStore(session.session_key).load() == {}, "the session is over")
    session.delete()


def test_django_redis_of_its_own() -> None:
    cache = caches["other"]
    assert cache.set("dr/nx", "1", timeout=100, nx=True) is True
    assert cache.set("dr/nx", "2", timeout=100, nx=True) is False
    assert cache.get("dr/nx") == "1"
    assert 0 < cache.ttl("dr/nx") <= 100
    assert cache.expire("dr/nx", timeout=500) is True
    assert 100_000 < cache.pttl("dr/nx") <= 500_000
    assert cache.persist("dr/nx") is True
    assert cache.ttl("dr/nx") is None
    for i in range(20):
        cache.set(f"dr/scan/{i}", i)
    assert len(list(cache.iter_keys("dr/scan/*"))) == 20
    assert cache.delete_pattern("dr/scan/*") == 20


def test_the_lock_of_django_redis() -> None:
    cache = caches["other"]
    overlap = crowd([lambda: cache.lock("dr/lock", timeout=30, sleep=0.01)] * 3)
    assert (overlap.most, overlap.entered) == (1, 9)
