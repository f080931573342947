"""`make release`: what it objects to, and that nothing is tagged unless all is well."""

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tools.release import STEPS, Tree, follows, objections, release, section_of

CHANGELOG = (
    "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n- A line.\n\n## [0.1.0] - 2026-11-18\n\n- All.\n"
)
RELEASES = '[[release]]\nversion = "0.1.0"\ncommit = "1234"\n'


def git(root: Path, *words: str) -> str:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@localhost"]
    done = subprocess.run(["git", *identity, "-C", str(root), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "x")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository that is ready for 0.2.0. Its tags are made by a name that is nobody's."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "Test")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "test@localhost")
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "epoxydb"\nversion = "0.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG)
    (tmp_path / "releases.toml").write_text(RELEASES)
    commit(tmp_path)
    return tmp_path


class Steps:
    """Counts the commands. `fails`: one that fails; `then` is called by each."""

    def __init__(self, fails: str = "", then: Callable[[], object] = lambda: None) -> None:
        self.run: list[tuple[str, ...]] = []
        self._fails = fails
        self._then = then

    def __call__(self, command: Sequence[str]) -> int:
        self.run.append(tuple(command))
        self._then()
        return int(command[-1] == self._fails)


def replaced(root: Path, name: str, old: str, new: str) -> None:
    file = root / name
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    commit(root)


def test_a_release(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = Steps()
    assert release(Tree(root), steps, dry_run=False) == 0
    assert tuple(steps.run) == STEPS
    assert git(root, "cat-file", "-t", "v0.2.0") == "tag", "annotated"
    assert git(root, "rev-parse", "v0.2.0^{commit}") == git(root, "rev-parse", "HEAD")
    told = capsys.readouterr().out
    assert "git push origin main v0.2.0" in told
    assert "0.3.0.dev0" in told
    assert release(Tree(root), steps, dry_run=False) == 1, "once"
    assert "v0.2.0 is tagged already" in capsys.readouterr().err


def test_a_dry_run_does_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = Steps()
    assert release(Tree(root), steps, dry_run=True) == 0
    assert steps.run == []
    assert git(root, "tag") == ""
    assert "0.2.0 could be made: make check, make packages, then the tag v0.2.0" in capsys.readouterr().out


@pytest.mark.parametrize("failing", ["check", "packages"])
def test_a_step_that_fails_ends_it_without_a_tag(root: Path, failing: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert release(Tree(root), Steps(fails=failing), dry_run=False) == 1
    assert git(root, "tag") == ""
    assert f"`make {failing}` failed; nothing was tagged" in capsys.readouterr().err


def test_what_changes_meanwhile_is_not_tagged(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    steps = Steps(then=(root / "new").touch)
    assert release(Tree(root), steps, dry_run=False) == 1
    assert git(root, "tag") == ""
    assert "has changed meanwhile" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("pyproject.toml", "0.2.0", "0.2.0.dev0", "version 0.2.0.dev0 is none of a release"),
        ("pyproject.toml", "0.2.0", "0.3.0", "0.3.0 does not follow 0.1.0"),
        ("pyproject.toml", "0.2.0", "0.1.0", "0.1.0 does not follow 0.1.0"),
        ("CHANGELOG.md", "[0.2.0] - 2026-12-01", "[0.2.0]", "has no section `## [0.2.0] - YYYY-MM-DD`"),
        ("CHANGELOG.md", "\n- A line.\n", "", "the section of 0.2.0 is empty"),
    ],
)
def test_objections(root: Path, name: str, old: str, new: str, words: str) -> None:
    replaced(root, name, old, new)
    assert any(words in objection for objection in objections(Tree(root)))


def test_another_branch_and_an_unclean_copy(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git(root, "checkout", "--quiet", "-b", "other")
    (root / "left").touch()
    steps = Steps()
    assert release(Tree(root), steps, dry_run=False) == 1
    told = capsys.readouterr().err
    assert "on other: releases are made of main" in told
    assert "not clean (1 files)" in told
    assert steps.run == []


@pytest.mark.parametrize(
    ("new", "is_next"),
    [
        ((0, 1, 1), True),
        ((0, 2, 0), True),
        ((1, 0, 0), True),
        ((0, 2, 1), False),
        ((0, 3, 0), False),
        ((0, 1, 0), False),
    ],
)
def test_which_version_comes_next(new: tuple[int, int, int], is_next: bool) -> None:
    assert follows((0, 1, 0), new) is is_next


def test_the_section_of_a_release() -> None:
    assert section_of(CHANGELOG, "0.2.0") == "\n- A line.\n\n"
    assert section_of(CHANGELOG, "0.1.0") == "\n- All.\n"
    assert section_of(CHANGELOG, "0.3.0") is None
