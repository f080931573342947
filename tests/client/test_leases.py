"""Locks that block: the thread that renews, and what ends a block."""

import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable

import pytest

from epoxy.client import lease_flow
from epoxy.client.calls import delete
from epoxy.client.leases import Lock
from epoxy.model.errors import InvalidRequest, Lost, NotObtained, Unavailable
from tests.client.lease_world import LeaseWorld

KEY = "/v2/kv/k"
PATIENCE_S = 20.0


@pytest.fixture
def world() -> LeaseWorld:
    return LeaseWorld()


def lock(world: LeaseWorld, ttl: float = 30.0) -> Lock:
    return Lock(world.run, "k", ttl, 0, "")


def reached(world: LeaseWorld, count: int) -> Callable[[], bool]:
    """Waits for so many renewals."""
    enough = threading.Event()

    def before(_method: str) -> None:
        if world.asked.count("PATCH") >= count:
            enough.set()

    world.before = before
    return lambda: enough.wait(PATIENCE_S)


def test_taken_renewed_and_given_back(world: LeaseWorld) -> None:
    renewed = reached(world, 2)
    with lock(world, ttl=0.5) as mine:
        token = mine.token
        assert renewed()
        assert mine.is_held
        assert mine.token == token == 1
        with pytest.raises(NotObtained):
            lock(world).acquire()
    assert world.values[KEY][0] is None
    with lock(world) as next_one:
        assert next_one.token > token


def test_a_lock_that_is_deleted_is_lost(world: LeaseWorld) -> None:
    told = threading.Event()

    def lose() -> None:
        with lock(world, ttl=0.5) as mine:
            mine.on_lost = told.set
            world.values[KEY] = (b"theirs", 7)
            assert told.wait(PATIENCE_S)
            assert not mine.is_held
            for question in (mine.check, lambda: mine.token):
                with pytest.raises(Lost):
                    question()

    with pytest.raises(Lost, match="is over, or another's"):
        lose()
    assert world.values[KEY] == (b"theirs", 7), "another's lock is never deleted"


def test_planted_a_release_without_its_condition(world: LeaseWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_flow, "delete", lambda name, **_: delete(name))
    with lock(world):
        world.values[KEY] = (b"theirs", 7)
    assert world.values[KEY] == (None, 8), "it deleted the lock of another"


def test_the_exception_of_a_block_is_not_replaced(world: LeaseWorld) -> None:
    def fail() -> None:
        with lock(world) as mine:
            mine._flow.held.ended("lost")
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        fail()


def test_a_lock_whose_time_is_over_is_not_held_whatever_the_thread_does(
    world: LeaseWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after SIGSTOP: no code of the holder ran meanwhile."""
    mine = lock(world).acquire()
    later = lease_flow.uptime_s() + 29.5
    monkeypatch.setattr(lease_flow, "uptime_s", lambda: later)
    with pytest.raises(Lost, match="was not renewed in time"):
        mine.check()
    with pytest.raises(Lost, match="was not renewed in time"):
        mine.__exit__(None, None, None)


def test_an_object_is_held_once_at_a_time(world: LeaseWorld) -> None:
    mine = lock(world)
    with pytest.raises(InvalidRequest, match="is not held"):
        mine.check()
    with mine, pytest.raises(InvalidRequest, match="held already by this object"):
        mine.acquire()
    with mine:
        pass
    mine.release()


def test_it_stays_in_its_process(world: LeaseWorld) -> None:
    with lock(world) as mine:
        with pytest.raises(TypeError, match="is not pickled"):
            pickle.dumps(mine)
        mine._pid += 1
        assert not mine.is_held
        with pytest.raises(InvalidRequest, match="belongs to process"):
            mine.check()
        mine.release()
        assert world.values[KEY][0] is not None
        mine._pid = os.getpid()
    assert multiprocessing.active_children() == []


def test_an_error_while_it_is_taken_leaves_nothing_behind(world: LeaseWorld) -> None:
    def out_of_reach(_method: str) -> None:
        raise Unavailable("no node")

    world.before = out_of_reach
    threads = threading.active_count()
    with pytest.raises(Unavailable):
        lock(world).acquire()
    assert threading.active_count() == threads


def test_it_is_not_believed_in_while_it_is_given_back(world: LeaseWorld) -> None:
    """The deletion may be done, and the lock another's, before its answer is here."""
    believed = []
    mine = lock(world).acquire()
    world.before = lambda method: believed.append((method, mine.is_held))
    mine.release()
    assert believed == [("DELETE", False)]


def test_it_is_given_up_at_once_while_no_node_answers(world: LeaseWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Renewals that fail are not tried until the lease is over when it is given back."""
    failing = threading.Event()

    def out_of_reach(_method: str) -> None:
        failing.set()
        raise Unavailable("no node")

    monkeypatch.setattr(lease_flow, "RENEWALS", 1000)
    mine = lock(world, ttl=60).acquire()
    world.before = out_of_reach
    assert failing.wait(PATIENCE_S)
    mine.release()
    assert not mine.why_lost, "it did not try until the end of the lease"


def test_two_threads_do_not_take_one_object(world: LeaseWorld) -> None:
    refusals = []
    mine = lock(world)

    def another(_method: str) -> None:
        world.before = lambda _: None
        with pytest.raises(InvalidRequest, match="is being taken by another thread") as refused:
            mine.acquire()
        refusals.append(refused)

    world.before = another
    with mine:
        assert mine.is_held
    assert len(refusals) == 1
    assert world.asked == ["PUT", "DELETE"]


def test_who_is_told_of_a_loss_may_give_it_back(world: LeaseWorld) -> None:
    released = threading.Event()
    mine = lock(world, ttl=0.5).acquire()

    def give_back() -> None:
        mine.release()
        released.set()

    mine.on_lost = give_back
    world.values[KEY] = (b"theirs", 7)
    assert released.wait(PATIENCE_S)
    assert world.values[KEY] == (b"theirs", 7)
