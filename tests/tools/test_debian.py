"""Programs out of Debian's packages, with an apt-get and a dpkg-deb that note what they were asked."""

import sys
from pathlib import Path

import pytest

from tools import debian


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without either. Returns the folder that programs are looked for in."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setattr(debian, "KEYS", tmp_path)
    return programs


def program(path: Path, lines: str) -> Path:
    path.write_text(f"#!{sys.executable}\nimport pathlib, sys\n{lines}\n")
    path.chmod(0o755)
    return path


def package_tools(bare: Path, mirrors: str = "http://mirror.example/debian/") -> Path:
    """Returns the file that apt-get's calls stand in."""
    calls = bare / "calls"
    lines = (
        f"open({str(calls)!r}, 'a').write(' '.join(sys.argv[1:]) + chr(10))",
        f"print({mirrors!r}) if 'indextargets' in sys.argv else None",
        "pathlib.Path('a.deb').touch() if 'download' in sys.argv else None",
    )
    program(bare / "apt-get", "\n".join(lines))
    unpack = (
        "made = pathlib.Path(sys.argv[3], 'usr/it')",
        "made.parent.mkdir(parents=True, exist_ok=True)",
        "made.write_text('this')",
    )
    program(bare / "dpkg-deb", "\n".join(unpack))
    return calls


def test_the_machines_own_suite_is_tried_without_new_lists(bare: Path, tmp_path: Path) -> None:
    calls = package_tools(bare)
    debian.take_out("some", Path("usr/it"), tmp_path / "it")
    assert (tmp_path / "it").read_text() == "this"
    assert calls.read_text() == "-qq download some\n"


def test_packages_are_unpacked_into_one_folder_as_a_whole(bare: Path, tmp_path: Path) -> None:
    calls = package_tools(bare)
    debian.unpack(["some", "more"], tmp_path / "made" / "whole")
    assert calls.read_text() == "-qq download some\n-qq download more\n"
    assert (tmp_path / "made" / "whole" / "usr" / "it").read_text() == "this"
    program(bare / "apt-get", "sys.exit(1) if 'more' in sys.argv else pathlib.Path('a.deb').touch()")
    with pytest.raises(debian.NoPackage, match="no package more"):
        debian.unpack(["some", "more"], tmp_path / "half")
    assert not list(tmp_path.glob("half*"))


def test_another_suite_is_asked_for_at_the_machines_mirror_and_leaves_its_lists_alone(
    bare: Path, tmp_path: Path
) -> None:
    calls = package_tools(bare)
    debian.take_out("some", Path("usr/it"), tmp_path / "it", "newer")
    assert (tmp_path / "it").read_text() == "this"
    asked, updated, downloaded = calls.read_text().splitlines()
    assert asked.startswith("indextargets")
    assert updated.endswith(" update")
    assert downloaded.endswith(" download some")
    for line in (updated, downloaded):
        assert "Dir::Etc::sourceparts=-" in line
        assert "Dir::State::lists=" in line


def test_the_list_of_sources_names_suite_mirror_and_keys(bare: Path, tmp_path: Path) -> None:
    package_tools(bare)
    debian.suite_options("newer", tmp_path)
    wanted = f"deb [signed-by={tmp_path}] http://mirror.example/debian/ newer main\n"
    assert (tmp_path / "suite.list").read_text() == wanted


def test_a_machine_that_is_no_debian(bare: Path, tmp_path: Path) -> None:
    with pytest.raises(debian.NoPackage, match="no apt-get"):
        debian.take_out("some", Path("usr/it"), tmp_path / "it")
    package_tools(bare, mirrors="")
    with pytest.raises(debian.NoPackage, match="no Debian"):
        debian.take_out("some", Path("usr/it"), tmp_path / "it", "newer")
    assert not (tmp_path / "it").exists()
