"""The interpreter of compiled nodes: one that was built with profiles, or else this one, and then that is told."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools import interpreter
from tools.debian import NoPackage


def built_with(monkeypatch: pytest.MonkeyPatch, options: str) -> None:
    monkeypatch.setattr("sysconfig.get_config_var", lambda _: options)


def unpacked(python: str) -> object:
    def unpack(_packages: Sequence[str], to: Path) -> None:
        made = to / interpreter.INSIDE
        made.parent.mkdir(parents=True)
        made.write_text(f"#!/bin/sh\n{python}\n")
        made.chmod(0o755)

    return unpack


def test_a_build_with_profiles_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    built_with(monkeypatch, "'--enable-shared' '--enable-optimizations'")
    python, reason = interpreter.find(tmp_path / "python")
    assert interpreter.is_usable(python)
    assert reason == ""
    assert not (tmp_path / "python").exists()


def test_in_place_of_one_without_debians_is_unpacked_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    built_with(monkeypatch, "'--enable-shared'")
    monkeypatch.setattr(interpreter, "unpack", unpacked(f'exec {sys.executable} "$@"'))
    assert interpreter.main(tmp_path / "python") == 0
    monkeypatch.setattr(interpreter, "unpack", None)
    assert interpreter.main(tmp_path / "python") == 0
    assert capsys.readouterr() == (f"{tmp_path / 'python' / interpreter.INSIDE}\n" * 2, "")


@pytest.mark.parametrize("python", ["exit 1", "echo '(2, 7)'"])
def test_one_that_does_not_run_here_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, python: str) -> None:
    built_with(monkeypatch, "")
    monkeypatch.setattr(interpreter, "unpack", unpacked(python))
    assert interpreter.find(tmp_path / "python") == (interpreter.base(), "Debian's does not run here")


def test_where_none_is_to_be_had_it_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def unpack(*_: object) -> None:
        raise NoPackage("no apt-get here")

    built_with(monkeypatch, "")
    monkeypatch.setattr(interpreter, "unpack", unpack)
    assert interpreter.main(tmp_path / "python") == 0
    told = capsys.readouterr()
    assert told.out == f"{interpreter.base()}\n"
    assert "no apt-get here: compiled nodes run on a build without profiles" in told.err
