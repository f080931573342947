"""redis-benchmark, with those of its default tests whose commands a node has. It ends at the first error."""

import re
import subprocess

import pytest

from tests.end_to_end.recorder import PATIENCE_S
from tests.libraries.judge import HOST, Doors
from tools.libraries import redis_benchmark

TESTS = ("ping_inline", "ping_mbulk", "set", "get", "incr", "mset")
FIGURE = re.compile(r"^(\S.*): ([\d.]+|inf) requests per second", re.MULTILINE)


@pytest.mark.parametrize("pipeline", [1, 8])
def test_redis_benchmark(doors: Doors, pipeline: int) -> None:
    words = [
        "-h",
        HOST,
        "-p",
        str(doors.port),
        "-n",
        "200",
        "-c",
        "10",
        "-P",
        str(pipeline),
        "-q",
        "-t",
        ",".join(TESTS),
    ]
    done = subprocess.run([redis_benchmark(), *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    figures = FIGURE.findall(done.stdout.replace("\r", "\n"))
    assert (done.returncode, len(figures)) == (0, len(TESTS)), done.stdout + done.stderr
    assert all(float(each) > 0 for _, each in figures)
