"""The last release, built from git: by its tag, or by the commit that is recorded."""

import subprocess
from pathlib import Path

import pytest

from epoxy.model.versions import LAST_RELEASE
from tests.tools.test_release import commit, git
from tools import previous_release
from tools.previous_release import ROOT, NoRelease, commit_of, extract, newest_release, previous_python


@pytest.fixture
def root(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    (tmp_path / "file").write_text("one")
    commit(tmp_path)
    return tmp_path


def test_the_tag_counts_and_without_it_the_commit_on_record(root: Path) -> None:
    first = git(root, "rev-parse", "HEAD")
    assert commit_of("0.1.0", first, root) == first
    (root / "file").write_text("two")
    commit(root)
    git(root, "tag", "v0.1.0")
    assert commit_of("0.1.0", first, root) == git(root, "rev-parse", "HEAD")


def test_a_clone_without_it_is_told_what_to_fetch(root: Path) -> None:
    with pytest.raises(NoRelease, match=r"release 0\.1\.0\) is not in this clone: `git fetch --tags --unshallow`"):
        commit_of("0.1.0", "0" * 40, root)


def test_the_newest_release_is_the_first(root: Path) -> None:
    written = '[[release]]\nversion = "0.2.0"\ncommit = "b"\n[[release]]\nversion = "0.1.0"\ncommit = "a"\n'
    assert newest_release(written) == ("0.2.0", "b")
    with pytest.raises(NoRelease, match="names no release"):
        newest_release("")
    with pytest.raises(NoRelease, match="no archive"):
        extract("0" * 40, root / "out", root)


def test_the_release_on_record_is_the_one_that_this_build_runs_with() -> None:
    version, _ = newest_release((ROOT / "releases.toml").read_text("utf-8"))
    assert version.rpartition(".")[0] == LAST_RELEASE


def test_it_is_built_once_and_runs_apart_from_this_build(monkeypatch: pytest.MonkeyPatch) -> None:
    python = previous_python()
    monkeypatch.setattr(previous_release, "install", None)
    assert previous_python() == python, "it is there already"
    told = subprocess.run([python, "-m", "epoxy", "--version"], capture_output=True, text=True, check=True).stdout
    assert told.startswith(f"epoxy {LAST_RELEASE}.")
