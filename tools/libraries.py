"""What the tests of libraries need beside Python's packages: clients for Node, and redis-benchmark.

`python -m tools.libraries` installs beside that python the packages that are pinned in tests/libraries/npm, and
Debian's redis-tools where apt-get may be used and no redis-benchmark is on the path.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

PINS = Path(__file__).resolve().parents[1] / "tests" / "libraries" / "npm"
FOLDER = Path(sys.executable).parent.parent / "libraries"
NODE_MODULES = FOLDER / "node_modules"

NODE_HINT = "Debian and Ubuntu: apt install npm; macOS: brew install node"
BENCHMARK_HINT = "Debian and Ubuntu: apt install redis-tools; Fedora: dnf install valkey; macOS: brew install redis"


class Lacking(Exception):
    """Says what to install."""


def redis_benchmark() -> Path:
    found = shutil.which("redis-benchmark") or shutil.which("valkey-benchmark")
    if found is None:
        raise Lacking(f"no redis-benchmark here ({BENCHMARK_HINT})")
    return Path(found)


def install_clients() -> None:
    if shutil.which("npm") is None:
        raise Lacking(f"no npm here ({NODE_HINT})")
    FOLDER.mkdir(exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(PINS / name, FOLDER / name)
    subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund", "--prefix", FOLDER], check=True)


def install_benchmark() -> None:
    try:
        redis_benchmark()
    except Lacking:
        if os.geteuid() != 0 or shutil.which("apt-get") is None:
            raise
        environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        get = ("apt-get", "-q", "-y", "--no-install-recommends")
        for words in ([*get, "update"], [*get, "install", "redis-tools"]):
            subprocess.run(words, check=True, env=environ, stdout=sys.stderr)


def main() -> int:
    try:
        install_clients()
        install_benchmark()
    except (Lacking, subprocess.CalledProcessError) as error:
        print(f"tools.libraries: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
