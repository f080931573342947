"""`epoxy lock`: the command that is run, what it is told, and how it ends."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from epoxy.cli import locks
from epoxy.cli.locks import LOST_LOCK, NOT_OBTAINED, SignalsPassedOn
from tests.cli.commands import Captured, command
from tests.client.fake import FakeNode, Held

PATIENCE_S = 20.0


def python(source: str) -> list[str]:
    return ["--", sys.executable, "-c", source]


def wait_for(path: Path) -> str:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if path.exists() and path.read_text():
            return path.read_text()
        time.sleep(0.01)
    raise AssertionError(f"{path} was not written")


def test_it_holds_the_lock_while_the_command_runs(node: FakeNode, tmp_path: Path, capsysbinary: Captured) -> None:
    node.kv[b"job"] = Held(None, 41, mutable=True)
    seen = tmp_path / "seen"
    source = f"import os; open({str(seen)!r}, 'w').write(os.environ['EPOXY_LOCK_TOKEN']); raise SystemExit(7)"
    status, out, err = command(["lock", "job", "--owner", "night", "--json", *python(source)], capsysbinary)
    assert (status, out, seen.read_text()) == (7, "", "42")
    assert json.loads(err) == {"lock": "job", "outcome": "released", "token": 42, "exit_status": 7}
    assert node.kv[b"job"].value is None
    assert "PUT /v2/kv/job?mode=put&if_absent=true&ttl=30000" in node.requests


def test_a_lock_that_is_not_obtained(node: FakeNode, capsysbinary: Captured) -> None:
    node.kv[b"job"] = Held(b"theirs", 3, mutable=True, ttl=9000)
    status, _, err = command(["lock", "job", "--wait", "0s", *python("")], capsysbinary)
    assert status == NOT_OBTAINED
    assert err == "epoxy: the lock job was not obtained; it is held for another 9.0 s unless it is renewed\n"
    status, _, err = command(["lock", "job", "--wait", "10ms", "--json", *python("")], capsysbinary)
    assert (status, json.loads(err.splitlines()[1])["outcome"]) == (NOT_OBTAINED, "not obtained")
    assert node.kv[b"job"].value == b"theirs"


def test_a_lock_that_is_lost_ends_the_command(node: FakeNode, tmp_path: Path, capsysbinary: Captured) -> None:
    """By SIGTERM, and by SIGKILL if that is not heeded."""
    begun = tmp_path / "begun"
    source = (
        f"import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(begun)!r}, 'w').write('x'); time.sleep(60)"
    )

    def steal() -> None:
        wait_for(begun)
        with node.lock:
            node.kv[b"job"] = Held(b"theirs", 9, mutable=True)

    thief = threading.Thread(target=steal)
    thief.start()
    words = ["lock", "job", "--ttl", "500ms", "--kill-after", "10ms", "--json", *python(source)]
    status, _, err = command(words, capsysbinary)
    thief.join()
    assert status == LOST_LOCK
    assert "The command gets SIGTERM\n" in err
    assert json.loads(err.splitlines()[-1]) == {"lock": "job", "outcome": "lost", "token": 1, "exit_status": 137}
    assert node.kv[b"job"].value == b"theirs"


@pytest.mark.usefixtures("node")
def test_signals_are_passed_on_and_tell_in_the_status(tmp_path: Path, capsysbinary: Captured) -> None:
    begun = tmp_path / "begun"

    def send() -> None:
        wait_for(begun)
        os.kill(os.getpid(), signal.SIGTERM)

    sender = threading.Thread(target=send)
    sender.start()
    before = signal.getsignal(signal.SIGTERM)
    source = f"import time; open({str(begun)!r}, 'w').write('x'); time.sleep(60)"
    status, _, _ = command(["lock", "job", *python(source)], capsysbinary)
    sender.join()
    assert status == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) is before


def test_signals_that_come_before_the_command_runs_are_kept_for_it() -> None:
    with SignalsPassedOn() as signals:
        os.kill(os.getpid(), signal.SIGTERM)
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        signals.to(process)
        assert process.wait(PATIENCE_S) == -signal.SIGTERM


def test_a_signal_right_before_the_wait_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its handler runs when a slice of the wait is over, here played by a wait that ends without the command's end."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    real, slices = process.wait, []

    def wait(timeout: float | None = None) -> int:
        assert timeout is not None
        slices.append(timeout)
        if len(slices) == 1:
            process.terminate()
            raise subprocess.TimeoutExpired("command", timeout)
        return real(PATIENCE_S)

    monkeypatch.setattr(process, "wait", wait)
    assert locks.wait_for(process) == -signal.SIGTERM


def test_commands_that_cannot_be_run_give_the_lock_back(node: FakeNode, tmp_path: Path, capsysbinary: Captured) -> None:
    status, _, err = command(["lock", "job", "--", "/no/such/command"], capsysbinary)
    assert (status, err) == (127, "epoxy: there is no command '/no/such/command'\n")
    plain = tmp_path / "plain"
    plain.write_text("")
    status, _, err = command(["lock", "job", "--", str(plain)], capsysbinary)
    assert (status, err) == (126, f"epoxy: '{plain}' cannot be run: Permission denied\n")
    assert command(["lock", "job"], capsysbinary)[0] == 2
    assert node.kv[b"job"].value is None
