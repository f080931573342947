"""The interpreter that compiled nodes run on in the benchmarks: one that was built with profiles.

More than half of a node's CPU time is the interpreter's own, and with a build of CPython that was made without profiles
a commit takes an eighth more. Those of distributions and container images have them, one built by hand often has not.
`python -m tools.interpreter FOLDER` prints the path of the one to take: this one, if its build says that it was made
with profiles, or else Debian's of the same minor version, unpacked below FOLDER and not installed. Where that cannot be
had it is this one after all, and that is told.
"""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from tools.debian import NoPackage, unpack

MINOR = f"python{sys.version_info.major}.{sys.version_info.minor}"
PACKAGES = (f"{MINOR}-minimal", f"lib{MINOR}-minimal", f"lib{MINOR}-stdlib")
INSIDE = Path("usr") / "bin" / MINOR
LOOK = "import asyncio, ctypes, hashlib, lzma, socket, sqlite3, ssl, sys, venv, zlib; print(sys.version_info[:2])"
"""A build for another machine, or one whose libraries are missing, fails here."""


def has_profiles() -> bool:
    return "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")


def base() -> Path:
    """The one that a virtual environment was made of."""
    return Path(sys.base_prefix) / "bin" / MINOR


def is_usable(python: Path) -> bool:
    try:
        done = subprocess.run([python, "-I", "-c", LOOK], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return False
    return done.stdout.strip() == str(sys.version_info[:2])


def find(folder: Path) -> tuple[Path, str]:
    """Its path, and what to say if it is one without profiles."""
    if has_profiles():
        return base(), ""
    carried = folder / INSIDE
    if is_usable(carried):
        return carried, ""
    shutil.rmtree(folder, ignore_errors=True)
    try:
        unpack(PACKAGES, folder)
        reason = "Debian's does not run here"
    except (NoPackage, subprocess.CalledProcessError) as error:
        reason = str(error)
    return (carried, "") if is_usable(carried) else (base(), reason)


def main(folder: Path) -> int:
    python, reason = find(folder)
    if reason:
        print(f"tools.interpreter: {reason}: compiled nodes run on a build without profiles", file=sys.stderr)
    print(python)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).absolute()))
