"""`epoxy worker run --reload`: which files count, and which process is started, kept or drained."""

import os
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from epoxy.cli import worker_reloading
from epoxy.cli.worker_reloading import Reloader, changed, source_times


class Process:
    """A worker's process, as a test says."""

    def __init__(self, _command: Sequence[str]) -> None:
        self.connected = False
        self.status: int | None = None
        self.drained = 0
        self.closed = False
        STARTED.append(self)

    def look(self) -> None:
        pass

    def drain(self) -> None:
        self.drained += 1

    def close(self) -> None:
        self.closed = True


STARTED: list[Process] = []


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    STARTED.clear()
    monkeypatch.setattr(worker_reloading, "WorkerProcess", Process)
    file = tmp_path / "app.py"
    file.write_text("")
    return file


def touch(file: Path) -> None:
    now = os.stat(file).st_mtime_ns
    os.utime(file, ns=(now, now + 1_000_000_000))


def started(source: Path) -> Reloader:
    reloader = Reloader([source.parent], ["epoxy"])
    reloader.start()
    reloader.step()
    STARTED[0].connected = True
    reloader.step()
    return reloader


def test_python_files_count_and_no_others(tmp_path: Path) -> None:
    for name in ("a.py", "b.txt", "sub/c.py", ".venv/d.py", "node_modules/e.py", "__pycache__/f.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    times = source_times([tmp_path])
    assert sorted(os.path.relpath(path, tmp_path) for path in times) == ["a.py", "sub/c.py"]
    before = dict(times)
    touch(tmp_path / "a.py")
    (tmp_path / "sub/c.py").unlink()
    (tmp_path / "new.py").write_text("")
    now = source_times([tmp_path])
    assert [os.path.relpath(path, tmp_path) for path in changed(before, now)] == ["a.py", "new.py", "sub/c.py"]
    assert changed(now, dict(now)) == []


def test_too_many_files_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_reloading, "MAX_FILES", 1)
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("")
    with pytest.raises(click.UsageError, match="--watch names a smaller folder"):
        source_times([tmp_path])


def test_the_old_one_drains_when_the_new_one_is_connected(source: Path) -> None:
    reloader = started(source)
    reloader.step()
    assert len(STARTED) == 1
    touch(source)
    reloader.step()
    old, new = STARTED
    assert (old.drained, new.drained) == (0, 0), "not before that"
    new.connected = True
    reloader.step()
    assert (old.drained, new.drained, old.closed) == (1, 0, False)
    old.status = 0
    reloader.step()
    assert old.closed


def test_code_that_does_not_start_changes_nothing(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reloader = started(source)
    touch(source)
    reloader.step()
    STARTED[1].status = 1
    reloader.step()
    assert STARTED[0].drained == 0
    assert "it ended with status 1; the code before it goes on" in capsys.readouterr().err
    touch(source)
    reloader.step()
    assert len(STARTED) == 3


def test_a_newer_change_replaces_one_that_is_not_connected_yet(source: Path) -> None:
    reloader = started(source)
    for _ in range(2):
        touch(source)
        reloader.step()
    old, between, new = STARTED
    assert (old.drained, between.drained) == (0, 1)
    new.connected = True
    reloader.step()
    assert (old.drained, between.drained, new.drained) == (1, 1, 0)


def test_one_that_ended_by_itself_is_started_with_the_next_change(
    source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reloader = started(source)
    STARTED[0].status = 70
    reloader.step()
    assert "the worker ended with status 70; it is started with the next change" in capsys.readouterr().err
    touch(source)
    reloader.step()
    reloader.step()
    assert (len(STARTED), STARTED[1].drained) == (2, 0)


def test_a_signal_drains_all_and_a_second_one_again(source: Path) -> None:
    reloader = started(source)
    touch(source)
    reloader.step()
    reloader.stop()
    assert ([each.drained for each in STARTED], reloader.is_over) == ([1, 1], False)
    touch(source)
    reloader.step()
    assert len(STARTED) == 2, "nothing is started any more"
    reloader.stop()
    assert [each.drained for each in STARTED] == [2, 2]
    for each in STARTED:
        each.status = 0
    reloader.step()
    assert reloader.is_over
