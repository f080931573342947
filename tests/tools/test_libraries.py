"""What a machine without npm or redis-benchmark is told, and what is installed on one that has npm."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tools import libraries


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """The programs that were run; none of them is found on the path at first."""
    calls: list[list[str]] = []
    monkeypatch.setattr(subprocess, "run", lambda words, **_: calls.append([str(word) for word in words]))
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(libraries, "FOLDER", tmp_path / "libraries")
    return calls


def test_without_npm(asked: list[list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    assert libraries.main() == 1
    assert "no npm here (Debian and Ubuntu: apt install npm" in capsys.readouterr().err
    assert asked == []


def test_the_pinned_clients_are_installed(asked: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: f"/bin/{name}")
    assert libraries.main() == 0
    assert [words[:2] for words in asked] == [["npm", "ci"]]
    assert sorted(os.listdir(libraries.FOLDER)) == ["package-lock.json", "package.json"]


def test_without_redis_benchmark(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/npm" if name == "npm" else None)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert libraries.main() == 1
    assert "no redis-benchmark here (Debian and Ubuntu: apt install redis-tools" in capsys.readouterr().err
    assert len(asked) == 1
