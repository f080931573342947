"""Which interpreters of this machine can run Epoxy: one for each version from 3.11 on, a line each.

Looked for on the path, among pyenv's and among uv's. `make test-pythons` runs the tests on all of them.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

OLDEST = (3, 11)
NAMES = re.compile(r"python3(?:\.\d+)?")
ASK = "import sys; print(*sys.version_info[:3])"
UV_HOME = Path(os.environ.get("UV_PYTHON_INSTALL_DIR", "~/.local/share/uv/python")).expanduser()
PYENV_HOME = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"


def folders() -> Iterator[Path]:
    yield from (Path(folder) for folder in os.get_exec_path())
    for home in (PYENV_HOME, UV_HOME):
        yield from sorted(home.glob("*/bin"))


def candidates(where: Iterable[Path]) -> list[Path]:
    return [
        path for folder in where if folder.is_dir() for path in sorted(folder.iterdir()) if NAMES.fullmatch(path.name)
    ]


def version(python: Path) -> tuple[int, ...] | None:
    """None: it does not run. pyenv leaves names on the path whose version is not chosen."""
    try:
        told = subprocess.run([python, "-c", ASK], capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return tuple(int(part) for part in told.split())


def newest_of_each(found: Iterable[tuple[Path, tuple[int, ...] | None]]) -> dict[str, Path]:
    """By `3.13`, the oldest first."""
    best: dict[tuple[int, ...], tuple[tuple[int, ...], Path]] = {}
    for path, told in found:
        if told is not None and told >= OLDEST and told > best.get(told[:2], ((), path))[0]:
            best[told[:2]] = (told, path)
    return {".".join(str(part) for part in minor): best[minor][1] for minor in sorted(best)}


def main() -> None:
    pythons = newest_of_each((path, version(path)) for path in candidates(folders()))
    if not pythons:
        sys.exit("no Python 3.11 or newer was found on the path, among pyenv's or among uv's")
    for name, path in pythons.items():
        print(f"{name}={path}")


if __name__ == "__main__":
    main()
