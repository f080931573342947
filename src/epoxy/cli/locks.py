"""`epoxy lock`: runs a command while a lock is held."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any, Self

import click

from epoxy.cli import output, target
from epoxy.cli.groups import SETTINGS
from epoxy.cli.leases import TimeSpan
from epoxy.client.leases import Lock
from epoxy.model.errors import NotObtained

NOT_OBTAINED, LOST_LOCK = 75, 79
"""Exit codes. 75 is EX_TEMPFAIL of sysexits.h, "try again later"; 79 is the first number that it does not use."""

NOT_EXECUTABLE, NO_SUCH_COMMAND, BY_SIGNAL = 126, 127, 128
"""Those of shells."""

TOKEN = "EPOXY_LOCK_TOKEN"

PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
FROM_TERMINALS = (signal.SIGINT, signal.SIGQUIT)
"""A terminal sends these to the command itself, too."""

KILL_AFTER = "5s"

WAIT_SLICE_S = 0.5


@click.command(context_settings=SETTINGS, short_help="Run a command while a lock is held.")
@click.option("--ttl", type=TimeSpan(), default="30s", show_default=True, help="How long it lasts after this process.")
@click.option("--wait", type=TimeSpan(), help="How long to wait for it; 0s: not at all.  [default: until it is free]")
@click.option("--owner", default="", metavar="TEXT", help="Shown to others, beside host and pid.")
@click.option(
    "--kill-after",
    type=TimeSpan(),
    default=KILL_AFTER,
    show_default=True,
    help="From SIGTERM to SIGKILL, if the lock is lost.",
)
@target.call_options
@click.argument("name", type=target.Argument())
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- CMD...")
def lock(
    *,
    name: bytes,
    words: Sequence[str],
    ttl: float,
    wait: float | None,
    owner: str,
    kill_after: float,
    call: target.NodeCall,
) -> None:
    """Take the lock NAME, run CMD, and give the lock back. It is renewed while CMD runs.

    CMD finds the fencing token in EPOXY_LOCK_TOKEN: a number that is higher than that of each holder before. Pass it to
    what CMD changes, and let that refuse a lower one. If the lock is lost, CMD gets SIGTERM, before the lock can be
    another's, and SIGKILL some time later. SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to CMD; so is SIGINT,
    if it does not come from a terminal. stdin and stdout are CMD's; --json prints one line on stderr at the end.

    \b
    Exit status: that of CMD, or 128 and the number of the signal that ended it, or
      75   the lock was not obtained in time; CMD was not run
      79   the lock was lost while CMD ran
      126  CMD cannot be run
      127  there is no such CMD
      1    failed otherwise; CMD was not run
    \b
    Examples:
      epoxy lock job/nightly -- ./nightly.sh
      epoxy lock job/7 --ttl 10s --wait 0s -- sh -c 'echo "token $EPOXY_LOCK_TOKEN"'
    """
    with call.client(writes=True) as client:
        held = obtained(partial(client.lock, name, ttl, owner=owner), wait, call)
        try:
            status = guarded(held, words, kill_after)
        finally:
            was_held = held.is_held
            held.release()
    report(call, held, "released" if was_held else "lost", status)
    raise click.exceptions.Exit(status if was_held else LOST_LOCK)


def obtained(make: Callable[..., Lock], wait: float | None, call: target.NodeCall) -> Lock:
    """Tried once, and then, with a word about that, for as long as it may take."""
    held = make(wait=0.0)
    try:
        return held.acquire()
    except NotObtained as refused:
        if wait == 0.0:
            raise not_obtained(refused, held, call) from None
        waiting(held.name, refused.holder)
    held = make(wait=wait)
    try:
        return held.acquire()
    except NotObtained as refused:
        raise not_obtained(refused, held, call) from None


def waiting(name: bytes, holder: bytes | None) -> None:
    if sys.stderr.isatty():
        by = f", which {output.text_of(holder)} holds" if holder else ""
        click.echo(f"epoxy: waiting for {output.text_of(name)}{by}", err=True)


def not_obtained(refused: NotObtained, held: Lock, call: target.NodeCall) -> click.exceptions.Exit:
    click.echo(f"epoxy: {refused}", err=True)
    report(call, held, "not obtained", NOT_OBTAINED)
    return click.exceptions.Exit(NOT_OBTAINED)


def guarded(held: Lock, words: Sequence[str], kill_after: float) -> int:
    """The exit status of the command."""
    environ = os.environ | {TOKEN: str(held.token)}
    with SignalsPassedOn() as signals:
        try:
            process = subprocess.Popen(words, env=environ)
        except FileNotFoundError:
            click.echo(f"epoxy: there is no command {words[0]!r}", err=True)
            return NO_SUCH_COMMAND
        except OSError as error:
            click.echo(f"epoxy: {words[0]!r} cannot be run: {error.strerror}", err=True)
            return NOT_EXECUTABLE
        signals.to(process)
        ended = threading.Event()

        def stop() -> None:
            click.echo(f"epoxy: {held.why_lost}. The command gets SIGTERM", err=True)
            process.terminate()
            if not ended.wait(kill_after):
                process.kill()

        held.on_lost = stop
        if not held.is_held:
            threading.Thread(target=stop, daemon=True).start()
        code = wait_for(process)
        ended.set()
    return code if code >= 0 else BY_SIGNAL - code


def wait_for(process: "subprocess.Popen[bytes]") -> int:
    """Waits in slices: Python runs a handler between two instructions, so one whose signal came right before an
    unbounded waitpid would run only when the command has ended."""
    while True:
        try:
            return process.wait(WAIT_SLICE_S)
        except subprocess.TimeoutExpired:
            continue


class SignalsPassedOn:
    """Signals of this process go to its command. Those that come before the command runs are kept for it: otherwise
    they would end this process alone, and leave a command that holds no lock."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._before = {number: signal.signal(number, self._pass_on) for number in PASSED_ON}
        self._before |= {number: signal.signal(number, self._leave_to_terminal) for number in FROM_TERMINALS}
        return self

    def __exit__(self, *_exception: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def to(self, process: "subprocess.Popen[bytes]") -> None:
        self._process = process
        while self._early:
            process.send_signal(self._early.pop(0))

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        if self._process is None:
            self._early.append(number)
        else:
            self._process.send_signal(number)

    def _leave_to_terminal(self, number: int, frame: FrameType | None) -> None:
        if not sys.stdin.isatty():
            self._pass_on(number, frame)


def report(call: target.NodeCall, held: Lock, outcome: str, status: int) -> None:
    if call.as_json:
        token = held.last_token
        told = {"lock": target.key_json(held.name), "outcome": outcome, "token": token or None, "exit_status": status}
        click.echo(output.json_line(told), err=True)
