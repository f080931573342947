"""The longest sync of late, how long most take, and all of them in buckets."""

from epoxy.store.embedded.syncs import QUICK_S, RECENT_S, RECENT_SYNCS, WINDOW_S, SyncTimes


def test_the_longest_of_late_is_told_and_forgotten() -> None:
    now = [0.0]
    syncs = SyncTimes(lambda: now[0])

    def sync(seconds: float) -> None:
        syncs.begin()
        now[0] += seconds
        syncs.end()

    assert syncs.longest_s() == 0.0
    sync(2.0)
    sync(0.5)
    assert syncs.longest_s() == 2.0
    now[0] += WINDOW_S
    sync(0.5)
    assert syncs.longest_s() == 2.0, "the window before counts"
    now[0] += WINDOW_S
    sync(0.25)
    assert syncs.longest_s() == 0.5
    now[0] += 2 * WINDOW_S + 1
    assert syncs.longest_s() == 0.0, "a disk at rest is not slow"


def test_a_sync_that_hangs_is_told_while_it_does() -> None:
    now = [0.0]
    syncs = SyncTimes(lambda: now[0])
    syncs.begin()
    now[0] = 60.0
    assert (syncs.longest_s(), syncs.under_way_s()) == (60.0, 60.0)
    assert sum(syncs.seconds.counts) == 0, "it has not ended"
    syncs.end()
    assert (syncs.longest_s(), syncs.under_way_s()) == (60.0, 0.0)
    assert (sum(syncs.seconds.counts), syncs.seconds.sum) == (1, 60.0)


def test_percentiles_are_of_the_last_minute() -> None:
    now = [0.0]
    syncs = SyncTimes(lambda: now[0])

    def sync(seconds: float) -> None:
        syncs.begin()
        now[0] += seconds
        syncs.end()

    assert syncs.recent() is None, "no sync, no figure"
    sync(9.0)
    now[0] += RECENT_S
    for _ in range(97):
        sync(0.001)
    for _ in range(3):
        sync(0.3)
    told = syncs.recent()
    assert told is not None
    assert (told.count, told.p50_ms, told.p99_ms) == (100, 1.0, 300.0), "without the one of a minute ago"
    now[0] += RECENT_S + 1
    assert syncs.recent() is None, "a disk at rest is not slow"


def test_only_so_many_syncs_are_kept() -> None:
    now = [0.0]
    syncs = SyncTimes(lambda: now[0])
    for number in range(RECENT_SYNCS + 10):
        syncs.begin()
        now[0] += 0.05 if number < 10 else 0.001
        syncs.end()
    told = syncs.recent()
    assert told is not None
    assert (told.count, told.p99_ms) == (RECENT_SYNCS, 1.0), "the oldest ten are forgotten"


def test_quick_syncs_in_a_row_are_counted() -> None:
    syncs = SyncTimes(lambda: 0.0)
    counts = []
    for took_s in (0.0, QUICK_S / 2, QUICK_S, 0.0):
        syncs.ended(0.0, took_s)
        counts.append(syncs.quick_in_a_row)
    assert counts == [1, 2, 0, 1]
