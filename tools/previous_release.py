"""An environment with the release before this build, made from its tag: for tests that run both in one cluster.

    python -m tools.previous_release        prints the Python of that environment

The newest release of releases.toml is built into .venv-previous, once for each commit, from what git has of it. Its
dependencies are those of the environment that runs this, by a path file behind its own packages: the release itself is
what differs.
"""

import fcntl
import io
import os
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv-previous"
PARTS = ("src", "requirements", "pyproject.toml", "setup.py", "README.md", "LICENSE")
"""Of the tree, which is what a wheel is built from."""

PATIENCE_S = 300.0
"""For one command of git or pip. The longest takes ten seconds on two busy cores."""


class NoRelease(Exception):
    """The release cannot be built here; the message says what to do."""


def newest_release(text: str) -> tuple[str, str]:
    """The version and the commit of the newest release of a releases.toml."""
    found = tomllib.loads(text).get("release", [])
    if not found:
        raise NoRelease("releases.toml names no release")
    return str(found[0]["version"]), str(found[0]["commit"])


def git(root: Path, *words: str) -> bytes | None:
    """None: it failed."""
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, timeout=PATIENCE_S, check=False)
    return done.stdout if done.returncode == 0 else None


def commit_of(version: str, recorded: str, root: Path = ROOT) -> str:
    """The tag's commit; without the tag, the recorded one."""
    tagged = git(root, "rev-parse", "--verify", "--quiet", f"v{version}^{{commit}}")
    commit = tagged.decode().strip() if tagged is not None else recorded
    if git(root, "cat-file", "-e", f"{commit}^{{commit}}") is None:
        raise NoRelease(f"{commit} (release {version}) is not in this clone: `git fetch --tags --unshallow` brings it")
    return commit


def extract(commit: str, into: Path, root: Path = ROOT) -> None:
    archive = git(root, "archive", "--format=tar", commit, *PARTS)
    if archive is None:
        raise NoRelease(f"git has no archive of {commit}")
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(into, filter="data")


def install(source: Path, folder: Path) -> None:
    """Interpreted: compiling takes minutes, and changes nothing of what is said or stored."""
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    site = next((folder / "lib").glob("python*/site-packages"))
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n", "utf-8")
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps"]
    words = ["--disable-pip-version-check", "--no-build-isolation", "--no-index", "--force-reinstall", str(source)]
    environment = {**os.environ, "EPOXY_PURE": "1"}
    done = subprocess.run(
        [*command, *words], env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    if done.returncode != 0:
        raise NoRelease(f"the release at {source} cannot be installed:\n{done.stderr.strip()}")


def previous_python(root: Path = ROOT, folder: Path = FOLDER) -> Path:
    """The Python of the environment, which is made if it is not there. Processes that want it at once wait."""
    version, recorded = newest_release((root / "releases.toml").read_text("utf-8"))
    commit = commit_of(version, recorded, root)
    home = folder / f"{commit[:12]}-{sys.version_info.major}.{sys.version_info.minor}"
    python, ready = home / "venv" / "bin" / "python", home / "ready"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ready.exists():
            extract(commit, home / "source", root)
            install(home / "source", home / "venv")
            ready.touch()
    return python


def main() -> int:
    try:
        print(previous_python())
    except NoRelease as error:
        print(f"previous_release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
