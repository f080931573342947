"""What an agent remembers is whole, its own, and there after a crash."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from epoxy.agent.disk import Disk
from epoxy.model.errors import StoreFailed, StoreRefused
from epoxy.protocol.elect.lists import ListFloor, first
from epoxy.protocol.elect.terms import ElectRecord
from tests.protocol.elect.bench import config_of

RECORD = ElectRecord(epoch=7, voted_for="b", leader_epoch=5, leader="a")


def test_nothing_was_ever_saved(tmp_path: Path) -> None:
    assert Disk(tmp_path / "new", "c", "a").load() is None


def test_what_was_saved_is_there(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "c", "a")
    disk.save(ElectRecord())
    disk.save(RECORD)
    assert Disk(tmp_path, "c", "a").load() == RECORD


def test_what_a_crash_left_beside_it_does_not_count(tmp_path: Path) -> None:
    Disk(tmp_path, "c", "a").save(RECORD)
    (tmp_path / "record.new").write_bytes(b'{"half')
    assert Disk(tmp_path, "c", "a").load() == RECORD


def test_the_list_it_was_made_under_is_part_of_a_record(tmp_path: Path) -> None:
    kept = replace(RECORD, lists=first(config_of("abc")), floor=ListFloor(generation=1, digest="f" * 16))
    Disk(tmp_path, "c", "a").save(kept)
    assert Disk(tmp_path, "c", "a").load() == kept


def test_a_record_of_before_there_were_lists_is_read(tmp_path: Path) -> None:
    old = b'{"format":"epoxy-elect-1","cluster":"c","node":"a","record":{"epoch":7,"voted_for":"b","leader_epoch":5,'
    (tmp_path / "record.json").write_bytes(old + b'"leader":"a"}}')
    assert Disk(tmp_path, "c", "a").load() == RECORD


@pytest.mark.parametrize(("cluster", "node"), [("other", "a"), ("c", "b")])
def test_the_memory_of_another_node_is_refused(tmp_path: Path, cluster: str, node: str) -> None:
    Disk(tmp_path, "c", "a").save(RECORD)
    with pytest.raises(StoreRefused, match="belongs to 'a'"):
        Disk(tmp_path, cluster, node).load()


def test_damage_is_not_taken_for_nothing(tmp_path: Path) -> None:
    Disk(tmp_path, "c", "a").save(RECORD)
    (tmp_path / "record.json").write_bytes(b"{}")
    with pytest.raises(StoreRefused, match="is damaged"):
        Disk(tmp_path, "c", "a").load()


def test_a_disk_that_cannot_save_says_so(tmp_path: Path) -> None:
    disk = Disk(tmp_path, "c", "a")
    (tmp_path / "record.new").mkdir()
    with pytest.raises(StoreFailed, match="cannot be saved"):
        disk.save(RECORD)


@pytest.mark.parametrize("field", ["epoch", "leader_epoch"])
def test_a_record_with_an_impossible_epoch_is_refused_with_the_way_out(tmp_path: Path, field: str) -> None:
    """An earlier release may have believed a message with the last epoch there is, and saved it."""
    Disk(tmp_path, "c", "a").save(replace(RECORD, **{field: 2**64 - 1}))
    with pytest.raises(StoreRefused, match=r"epoch 18446744073709551615 cannot be.*: empty .* lost its disk"):
        Disk(tmp_path, "c", "a").load()
    Disk(tmp_path, "c", "a").save(replace(RECORD, **{field: 2**63 - 1}))
    assert Disk(tmp_path, "c", "a").load() is not None
