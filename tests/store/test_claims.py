"""What the store calls durable, and what a failure leaves behind."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import lmdb
import pytest

from epoxy.ports import Transaction
from epoxy.store.embedded import log
from epoxy.store.embedded.files import SystemFiles
from epoxy.store.embedded.tree import Tree, TreeView
from tests.store.hand import EmbeddedBench

LONG = b"x" * 100


def put(key: bytes, value: bytes = LONG) -> Callable[[Transaction], None]:
    return lambda tx: tx.set(key, value)


def test_what_a_crash_left_in_the_page_cache_is_not_called_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process killed inside its sync leaves a frame that the next one can read and a power cut can still take away.
    Nothing may rest on it before that segment, or the checkpoint of it, is synced."""
    bench = EmbeddedBench()
    bench.settle()
    bench.store.transact(put(b"vote"))
    bench.tick()
    bench.writer.work()
    synced: set[str] = set()
    real = os.fsync

    def spy(descriptor: int) -> None:
        synced.add(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", spy)
    bench.crash()
    segment = log.segments(bench.folder / "log")[0][1].name
    told: list[bytes | None] = []
    bench.store.when_durable(lambda: told.append(bench.store.durable().get(b"vote")))
    checkpointed = bench.store._tree.view().get(b"vote") is not None
    assert told == [] or segment in synced or checkpointed


def test_a_failed_sync_at_the_end_of_a_generation_leaves_a_log_that_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frame reached the disk, its sync failed: the segment behind it must not be begun."""
    bench = EmbeddedBench(log_bytes=64)
    bench.settle()
    bench.store.transact(put(b"a"))
    bench.settle()
    bench.store.transact(put(b"b"))
    bench.tick()
    real = SystemFiles.write

    def fails_after(files: SystemFiles, file: int, data: bytes, offset: int) -> int:
        written = real(files, file, data, offset)
        if offset:
            raise OSError(5, "Input/output error")
        return written

    with monkeypatch.context() as patch:
        patch.setattr(SystemFiles, "write", fails_after)
        while bench.writer.work():
            pass
        while bench.writer.report():
            pass
    assert bench.failures
    bench.crash()
    assert bench.store.durable().get(b"a") == LONG


def test_a_checkpoint_that_cannot_be_looked_at_ends_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the next generation hides what was in the frozen one: votes and promises vanish while we run."""
    bench = EmbeddedBench(log_bytes=64)
    bench.settle()

    def refuse(_: Tree) -> TreeView:
        raise lmdb.ReadersFullError("MDB_READERS_FULL")

    for key in (b"a", b"b"):
        bench.store.transact(put(key))
        bench.flush()
    with monkeypatch.context() as patch:
        patch.setattr(Tree, "view", refuse)
        with contextlib.suppress(lmdb.Error):
            bench.settle()
    if not bench.failures:
        for key in (b"c", b"d", b"e"):
            bench.store.transact(put(key))
            bench.flush()
        assert bench.store.durable().get(b"a") == LONG
