"""Signals until the very end of a process. They are sent to real ones: a handler of this one would be pytest's."""

import fcntl
import os
import pty
import subprocess
import sys
import termios

import pytest

PROLOGUE = """
import asyncio, os, signal, sys, threading, uvloop
from epoxy.node.process.signals import handled

def bystander():
    # A thread that would take a signal the main thread does not want.
    threading.Thread(target=threading.Event().wait, daemon=True).start()

async def work(signals):
    over = asyncio.Event()
    with handled(over.set, lambda: print("again")):
        for number in signals:
            os.kill(os.getpid(), number)
        await over.wait()
"""


def outcome(script: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROLOGUE + script]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT"])
@pytest.mark.parametrize("run", ["asyncio.run", "uvloop.run"])
def test_a_signal_is_a_call_and_after_the_loop_it_is_nothing(run: str, number: str) -> None:
    done = outcome(f"bystander(); {run}(work([signal.{number}])); os.kill(os.getpid(), signal.{number}); print(1)")
    assert (done.returncode, done.stdout, done.stderr) == (0, "1\n", "")


def test_a_signal_is_nothing_after_a_failure_either() -> None:
    script = """
async def fail():
    with handled(lambda: None):
        raise SystemExit(3)

bystander()
try:
    uvloop.run(fail())
finally:
    os.kill(os.getpid(), signal.SIGTERM)
"""
    assert outcome(script).returncode == 3


def test_sighup_reloads_and_ends_nothing() -> None:
    done = outcome(
        "uvloop.run(work([signal.SIGHUP, signal.SIGHUP, signal.SIGTERM])); os.kill(os.getpid(), 1); print(1)"
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "again\nagain\n1\n", "")


@pytest.mark.parametrize(("action", "ends"), [("DFL", True), ("IGN", False)])
def test_a_terminal_that_is_gone_ends_what_was_started_from_it_but_not_under_nohup(action: str, ends: bool) -> None:
    script = f"""
async def wait():
    over, again = asyncio.Event(), asyncio.Event()
    with handled(over.set, again.set):
        print("ready", flush=True)
        waits = [asyncio.ensure_future(each.wait()) for each in (over, again)]
        await asyncio.wait(waits, return_when="FIRST_COMPLETED")
        sys.exit(3 if over.is_set() else 4)

signal.signal(signal.SIGHUP, signal.SIG_{action})
uvloop.run(wait())
"""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", PROLOGUE + script],
        stdin=slave,
        stdout=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
    )
    os.close(slave)
    assert process.stdout is not None
    with process, process.stdout as said:
        assert said.readline() == b"ready\n"
        os.close(master)
        assert process.wait(180) == (3 if ends else 4)
