"""Memory of long values goes back to the system."""

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from epoxy.node.process.malloc import map_long_blocks

def rss_mib():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / (1 << 20)

if sys.argv[1] == "mapped":
    assert map_long_blocks()
before = rss_mib()
values = [bytes(1 << 20)[:-1] + b"x" for _ in range(100)]
small = []
for at in range(0, 100, 2):
    values[at] = b""
    small.append(bytes(60_000) + b"x")
values[1:90] = []
print(rss_mib() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc")
def test_freed_long_values_are_given_back() -> None:
    told = subprocess.run([sys.executable, "-c", SCRIPT, "mapped"], capture_output=True, text=True, check=True)
    assert float(told.stdout) < 40
