"""A power cut keeps what is synced, and any part of the rest."""

from pathlib import PurePath
from random import Random

from epoxy_sim.disk.volume import SECTOR_BYTES, SimFile, SimFolder, Volume

DICE = Random(7)
ROOT = PurePath("/")


def after_cut(file: SimFile, keep: float) -> bytes:
    copy = SimFile()
    copy.now, copy.synced, copy.unsynced = bytearray(file.now), bytearray(file.synced), list(file.unsynced)
    copy.cut_power(keep, DICE)
    assert copy.now == copy.synced
    return bytes(copy.now)


def test_synced_contents_stay_and_the_rest_goes() -> None:
    file = SimFile()
    file.write(0, b"synced")
    file.sync()
    file.write(0, b"later!")
    file.write(6, b" and longer")
    assert bytes(file.now) == b"later! and longer"
    assert after_cut(file, 0.0) == b"synced"
    assert after_cut(file, 1.0) == b"later! and longer"


def test_a_write_is_torn_at_sectors_and_writes_are_reordered() -> None:
    file = SimFile()
    file.resize(4 * SECTOR_BYTES)
    file.sync()
    file.write(100, b"a" * 1000)
    file.write(3 * SECTOR_BYTES, b"b" * 10)
    left = {after_cut(file, 0.5) for _ in range(200)}
    pieces = [(100, SECTOR_BYTES), (SECTOR_BYTES, 2 * SECTOR_BYTES), (2 * SECTOR_BYTES, 1100)]
    for contents in left:
        for begin, end in pieces:
            assert contents[begin:end] in (b"a" * (end - begin), bytes(end - begin)), "a sector is written as one"
    assert any(contents[3 * SECTOR_BYTES] and not contents[600] for contents in left), "the later write alone"
    assert len(left) == 16


def test_a_range_is_synced_with_all_that_was_written_to_it() -> None:
    file = SimFile()
    file.write(0, b"aaaa")
    file.write(8, b"cccc")
    file.write(2, b"bbbb")
    file.sync_range(2, 4)
    assert after_cut(file, 0.0) == b"aabbbb"


def test_a_file_that_was_shortened_may_be_long_again() -> None:
    file = SimFile()
    file.write(0, b"x" * 10)
    file.sync()
    file.resize(0)
    assert (after_cut(file, 0.0), after_cut(file, 1.0)) == (b"x" * 10, b"")


def names(changes: int, keep: float, *, synced: bool = False) -> set[str]:
    folder = SimFolder()
    folder.add("old", SimFile())
    folder.sync()
    if changes > 0:
        folder.add("next", SimFile())
        folder.change(removed="next", added="new")
    if changes > 1:
        folder.change(removed="old")
    if synced:
        folder.sync()
    folder.cut_power(keep, DICE)
    assert folder.now == folder.synced
    return set(folder.now)


def test_names_are_lost_until_their_folder_is_synced() -> None:
    assert names(2, 0.0) == {"old"}
    assert names(2, 0.0, synced=True) == {"new"}
    assert names(1, 1.0) == {"old", "new"}


def test_changes_of_names_are_kept_each_for_itself_and_a_rename_is_one() -> None:
    left = {frozenset(names(2, 0.5)) for _ in range(200)}
    assert frozenset() in left, "the old one removed, and the new one without its name"
    assert frozenset({"old", "new"}) in left
    assert not any({"next", "new"} <= each for each in left)


def test_an_image_has_what_is_in_the_page_cache_and_does_not_change() -> None:
    volume = Volume()
    volume.root.add("folder", SimFolder())
    file = SimFile()
    volume.folder(PurePath("/folder")).add("file", file)
    file.write(0, b"1")
    image = volume.image()
    file.write(0, b"2")
    image.cut_power(0.0, DICE)
    assert bytes(image.file(PurePath("/folder/file")).now) == b"1"
    volume.cut_power(0.0, DICE)
    assert volume.find(PurePath("/folder")) is None


def test_a_power_cut_ends_locks_and_lies() -> None:
    volume = Volume()
    volume.lying = True
    volume.locked.add(1)
    volume.cut_power(1.0, DICE)
    assert (volume.lying, volume.locked) == (False, set())
