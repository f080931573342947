"""A tree that is cut while a process has it mapped: one line and the exit code of a failed disk, from any thread."""

import subprocess
import sys
from pathlib import Path

import pytest

from epoxy.node.process.exits import EXIT_STORE

CHILD = """
import os, sys, threading
from pathlib import Path
from epoxy.node.process.sigbus import end_on_bus_error
from epoxy.store.embedded.log import LogPosition
from epoxy.store.embedded.scrub import verify
from epoxy.store.embedded.tree import Tree

folder, reader = Path(sys.argv[1]), sys.argv[2]
tree = Tree(folder)
tree.apply({b"%05d" % number: b"v" * 500 for number in range(2000)}, LogPosition())
end_on_bus_error(lambda: print("the tree was cut", file=sys.stderr, flush=True))

def read():
    file = folder / "data.mdb"
    os.truncate(file, file.stat().st_size // 2)
    while True:
        if reader == "scrub":
            verify(tree.view(), b"", 10_000)
        else:
            for number in range(2000):
                tree.view().get(b"%05d" % number)

if reader == "loop":
    threading.Thread(target=lambda: [sum(range(1000)) for _ in iter(int, 1)], daemon=True).start()
    read()
else:
    threading.Thread(target=read, daemon=True).start()
    while True:
        sum(range(1000))
"""


@pytest.mark.parametrize("reader", ["loop", "thread", "scrub"])
def test_a_tree_that_is_cut_under_a_running_process(tmp_path: Path, reader: str) -> None:
    """Beside a thread that keeps the interpreter's lock busy."""
    command = [sys.executable, "-c", CHILD, str(tmp_path), reader]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (EXIT_STORE, "the tree was cut\n")


def test_without_the_handler_there_is_no_line(tmp_path: Path) -> None:
    child = CHILD.replace("end_on_bus_error(lambda", "print if 1 else (lambda")
    command = [sys.executable, "-c", child, str(tmp_path), "loop"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stderr) == (-7, "")
