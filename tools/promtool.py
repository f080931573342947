"""promtool, which checks and tries the alert rules in `deploy/prometheus`.

`python -m tools.promtool` finds one, or takes it out of Debian's package `prometheus` and puts it beside python: the
package is downloaded and unpacked, and not installed, so no service starts. EPOXY_TEST_PROMTOOL names another.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.debian import NoPackage, runs, take_out

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
    try:
        take_out(PACKAGE, INSIDE, to)
    except NoPackage as missing:
        raise NoPromtool(f"no promtool here, and {missing} ({HINT})") from missing


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
