"""Real processes: one starts another, which stands still, and is killed."""

import subprocess
import sys

import pytest

from epoxy.node.process.parent_death import before_exec

STANDS_STILL = "import os, signal; print(os.getpid(), flush=True); os.kill(os.getpid(), signal.SIGSTOP)"

BY_ITSELF = f"""
import subprocess, sys
child = "from epoxy.node.process.parent_death import die_with_parent; die_with_parent(); {STANDS_STILL}"
subprocess.run([sys.executable, "-c", child])
"""

BY_ITS_PARENT = f"""
import os, subprocess, sys
from epoxy.node.process.parent_death import before_exec
subprocess.run([sys.executable, "-c", "{STANDS_STILL}"], preexec_fn=before_exec(os.getpid()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux does it")
@pytest.mark.parametrize("program", [BY_ITSELF, BY_ITS_PARENT])
def test_one_that_stands_still_ends_with_its_parent(program: str) -> None:
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        assert child != parent.pid
        parent.kill()
        # The child has the other end of this pipe, too, for as long as it lives.
        assert parent.communicate(timeout=60)[0] == ""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux does it")
def test_a_program_is_not_begun_when_its_parent_has_ended() -> None:
    command = [sys.executable, "-c", "print(1)"]
    done = subprocess.run(command, preexec_fn=before_exec(-1), capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
