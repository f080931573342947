"""A full disk is told from a broken one."""

import errno
from pathlib import Path

import pytest

from epoxy.model.errors import StoreError, StoreFailed, StoreRefused
from epoxy.store.embedded import space
from epoxy.store.embedded.space import LEAST_FREE_BYTES, cause_of, free_bytes, not_opened, usage_of


@pytest.mark.parametrize(
    ("number", "free", "full"),
    [
        (errno.ENOSPC, LEAST_FREE_BYTES, True),
        (errno.EDQUOT, LEAST_FREE_BYTES, True),
        (errno.EIO, LEAST_FREE_BYTES, False),
        (errno.EIO, LEAST_FREE_BYTES - 1, True),
    ],
)
def test_a_full_disk_is_named(
    number: int, free: int, full: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(space, "free_bytes", lambda *_: free)
    assert ("the disk is full" in cause_of(OSError(number, "why"), tmp_path)) is full


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (OSError(errno.ENOSPC, "no room"), StoreFailed, "data: the disk is full: make room, and start the node again"),
        (OSError(errno.EIO, "input/output error"), StoreFailed, "data: [Errno 5] input/output error"),
        (OSError(errno.EACCES, "denied", "data/log"), StoreRefused, "data: denied (data/log)"),
    ],
)
def test_a_directory_that_is_not_opened_is_the_disks_fault_or_a_settings(
    error: OSError, kind: type[StoreError], words: str, tmp_path: Path
) -> None:
    refusal = not_opened(error, "data", tmp_path)
    assert type(refusal) is kind
    assert str(refusal).startswith(words)


def test_a_folder_that_cannot_tell_its_space_is_not_full(tmp_path: Path) -> None:
    assert free_bytes(tmp_path) > 0
    assert free_bytes(tmp_path / "missing") == LEAST_FREE_BYTES


def test_what_a_data_directory_takes(tmp_path: Path) -> None:
    for part, sizes in (("log", (10, 20)), ("tree", (5,))):
        (tmp_path / part).mkdir()
        for size in sizes:
            (tmp_path / part / str(size)).write_bytes(bytes(size))
    usage = usage_of(tmp_path, tmp_path / "log", tmp_path / "tree")
    assert (usage.log_bytes, usage.tree_bytes) == (30, 5)
    assert usage.free_bytes > 0
