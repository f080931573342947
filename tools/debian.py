"""Programs out of Debian's packages: a package is downloaded and unpacked, and not installed, so no service starts and
nothing on the machine changes."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

KEYS = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


class NoPackage(Exception):
    """Says why."""


def take_out(package: str, inside: Path, to: Path, suite: str = "") -> None:
    """Copy the file `inside` of a package to `to`. `suite`: of another one than the machine's own, from the mirror that
    the machine uses."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        fetch(package, folder, folder, suite)
        # Renamed into place: half of it would be taken for one.
        draft = to.with_name(f"{to.name}.next")
        shutil.copy2(folder / inside, draft)
        draft.replace(to)


def unpack(packages: Sequence[str], to: Path) -> None:
    """All that is in these packages, below the folder `to`, which is there as a whole or not at all."""
    draft = to.with_name(f"{to.name}.next")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    try:
        for package in packages:
            with tempfile.TemporaryDirectory() as scratch:
                fetch(package, Path(scratch), draft)
        draft.replace(to)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def fetch(package: str, scratch: Path, to: Path, suite: str = "") -> None:
    """Download a package into one folder, and unpack it into another."""
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NoPackage("no apt-get here")
    options = suite_options(suite, scratch) if suite else []
    # A machine that was just made has no list of packages yet, and another suite's is never there.
    fetched = not suite and download(package, options, scratch)
    if not fetched and not (apt([*options, "update"], scratch) and download(package, options, scratch)):
        raise NoPackage(f"apt-get has no package {package} for us")
    (archive,) = scratch.glob("*.deb")
    subprocess.run(["dpkg-deb", "-x", archive, to], check=True)


def suite_options(suite: str, folder: Path) -> list[str]:
    """Lists of packages apart from the machine's, signed by the same keys."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Origin: Debian", "Component: main"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    if not told:
        # Only what was once fetched is listed.
        apt(["update"], folder)
        told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
    if not told or not KEYS.exists():
        raise NoPackage("this is no Debian")
    sources = folder / "suite.list"
    sources.write_text(f"deb [signed-by={KEYS}] {told[0]} {suite} main\n")
    places = {"Dir::State::lists": "lists", "Dir::Cache": "cache"}
    for name in places.values():
        (folder / name / "partial").mkdir(parents=True)
    kept = [f"{option}={folder / name}" for option, name in places.items()]
    return [
        word for each in (f"Dir::Etc::sourcelist={sources}", "Dir::Etc::sourceparts=-", *kept) for word in ("-o", each)
    ]


def download(package: str, options: Sequence[str], folder: Path) -> bool:
    return apt([*options, "download", package], folder)


def apt(words: Sequence[str], folder: Path) -> bool:
    return subprocess.run(["apt-get", "-qq", *words], cwd=folder, check=False, stdout=sys.stderr).returncode == 0


def runs(program: Path) -> bool:
    try:
        return subprocess.run([program, "--version"], capture_output=True, check=False, timeout=60).returncode == 0
    except OSError:
        return False
