"""Batches: what fails together, and the shortest round trip of a while."""

import asyncio

from epoxy.model.messages import Failed, Reply
from epoxy.transport.peers.batch import LAG_HALVES_MS, Batch, RecentLag, WindowedMinimum
from tests.transport.http.harness import expect_report, run


def test_the_minimum_covers_one_to_two_windows() -> None:
    shortest = WindowedMinimum()
    assert shortest.value is None
    for now_ms, sample_ms, expected in (
        (0, 30.0, 30.0),
        (1000, 20.0, 20.0),
        (5001, 40.0, 20.0),
        (10002, 50.0, 40.0),
        (15003, 60.0, 50.0),
    ):
        shortest.add(sample_ms, now_ms)
        assert shortest.value == expected


def test_a_lag_rises_at_once_and_falls_by_halves() -> None:
    lag = RecentLag()
    assert lag.value(100.0) == 0.0
    lag.add(400.0, 1000.0)
    assert lag.value(1000.0) == 400.0
    assert lag.value(1000.0 + LAG_HALVES_MS) == 200.0
    lag.add(100.0, 1000.0 + LAG_HALVES_MS)
    assert lag.value(1000.0 + 2 * LAG_HALVES_MS) == 100.0, "a quick answer does not end it"
    lag.add(300.0, 1000.0 + 2 * LAG_HALVES_MS)
    assert lag.value(1000.0 + 2 * LAG_HALVES_MS) == 300.0


def test_a_batch_fails_all_its_envelopes_once_even_if_a_callback_raises() -> None:
    reports: list[BaseException] = []
    replies: list[Reply] = []

    def broken(_: Reply) -> None:
        raise ZeroDivisionError

    async def story() -> None:
        expect_report(reports)
        batch = Batch([(b"a", 1, broken, 0.0), (b"b", 1, None, 0.0), (b"c", 1, replies.append, 0.0)], 3, 0.0)
        batch.fail("timeout")
        batch.fail("again")
        await asyncio.sleep(0)

    run(story())
    assert replies == [Failed(reason="timeout")]
    assert [type(report) for report in reports] == [ZeroDivisionError]
