"""One line for each change of the disk's speed and room, and none for each look."""

import logging

import pytest

from epoxy.model.api import DiskUsage
from epoxy.node.process.disk_watch import LEAST_FREE_BYTES, LOW_FREE_BYTES, SLOW_SYNC_MS, SPACE_LOOKS, DiskWatch


class Disk:
    sync_ms: float | None = 1.0
    free_bytes: int | None = LOW_FREE_BYTES

    def __init__(self) -> None:
        self.watch = DiskWatch(lambda: self.sync_ms, self.usage)

    def usage(self) -> DiskUsage | None:
        if self.free_bytes is None:
            return None
        return DiskUsage(log_bytes=0, tree_bytes=0, free_bytes=self.free_bytes)

    def minute(self) -> None:
        for _ in range(SPACE_LOOKS):
            self.watch.look()


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, int | None]]:
    """Level, first word of the subject, and the figure."""
    lines = [
        (each.levelname, each.message.split(":")[0], getattr(each, "sync_ms", getattr(each, "free_mib", None)))
        for each in caplog.records
    ]
    caplog.clear()
    return lines


@pytest.fixture(autouse=True)
def _every_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def test_a_slow_disk_is_told_once_and_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk()
    disk.minute()
    assert told(caplog) == []
    disk.sync_ms = SLOW_SYNC_MS + 500
    disk.minute()
    assert told(caplog) == [("WARNING", "the disk is slow", 1500)]
    disk.sync_ms = SLOW_SYNC_MS
    disk.minute()
    assert told(caplog) == [("INFO", "the disk is as fast as before", None)]


def test_room_that_shrinks_is_told_at_each_bound(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk()
    for free, expected in (
        (LOW_FREE_BYTES - 1, [("WARNING", "little room is left on the disk", 1023)]),
        (LEAST_FREE_BYTES, []),
        (LEAST_FREE_BYTES - 1, [("ERROR", "little room is left on the disk", 299)]),
        (LOW_FREE_BYTES - 1, []),
        (LEAST_FREE_BYTES - 1, [("ERROR", "little room is left on the disk", 299)]),
        (LOW_FREE_BYTES, []),
    ):
        disk.free_bytes = free
        disk.minute()
        assert told(caplog) == expected, free


def test_a_store_that_has_no_disk_here_is_not_spoken_of(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk()
    disk.sync_ms = disk.free_bytes = None
    disk.minute()
    assert told(caplog) == []
