"""The thread in C: what it writes, when it says so, and how it ends."""

import errno
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import epoxy
from epoxy.store.embedded.files import SYSTEM_FILES, FrameWriter
from tests.store.native import ALL, NEVER_MS, ROOT, GatedDisk, built, taken

SOON_MS = 200
"""A fault that is planted loses a signal, which would not come later either."""

FRAME = bytes(range(256)) * 8


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return built(tmp_path_factory.mktemp("fake"), fake=True)


@pytest.fixture
def disk(module: ModuleType, tmp_path: Path) -> Iterator[GatedDisk]:
    disk = GatedDisk(module, tmp_path / "file")
    yield disk
    disk.close()


def test_compiled_packages_have_it_and_sources_do_not() -> None:
    writer = SYSTEM_FILES.frame_writer()
    assert (writer is not None) == (epoxy.__compiled__ and sys.platform == "linux")
    if writer is not None:
        writer.close()


def test_a_frame_is_written_where_it_belongs_and_told_with_its_times(disk: GatedDisk) -> None:
    before_s = time.monotonic()
    disk.tell(ALL)
    disk.write(FRAME, 1000)
    ended = taken(disk.writer, NEVER_MS)
    assert ended is not None
    error, began_s, ended_s = ended
    assert error == 0
    assert before_s <= began_s <= ended_s <= time.monotonic()
    assert disk.path.read_bytes() == bytes(1000) + FRAME
    assert disk.writer.take() is None, "told once"


def test_short_and_interrupted_writes_go_on_where_they_stopped(disk: GatedDisk) -> None:
    disk.tell(7, -errno.EINTR, 500, 1, -errno.EINTR, ALL)
    disk.write(FRAME)
    assert disk.ended() == 0
    assert disk.path.read_bytes() == FRAME


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_write_that_fails_is_not_tried_again(disk: GatedDisk, error: int) -> None:
    disk.tell(500, -error)
    disk.write(FRAME)
    assert disk.ended() == error
    assert disk.path.read_bytes() == FRAME[:500]


def test_a_write_of_nothing_is_an_error_and_no_endless_loop(disk: GatedDisk) -> None:
    disk.tell(0)
    disk.write(FRAME)
    assert disk.ended() == errno.EIO


def told_early(disk: GatedDisk) -> bool:
    """Whether a write is told while the disk has not ended it."""
    disk.write(FRAME)
    disk.tell(500)
    early = taken(disk.writer, SOON_MS) is not None
    disk.tell(ALL)
    return early


def told_at_all(disk: GatedDisk) -> bool:
    for offset in range(3):
        disk.tell(ALL)
        disk.write(FRAME, offset)
        if taken(disk.writer, SOON_MS) is None:
            return False
    return True


def one_at_a_time(disk: GatedDisk) -> bool:
    disk.write(FRAME)
    try:
        disk.write(b"another", 5000)
    except RuntimeError:
        return True
    finally:
        disk.tell(ALL, ALL)
    return False


def test_nothing_is_told_before_the_write_has_ended(disk: GatedDisk) -> None:
    assert not told_early(disk)
    assert disk.ended() == 0


def test_every_end_is_told(disk: GatedDisk) -> None:
    assert told_at_all(disk)


def test_a_second_frame_is_refused_while_one_is_under_way(disk: GatedDisk) -> None:
    assert one_at_a_time(disk)
    assert disk.ended() == 0
    assert disk.path.read_bytes() == FRAME


WRITES = "        writer->began_s = now_s();\n"
TELLS = """        atomic_store_explicit(&writer->state, ENDED, memory_order_release);
        eventfd_write(writer->ended, 1);
"""


def test_planted_an_end_that_is_told_before_the_write(tmp_path: Path) -> None:
    disk = GatedDisk(built(tmp_path, planted=(WRITES, TELLS + WRITES), fake=True), tmp_path / "file")
    assert told_early(disk)
    disk.close()


def test_planted_an_end_that_is_lost(tmp_path: Path) -> None:
    signal = TELLS.splitlines()[1]
    disk = GatedDisk(built(tmp_path, planted=(signal, ""), fake=True), tmp_path / "file")
    assert not told_at_all(disk)
    disk.close()


def test_planted_a_second_frame_that_takes_the_place_of_the_first(tmp_path: Path) -> None:
    check = ("!= IDLE", "== ENDED")
    disk = GatedDisk(built(tmp_path, planted=check, fake=True), tmp_path / "file")
    assert not one_at_a_time(disk)
    disk.close()


def test_a_frame_is_held_until_it_is_taken(disk: GatedDisk) -> None:
    frame = os.urandom(100)
    held = sys.getrefcount(frame)
    disk.write(frame)
    assert sys.getrefcount(frame) == held + 1
    disk.tell(ALL)
    assert disk.ended() == 0
    assert sys.getrefcount(frame) == held
    disk.write(frame)
    disk.tell(ALL)
    disk.writer.close()
    assert sys.getrefcount(frame) == held, "by then, if it is not taken"


def test_only_bytes_are_written(disk: GatedDisk) -> None:
    """What can change, or move, must not be under a thread without a lock."""
    for wrong in (bytearray(FRAME), memoryview(FRAME), "text"):
        with pytest.raises(TypeError):
            disk.writer.write(disk.file, wrong, 0)  # type: ignore[arg-type]


def test_closing_waits_for_the_write_under_way_and_lets_others_run(disk: GatedDisk) -> None:
    disk.tell(500)
    disk.write(FRAME)
    closing = threading.Thread(target=disk.writer.close)
    closing.start()
    assert disk.path.stat().st_size < len(FRAME), "this thread runs, and the write has not ended"
    assert closing.is_alive()
    disk.tell(ALL)
    closing.join()
    assert disk.path.read_bytes() == FRAME


def test_a_closed_writer_says_so(disk: GatedDisk) -> None:
    disk.writer.close()
    disk.writer.close()
    for use in (disk.writer.fileno, disk.writer.take, lambda: disk.write(FRAME)):
        with pytest.raises(ValueError, match="closed"):
            use()


def own_threads() -> list[Path]:
    return [task for task in Path("/proc/self/task").iterdir() if (task / "comm").read_text() == "epoxy-log\n"]


def test_its_thread_has_a_name_and_leaves_signals_to_others(disk: GatedDisk) -> None:
    disk.tell(ALL)
    disk.write(FRAME)
    assert disk.ended() == 0, "it runs, and has the mask it was given"
    (task,) = own_threads()
    (blocked,) = [int(line.split()[1], 16) for line in (task / "status").read_text().splitlines() if "SigBlk" in line]
    for signal, free in ((2, False), (14, False), (15, False), (11, True), (7, True)):
        assert bool(blocked >> (signal - 1) & 1) != free


def test_many_writers_leave_no_thread_and_no_descriptor(module: ModuleType, tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    writers: list[FrameWriter] = [module.LogWriter() for _ in range(50)]
    for number, writer in enumerate(writers):
        writer.write(file, b"%03d" % number, 3 * number)
    assert [taken(writer, NEVER_MS) is not None for writer in writers] == [True] * 50
    assert os.pread(file, 200, 0) == b"".join(b"%03d" % number for number in range(50))
    for writer in writers[:25]:
        writer.close()
    del writers, writer
    os.close(file)
    assert own_threads() == [], "closed, or forgotten"
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_hundred_thousand_frames_beside_a_thread_that_computes(module: ModuleType, tmp_path: Path) -> None:
    """All there, in order, each told once; compared with what is in the file."""
    file = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    writer: FrameWriter = module.LogWriter()
    computing = threading.Event()
    other = threading.Thread(target=lambda: [hash(computing) for _ in iter(computing.is_set, True)])
    other.start()
    expected, offset = bytearray(), 0
    poll = select.poll()
    poll.register(writer.fileno(), select.POLLIN)
    for number in range(100_000):
        frame = b"%06d" % number * (1 + number % 7)
        writer.write(file, frame, offset)
        expected += frame
        offset += len(frame)
        del frame
        assert poll.poll(NEVER_MS)
        ended = writer.take()
        assert ended is not None
        assert ended[0] == 0
    computing.set()
    other.join()
    writer.close()
    assert (tmp_path / "file").read_bytes() == expected
    os.close(file)


ENDS = """
import ctypes, importlib.util, os, sys
spec = importlib.util.spec_from_file_location("log_writer", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
gate, told = os.pipe()
ctypes.c_int.in_dll(ctypes.CDLL(sys.argv[1]), "gate").value = gate
writer = module.LogWriter()
writer.write(os.open(sys.argv[2], os.O_RDWR | os.O_CREAT), b"frame" * 100, 0)
"""
FORKS = """
child = os.fork()
if not child:
    writer.close()
    del writer
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
os.write(told, (1000).to_bytes(8, "little"))
while writer.take() is None:
    pass
"""


@pytest.mark.parametrize(
    ("then", "status", "written"),
    [
        (FORKS, 0, 500),
        ("os.write(told, (1000).to_bytes(8, 'little'))", 0, 500),
        ("os._exit(74)", 74, 0),
        ("os.kill(os.getpid(), 9)", -9, 0),
    ],
    ids=["forked", "at the end", "exit", "killed"],
)
def test_a_process_ends_around_a_write(
    module: ModuleType, tmp_path: Path, then: str, status: int, written: int
) -> None:
    path = tmp_path / "file"
    assert module.__file__ is not None
    ended = subprocess.run(
        [sys.executable, "-c", ENDS + then, module.__file__, str(path)],
        cwd=ROOT,
        capture_output=True,
        timeout=NEVER_MS / 1000,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (status, b"")
    assert path.stat().st_size == written
