"""Builds an sdist of the tracked files, and out of it the interpreted and the compiled wheel.

Reproducible: the same commit gives the same bytes, in whichever folder. Every file has the time of the last commit, and
modes that do not depend on the umask; what the compiler writes down of its folder is mapped to one name. The pinned
backend of the environment is asked, and nothing is fetched.
"""

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

BUILT_IN = "epoxydb"
"""Stands in compiled modules for the folder they were built in."""


class BuildFailed(Exception):
    """Says which step, with the end of its output."""


def tracked_files(root: Path = ROOT) -> list[Path]:
    """Relative to the root, as they are in the working copy."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True)
    return [Path(name) for name in sorted(listed.stdout.split("\0")) if name and (root / name).is_file()]


def time_of_last_commit(root: Path = ROOT) -> int:
    told = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=root, capture_output=True, text=True, check=True)
    return int(told.stdout)


def copy_tracked(folder: Path, root: Path = ROOT) -> None:
    for name in tracked_files(root):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / name, folder / name)


def ask_backend(folder: Path, hook: str, epoch: int, **environment: str) -> Path:
    """As pip does it: the backend is asked from the project's folder. What it made is in `made`."""
    made = folder / "made"
    made.mkdir(exist_ok=True)
    folders = {folder: BUILT_IN, sys.prefix: "environment", sys.base_prefix: "python"}
    mapped = [f"-ffile-prefix-map={path}={name}" for path, name in folders.items()]
    told = subprocess.run(
        [sys.executable, "-c", f"from setuptools.build_meta import {hook}; {hook}('made')"],
        cwd=folder,
        env=os.environ
        | {"PYTHONPATH": "", "PYTHONHASHSEED": "0", "SOURCE_DATE_EPOCH": str(epoch), "EPOXY_PURE": ""}
        | {"CFLAGS": " ".join([os.environ.get("CFLAGS", ""), *mapped]).strip()}
        | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if told.returncode:
        raise BuildFailed(f"{hook} ended with {told.returncode}:\n{told.stdout[-2000:]}")
    (file,) = made.iterdir()
    return file


def normalised(sdist: Path, epoch: int) -> bytes:
    """The same archive without what differs from build to build: order, times, owners, modes."""
    with tarfile.open(sdist) as archive:
        files = [(member, archive.extractfile(member)) for member in archive.getmembers() if member.isfile()]
        contents = {member.name: taken.read() for member, taken in files if taken is not None}
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=epoch) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, content in sorted(contents.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), epoch, 0o644
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def build_sdist(dist: Path, epoch: int) -> Path:
    with tempfile.TemporaryDirectory() as scratch:
        copy_tracked(Path(scratch))
        made = ask_backend(Path(scratch), "build_sdist", epoch)
        (dist / made.name).write_bytes(normalised(made, epoch))
        return dist / made.name


def build_wheel(sdist: Path, dist: Path, epoch: int, *, compiled: bool) -> Path:
    """From the sdist, so that what it lacks is noticed."""
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(sdist) as archive:
            archive.extractall(scratch, filter="data")
        (folder,) = Path(scratch).iterdir()
        made = ask_backend(folder, "build_wheel", epoch, EPOXY_PURE="" if compiled else "1")
        if compiled and sys.platform == "linux":
            return repaired(made, dist, epoch)
        return Path(shutil.copy(made, dist))


def repaired(wheel: Path, dist: Path, epoch: int) -> Path:
    """Named after the oldest C library that it runs with: an index takes no wheel that is called plainly linux."""
    with tempfile.TemporaryDirectory() as scratch:
        told = subprocess.run(
            [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", scratch, wheel],
            env=os.environ
            | {"SOURCE_DATE_EPOCH": str(epoch), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if told.returncode:
            raise BuildFailed(f"auditwheel ended with {told.returncode}:\n{told.stdout[-2000:]}")
        (made,) = Path(scratch).iterdir()
        return Path(shutil.copy(made, dist))
