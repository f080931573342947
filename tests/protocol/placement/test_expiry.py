from collections.abc import Callable

import pytest

from epoxy.protocol.placement import envoys, rows
from epoxy.protocol.placement.expiry import AGAIN_MS, ExpireScheduler, Lease, LostTimeouts, Sweep
from epoxy.protocol.placement.records import EnvoyId
from tests.protocol.placement.bench import NOW_MS, Clock, connect, crowd, envoy, hello


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


def test_a_lease_is_for_one_process_until_its_row_stands_still() -> None:
    store, clock = crowd(0), Clock()
    first, second = Lease(store, "sweep", 1, clock), Lease(store, "sweep", 2, clock)
    assert first.take(100)
    assert not second.take(100)
    clock.advance(99)
    assert first.take(100), "the holder prolongs it"
    clock.advance(99)
    assert not second.take(100), "it has seen that change just now"
    clock.advance(99)
    assert not second.take(100)
    clock.advance(1)
    assert second.take(100)
    assert not first.take(100)


def test_a_restart_takes_over_the_lease_of_the_process_before_it() -> None:
    store, clock = crowd(0), Clock()
    before = Lease(store, "sweep", 1, clock)
    assert before.take(1e9)
    after = Lease(store, "sweep", 1, clock)
    assert after.take(1e9)
    assert not before.take(1e9), "an older start has lost it"
    assert after.take(1e9)


def test_a_lease_in_the_old_format_is_free() -> None:
    store = crowd(0)
    store.transact(lambda tx: tx.set(rows.lease_row("sweep"), bytes(7) + b"\x07" + bytes([255] * 8)))
    assert Lease(store, "sweep", 1, Clock()).take(100)


def test_an_envoy_is_suspected_at_its_own_deadline_and_again_until_it_is_expired() -> None:
    clock = Clock()
    suspected: list[tuple[float, EnvoyId]] = []
    lost = LostTimeouts(clock, 1_000, lambda each: suspected.append((clock.now_ms(), each)))
    began_ms = clock.now_ms()
    lost.heard(envoy("a"))
    clock.advance(400)
    lost.heard(envoy("b"))
    clock.advance(300)
    lost.heard(envoy("a"))
    clock.advance(701)
    assert [each for _, each in suspected] == [envoy("b")]
    clock.advance(302)
    assert [each for _, each in suspected] == [envoy("b"), envoy("a")]
    assert suspected[1][0] - began_ms <= 700 + 1_000 + 2
    lost.forget(envoy("b"))
    clock.advance(AGAIN_MS)
    assert [each for _, each in suspected[2:]] == [envoy("a")], "the scheduler may have been full"
    lost.stop()
    clock.advance(10_000)
    assert len(suspected) == 3
    assert clock.timers == []


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
