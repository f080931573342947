"""Redlock in two libraries. All doors of a cluster are one store, so a Redlock is given one of them: given all three,
it would find at the second door the lock that it took at the first."""

import time
import warnings

import redis
from redlock import Redlock

from tests.libraries.judge import HOST, Doors, crowd, until

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import pottery


def manager(port: int) -> Redlock:
    return Redlock([{"host": HOST, "port": port}], retry_count=1)


def test_redlock_py(doors: Doors) -> None:
    here, there = manager(doors.ports[0]), manager(doors.ports[1])
    lock = here.lock("redlock/a", 100_000)
    assert 0 < lock.validity < 100_000
    assert there.lock("redlock/a", 100_000) is False
    here.unlock(lock)
    taken = there.lock("redlock/a", 100_000)
    assert taken
    here.unlock(lock)  # a late release of an earlier holder
    assert here.lock("redlock/a", 100_000) is False
    there.unlock(taken)


def test_redlock_py_loses_what_it_does_not_release(doors: Doors) -> None:
    here, there = manager(doors.ports[0]), manager(doors.ports[1])
    began = time.monotonic()
    assert here.lock("redlock/lost", 300)
    until(lambda: there.lock("redlock/lost", 100_000), "the lock is free")
    assert time.monotonic() - began >= 0.3


def test_pottery(clients: list["redis.Redis"]) -> None:
    here, there, _ = clients
    lock = pottery.Redlock(key="a", masters={here}, auto_release_time=100)
    other = pottery.Redlock(key="a", masters={there}, auto_release_time=100)
    assert lock.acquire()
    assert not other.acquire(blocking=False)
    assert 0 < lock.locked() <= 100
    lock.extend()
    lock.release()
    assert other.acquire(blocking=False)
    other.release()


def test_a_crowd_of_pottery(clients: list["redis.Redis"]) -> None:
    makers = [lambda each=each: pottery.Redlock(key="crowd", masters={each}, auto_release_time=60) for each in clients]
    overlap = crowd(makers)  # type: ignore[arg-type]
    assert (overlap.most, overlap.entered) == (1, 9)
