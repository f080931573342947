"""What is done to a disk beside power cuts."""

from collections.abc import Callable
from random import Random

import pytest

from epoxy.model.errors import StoreRefused
from epoxy_sim.disk import damage
from epoxy_sim.disk.embedded_disk import FOLDER, EmbeddedDisk
from epoxy_sim.disk.memory_disk import MemoryDisk
from epoxy_sim.disk.volume import SimFolder
from tests.sim.disk.users import HandUser

Damage = Callable[[SimFolder, Random], None]
OF_LOG = [damage.flip_bit, damage.change_sector, damage.zero_tail, damage.shorten]
OF_TREE = [damage.rot_value, damage.rot_key]


def written_disk() -> EmbeddedDisk:
    disk, user = EmbeddedDisk("seed", 1), HandUser()
    store = disk.open(user)
    for number in range(60):
        store.put({b"%02d" % number: b"value" * 10}, None)
        user.sync()
    disk.crash(0.0)
    return disk


def contents(disk: EmbeddedDisk) -> tuple[list[bytes], dict[bytes, bytes]]:
    folder = disk.volume.folder(FOLDER)
    assert all(segment.now == segment.synced for segment in damage.segments(folder))
    return [bytes(segment.now) for segment in damage.segments(folder)], damage.tree_file(folder).rows.values


@pytest.mark.parametrize("kind", [*OF_LOG, *OF_TREE])
def test_damage_is_durable_and_of_one_place(kind: Damage) -> None:
    for seed in range(10):
        disk = written_disk()
        image = disk.image()
        log, tree = contents(disk)
        kind(disk.volume.folder(FOLDER), Random(seed))
        log_after, tree_after = contents(disk)
        assert (log != log_after) == (kind in OF_LOG)
        assert (tree != tree_after) == (kind in OF_TREE)
        assert sum(one != other for one, other in zip(log, log_after, strict=True)) <= 1
        assert len(tree.items() ^ tree_after.items()) <= 3, "another row with the new key, if there was one"
        assert contents(image) == (log, tree), "an image is not damaged with its disk"


@pytest.mark.parametrize("disk", [written_disk(), MemoryDisk()])
def test_an_image_of_a_shortened_disk_is_shortened(disk: EmbeddedDisk | MemoryDisk) -> None:
    sound = disk.image()
    disk.shorten()
    copy = disk.image()
    sound.open(HandUser())
    for each in (disk, copy):
        with pytest.raises(StoreRefused):
            each.open(HandUser())
