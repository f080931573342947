from collections.abc import Callable

import pytest

from epoxy.placement import envoys, rows
from epoxy.placement.expiry import ExpireScheduler, Sweep, take_lease
from epoxy.placement.records import EnvoyId
from tests.placement.bench import NOW_MS, connect, crowd, envoy, hello


class Slow:
    """Expiries that end when the test says so."""

    def __init__(self) -> None:
        self.begun: list[EnvoyId] = []
        self.over: list[Callable[[], None]] = []

    def __call__(self, envoy: EnvoyId, over: Callable[[], None]) -> None:
        self.begun.append(envoy)
        self.over.append(over)


def test_one_flight_for_each_envoy() -> None:
    slow = Slow()
    scheduler = ExpireScheduler(slow)
    assert scheduler.try_enqueue(envoy("a"))
    assert not scheduler.try_enqueue(envoy("a"))
    assert scheduler.try_enqueue(EnvoyId("other", "a")), "the same key in another namespace is another envoy"
    slow.over[0]()
    assert scheduler.try_enqueue(envoy("a")), "when it is over it may be needed again"
    assert len(slow.begun) == 3


def test_so_many_at_a_time_and_so_many_waiting() -> None:
    slow = Slow()
    scheduler = ExpireScheduler(slow)
    taken = [scheduler.try_enqueue(envoy(str(i))) for i in range(1030)]
    assert (taken.count(True), scheduler.pending, scheduler.dropped) == (1024, 1024, 6)
    assert len(slow.begun) == 32
    slow.over[0]()
    slow.over[0]()
    assert len(slow.begun) == 33, "an end counts once"
    for over in slow.over:
        over()
    while len(slow.over) < 1024:
        for over in slow.over[:]:
            over()
    assert slow.begun == [envoy(str(i)) for i in range(1024)]


def test_an_expiry_that_fails_gives_its_place_back() -> None:
    def broken(_: EnvoyId, __: Callable[[], None]) -> None:
        raise RuntimeError

    scheduler = ExpireScheduler(broken)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            scheduler.try_enqueue(envoy("a"))
    assert scheduler.pending == 0


def test_an_expiry_that_ends_at_once_needs_no_stack() -> None:
    begun: list[EnvoyId] = []

    def swift(each: EnvoyId, over: Callable[[], None]) -> None:
        begun.append(each)
        over()

    scheduler = ExpireScheduler(swift, at_once=1)
    for i in range(2000):
        scheduler.try_enqueue(envoy(str(i)))
    assert len(begun) == 2000


def test_a_lease_is_for_one_and_for_a_time() -> None:
    store = crowd(0)

    def take(holder: int, now_ms: int) -> bool:
        return store.transact(lambda tx: take_lease(tx, "sweep", holder, now_ms, 100))

    assert take(1, 0)
    assert not take(2, 99)
    assert take(1, 99), "the holder prolongs it"
    assert not take(2, 198)
    assert take(2, 199)
    assert not take(1, 200)


def test_a_sweep_finds_all_that_are_stale_and_no_others() -> None:
    store = crowd(600)
    for i in range(0, 600, 3):
        connect(store, hello(f"envoy-{i}"), now_ms=NOW_MS + 20_000)
    found: list[EnvoyId] = []
    sweep = Sweep(store, 10_000, found.append)
    pages = 1
    while sweep.page(NOW_MS + 20_000):
        pages += 1
    assert pages == 3
    assert sorted(found) == sorted(envoy(f"envoy-{i}") for i in range(600) if i % 3)


def test_a_sweep_forgets_what_expired_long_ago() -> None:
    store = crowd(2)
    store.transact(lambda tx: envoys.expire(tx, envoy("envoy-0"), NOW_MS))
    sweep = Sweep(store, 10_000, lambda _: None)
    sweep.page(NOW_MS + envoys.FORGET_AFTER_MS)
    assert rows.load(store.newest(), "prod", "envoy-0") is not None
    sweep.page(NOW_MS + envoys.FORGET_AFTER_MS + 1)
    assert rows.load(store.newest(), "prod", "envoy-0") is None
