"""A tree that is damaged while a process has it mapped: one line and the status of a failed disk, from any thread."""

import subprocess
import sys
from pathlib import Path

import pytest

from epoxy.node.process.exits import EXIT_STORE

CHILD = """
import os, sys, threading
from pathlib import Path
from epoxy.node.process.fatal_signals import end_on_fatal_signals
from epoxy.store.embedded.log import LogPosition
from epoxy.store.embedded.scrub import verify
from epoxy.store.embedded.tree import Tree

folder, damage, reader = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
file = folder / "data.mdb"
tree = Tree(folder)
tree.apply({b"%05d" % number: b"v" * 500 for number in range(2000)}, LogPosition())
end_on_fatal_signals("there", lambda words: print(words, file=sys.stderr, flush=True))

def cut():
    os.truncate(file, file.stat().st_size // 2)

def zero():
    # A page of rows in the middle, so that a search meets others first.
    at = file.read_bytes().find(b"01000") // 4096 * 4096
    descriptor = os.open(file, os.O_WRONLY)
    os.pwrite(descriptor, bytes(4096), at)

def read():
    {"cut": cut, "zero": zero}[damage]()
    while True:
        if reader == "scrub":
            verify(tree.view(), b"", 10_000)
        elif reader == "range":
            list(tree.view().rows(b"", b"\\xff", False))
        else:
            for number in range(2000):
                tree.view().get(b"%05d" % number)

if reader in ("loop", "range"):
    threading.Thread(target=lambda: [sum(range(1000)) for _ in iter(int, 1)], daemon=True).start()
    read()
else:
    threading.Thread(target=read, daemon=True).start()
    while True:
        sum(range(1000))
"""


def ended(child: str, *arguments: str) -> tuple[int, list[str]]:
    command = [sys.executable, "-c", child, *arguments]
    process = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return process.returncode, process.stderr.splitlines()


@pytest.mark.parametrize("reader", ["loop", "thread", "scrub"])
def test_a_tree_that_is_cut_under_a_running_process(tmp_path: Path, reader: str) -> None:
    """Beside a thread that keeps the interpreter's lock busy."""
    line = "SIGBUS: the tree in there was cut short, or its disk cannot read it"
    assert ended(CHILD, str(tmp_path), "cut", reader) == (EXIT_STORE, [line])


@pytest.mark.parametrize("reader", ["range", "scrub"])
def test_a_page_of_zeros_that_a_check_of_lmdb_meets(tmp_path: Path, reader: str) -> None:
    status, (check, line) = ended(CHILD, str(tmp_path), "zero", reader)
    assert status == EXIT_STORE
    assert "mdb.c" in check
    assert line.startswith("SIGABRT: ")
    assert "the tree in there is damaged" in line


def test_without_the_handler_there_is_no_line(tmp_path: Path) -> None:
    child = CHILD.replace("end_on_fatal_signals(", "print if 1 else (")
    assert ended(child, str(tmp_path), "cut", "loop") == (-7, [])
