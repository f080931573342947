"""promtool, which checks and tries the alert rules in `deploy/prometheus`.

`python -m tools.promtool` finds one, or takes it out of Debian's package `prometheus` and puts it beside python: the
package is downloaded and unpacked, and not installed, so no service starts. EPOXY_TEST_PROMTOOL names another.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

CARRIED = Path(sys.executable).with_name("promtool")
PACKAGE = "prometheus"
INSIDE = Path("usr") / "bin" / "promtool"
"""Where the package has it."""

HINT = "Debian and Ubuntu: apt install prometheus; macOS: brew install prometheus; or name one in EPOXY_TEST_PROMTOOL"


class NoPromtool(Exception):
    """Says what to install."""


def promtool() -> Path:
    named = os.environ.get("EPOXY_TEST_PROMTOOL")
    if named:
        return Path(named)
    if CARRIED.exists():
        return CARRIED
    installed = shutil.which("promtool")
    if installed is None:
        raise NoPromtool(f"no promtool here ({HINT})")
    return Path(installed)


def install(to: Path = CARRIED) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise NoPromtool(f"no promtool here, and no apt-get to have it from ({HINT})")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        # A machine that was just made has no list of packages yet.
        if not download(folder) and not (quiet(["apt-get", "-q", "update"], folder) and download(folder)):
            raise NoPromtool(f"apt-get has no package {PACKAGE} for us ({HINT})")
        (package,) = folder.glob("*.deb")
        subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
        # Renamed into place: half of it would be taken for one.
        draft = to.with_name(f"{to.name}.next")
        shutil.copy2(folder / INSIDE, draft)
        draft.replace(to)


def download(folder: Path) -> bool:
    return quiet(["apt-get", "-q", "download", PACKAGE], folder)


def quiet(command: Sequence[str], folder: Path) -> bool:
    return subprocess.run(command, cwd=folder, check=False, stdout=sys.stderr).returncode == 0


def runs(program: Path) -> bool:
    try:
        return subprocess.run([program, "--version"], capture_output=True, check=False, timeout=60).returncode == 0
    except OSError:
        return False


def main() -> int:
    try:
        try:
            found = promtool()
        except NoPromtool:
            print("tools.promtool: unpacking it", flush=True)
            install()
            found = promtool()
    except (NoPromtool, subprocess.CalledProcessError) as error:
        print(f"tools.promtool: {error}", file=sys.stderr)
        return 1
    if not runs(found):
        print(f"tools.promtool: {found} does not run here ({HINT})", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
