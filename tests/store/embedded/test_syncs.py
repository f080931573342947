"""The longest sync of late."""

from epoxy.store.embedded.syncs import WINDOW_S, SyncTimes


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
    assert syncs.longest_s() == 60.0
