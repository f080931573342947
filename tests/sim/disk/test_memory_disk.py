"""The disk in memory: what a crash, an image and a lying sync leave."""

import pytest

from epoxy.store.memory import MemoryStore
from epoxy_sim.disk.memory_disk import MemoryDisk
from tests.sim.disk.users import HandUser


def put(store: MemoryStore, *numbers: int) -> None:
    for number in numbers:
        store.put({b"%d" % number: b"v"}, None)


def left(disk: MemoryDisk) -> list[bytes]:
    return [key for key, _ in disk.open(HandUser()).newest().range(b"", b"\xff", limit=100)]


@pytest.mark.parametrize(("keep", "keys"), [(0.0, [b"1"]), (0.5, [b"1", b"2"]), (1.0, [b"1", b"2", b"3"])])
def test_a_crash_keeps_what_is_synced_and_a_share_of_the_rest(keep: float, keys: list[bytes]) -> None:
    disk, user = MemoryDisk(), HandUser()
    store = disk.open(user)
    put(store, 1)
    user.sync()
    put(store, 2, 3)
    disk.crash(keep)
    assert left(disk) == keys


def test_an_image_does_not_change_with_its_disk() -> None:
    disk, user = MemoryDisk(), HandUser()
    store = disk.open(user)
    put(store, 1)
    user.sync()
    early = disk.image()
    put(store, 2)
    assert left(disk.image()) == [b"1"], "what is not synced is not in an image"
    user.sync()
    disk.crash(0.0)
    assert (left(early), left(disk), left(disk.image())) == ([b"1"], [b"1", b"2"], [b"1", b"2"])


def test_a_crash_loses_what_a_lying_disk_reported_as_synced() -> None:
    disk, user = MemoryDisk(), HandUser()
    store = disk.open(user)
    put(store, 1)
    user.sync()
    disk.lie()
    put(store, 2)
    user.sync()
    disk.lie()
    assert store.position() == 2
    disk.crash(1.0)
    assert left(disk) == [b"1"]
    disk.crash(1.0)
    assert left(disk) == [b"1"], "it has told the truth since"


def test_a_sync_that_fails_ends_the_process() -> None:
    disk, user = MemoryDisk(), HandUser(OSError(5, "fsync failed"))
    told: list[bool] = []
    store = disk.open(user)
    put(store, 1)
    store.when_durable(lambda: told.append(True))
    user.sync()
    assert (told, user.failures) == ([], ["fsync failed"])
