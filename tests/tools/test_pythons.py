"""Which interpreters `make test-pythons` uses."""

import sys
from pathlib import Path

from tools import pythons


def test_the_newest_of_each_version_from_3_11_on() -> None:
    a, b, c, d, e = (Path(name) for name in "abcde")
    found = [(a, (3, 10, 13)), (b, (3, 13, 0)), (c, (3, 11, 7)), (d, (3, 13, 2)), (e, None)]
    assert pythons.newest_of_each(found) == {"3.11": c, "3.13": d}


def test_names_that_are_no_interpreters_are_passed_over(tmp_path: Path) -> None:
    for name in ("python3", "python3.13", "python3-config", "python3.13-gdb.py", "python"):
        (tmp_path / name).touch()
    assert [path.name for path in pythons.candidates([tmp_path, tmp_path / "none"])] == ["python3", "python3.13"]
    assert pythons.version(tmp_path / "python3") is None


def test_this_one_is_found() -> None:
    assert pythons.version(Path(sys.executable)) == sys.version_info[:3]
