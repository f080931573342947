"""promtool is found, or unpacked beside python; where it cannot be had, the error says what to install."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools import promtool as module


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without one. Returns a folder that its programs are looked for in."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.delenv("EPOXY_TEST_PROMTOOL", raising=False)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(module, "CARRIED", tmp_path / "carried")
    return programs


def program(path: Path, lines: str = "") -> Path:
    path.write_text(f"#!{sys.executable}\nimport pathlib, sys\n{lines}\n")
    path.chmod(0o755)
    return path


def test_one_that_is_named_is_taken(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare / "promtool")
    monkeypatch.setenv("EPOXY_TEST_PROMTOOL", "/somewhere/promtool")
    assert module.promtool() == Path("/somewhere/promtool")


def test_the_one_beside_python_comes_before_the_machines(bare: Path) -> None:
    installed = program(bare / "promtool")
    assert module.promtool() == installed
    program(module.CARRIED)
    assert module.promtool() == module.CARRIED


def test_it_is_taken_out_of_the_package(bare: Path, tmp_path: Path) -> None:
    """The list of packages is fetched if the first download fails."""
    updated = tmp_path / "updated"
    download = f"sys.exit(1) if not pathlib.Path({str(updated)!r}).exists() else pathlib.Path('a.deb').touch()"
    program(bare / "apt-get", f"pathlib.Path({str(updated)!r}).touch() if 'update' in sys.argv else None\n{download}")
    unpack = "made = pathlib.Path(sys.argv[3], 'usr/bin/promtool')\nmade.parent.mkdir(parents=True)\nmade.touch(0o755)"
    program(bare / "dpkg-deb", unpack)
    module.install(module.CARRIED)
    assert module.promtool() == module.CARRIED
    assert updated.exists()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("carried")] == ["carried"]


@pytest.mark.parametrize("has_apt", [False, True])
def test_where_none_can_be_had_the_error_says_what_to_install(
    bare: Path, has_apt: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    if has_apt:
        program(bare / "apt-get", "sys.exit(100)")
        program(bare / "dpkg-deb")
    assert module.main() == 1
    assert "apt install prometheus" in capfd.readouterr().err


def test_one_that_does_not_run_is_told(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program(bare / "promtool", "sys.exit(1)")
    assert module.main() == 1
    assert "does not run here" in capsys.readouterr().err


def test_the_one_of_this_machine_runs() -> None:
    told = subprocess.run([module.promtool(), "--version"], capture_output=True, text=True, check=True)
    assert "promtool, version" in told.stdout + told.stderr
