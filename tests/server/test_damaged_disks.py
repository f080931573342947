"""Real nodes whose files are cut, flipped or unlocked: noticed, with one line and the exit code that is documented."""

import os
import signal
from pathlib import Path

import pytest

from tests.server.test_process import PATIENCE_S, Running, command, layout, refusal, running, spawned

KEYS = 200
VALUE = bytes(2048)
"""Zeros: a sector of a frame that holds them alone would look as if it had never been written."""


def reserve(served: Running, *names: str) -> None:
    for name in names:
        status, _ = served.ask("PUT", f"/v2/kv/{name}", VALUE)
        assert status in (200, 201), name


def segment(data_dir: Path) -> Path:
    *_, last = sorted((data_dir / "log").glob("*.log"))
    return last


def killed(served: Running) -> None:
    served.process.send_signal(signal.SIGKILL)
    served.end()


def test_a_log_that_was_cut_short_or_changed_is_refused(tmp_path: Path) -> None:
    node = layout(tmp_path, 1)
    with running(node) as served:
        reserve(served, "first", "second")
        killed(served)
    log = segment(node.data_dir)
    whole = log.read_bytes()
    written = whole.rstrip(b"\x00")
    for length in (len(written) - 100, len(whole) - 1):
        os.truncate(log, length)
        assert "the file was cut short, and acknowledged writes may be missing" in refusal(node)
        log.write_bytes(whole)
    place = len(written) - 700
    log.write_bytes(whole[:place] + bytes((whole[place] ^ 1,)) + whole[place + 1 :])
    assert refusal(node).endswith("is damaged")
    log.write_bytes(whole)
    with running(node) as served:
        assert served.ask("GET", "/v2/kv/second") == (200, VALUE)


def test_without_its_lock_file_a_directory_is_still_locked(tmp_path: Path) -> None:
    node = layout(tmp_path, 1)
    with running(node):
        (node.data_dir / "lock").unlink()
        assert refusal(node) == f"data directory {node.data_dir}: in use by another process"


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    """Of a node whose rows are in its tree: a start brings the log into it."""
    node = layout(tmp_path, 1)
    with running(node) as served:
        reserve(served, *(f"name-{number}" for number in range(KEYS)))
        killed(served)
    return tmp_path


def test_a_tree_that_is_cut_to_half_ends_the_node_with_a_line(filled: Path) -> None:
    node = layout(filled, 1)
    tree = node.data_dir / "tree" / "data.mdb"
    with running(node) as served:
        while tree.stat().st_size < KEYS * len(VALUE):
            assert served.status()
        os.truncate(tree, tree.stat().st_size // 2)
        try:
            for number in range(KEYS):
                served.ask("GET", f"/v2/kv/name-{number}")
        except OSError:
            pass
        assert served.end() == 74
        line = served.hear("the store failed; ending without another answer")
        # A checkpoint that was under way may have made the file longer again, by pages of zeros.
        assert "SIGBUS: the tree in" in line["detail"] or "the tree is damaged" in line["detail"]
    with spawned("-m", "epoxy", *command(node)) as process:
        _, told = process.communicate(timeout=PATIENCE_S)
    last = told.splitlines()[-1]
    assert process.returncode == 74, last
    assert "cut short" in last or "the tree is damaged" in last
