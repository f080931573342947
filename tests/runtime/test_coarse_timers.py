import pytest

from epoxy.runtime.coarse_timers import GRAIN_MS, SHORTEST_MS, CoarseClock
from tests.node.bench import HandClock


def rung(clock: HandClock, coarse: CoarseClock, *delays_ms: float) -> list[tuple[float, float]]:
    """Which delays rang, and when."""
    seen: list[tuple[float, float]] = []
    for delay_ms in delays_ms:
        coarse.call_later(delay_ms, lambda delay_ms=delay_ms: seen.append((delay_ms, clock.now_ms())))  # type: ignore[misc]
    return seen


def test_a_deadline_is_never_early_and_at_most_a_grain_late() -> None:
    clock = HandClock()
    clock.advance(3.0)
    delays = [25.0, 26.0, 29.9, 31.0, 1000.0]
    seen = rung(clock, CoarseClock(clock), *delays)
    for _ in range(2000):
        clock.advance(1.0)
    assert sorted(delay for delay, _ in seen) == delays
    assert all(delay <= at - 3.0 <= delay + GRAIN_MS + 1.0 for delay, at in seen)


def test_many_share_one_timer_of_the_clock() -> None:
    clock = HandClock()
    rung(clock, CoarseClock(clock), *[100.0] * 50)
    assert len(clock.pending) == 1


def test_a_short_pause_is_on_the_dot() -> None:
    clock = HandClock()
    seen = rung(clock, CoarseClock(clock), SHORTEST_MS - 1)
    clock.advance(SHORTEST_MS - 1)
    assert len(seen) == 1


def test_a_cancelled_deadline_does_not_ring() -> None:
    clock = HandClock()
    coarse = CoarseClock(clock)
    seen: list[str] = []
    timer = coarse.call_later(50, lambda: seen.append("cancelled"))
    coarse.call_later(50, lambda: seen.append("kept"))
    timer.cancel()
    clock.advance(100)
    assert seen == ["kept"]


def test_one_that_raises_does_not_silence_the_others() -> None:
    clock = HandClock()
    coarse = CoarseClock(clock)
    seen: list[int] = []

    def fail() -> None:
        raise RuntimeError("a bug")

    coarse.call_later(50, lambda: seen.append(1))
    coarse.call_later(50, fail)
    coarse.call_later(50, lambda: seen.append(2))
    with pytest.raises(RuntimeError):
        clock.advance(60)
    clock.advance(1)
    assert sorted(seen) == [1, 2]
