"""Pages whose examples are run: the blocks of a page, and a shell in which its commands find a cluster of the test."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from textwrap import dedent

from tests.end_to_end.recorder import PROCESS_S
from tools.programs import redis_cli

ROOT = Path(__file__).resolve().parents[2]

CURL = """
import argparse, sys, urllib.error, urllib.request
parser = argparse.ArgumentParser()
parser.add_argument("-i", action="store_true")
parser.add_argument("-X", dest="method")
parser.add_argument("-d", dest="body")
parser.add_argument("-H", dest="headers", action="append", default=[])
parser.add_argument("url")
given = parser.parse_args()
body = given.body.encode() if given.body is not None else None
headers = dict(header.split(": ", 1) for header in given.headers)
request = urllib.request.Request(given.url, body, headers, method=given.method)
try:
    answer = urllib.request.urlopen(request)
except urllib.error.HTTPError as error:
    answer = error
if given.i:
    print(f"HTTP/1.1 {answer.status}\\n")
sys.stdout.write(answer.read().decode())
"""
"""As much of curl as our pages use, for machines without it."""


def blocks(page: Path) -> list[tuple[str, str]]:
    """The indented and fenced blocks of a page, each with the heading it stands under."""
    found, heading = [], ""
    pattern = (
        r"^#+ (?P<heading>[^\n]+)$|^ *```\w*\n(?P<fenced>.*?)^ *```$|(?P<indented>(?:^ {4,}\S[^\n]*\n|^\n(?= {4}))+)"
    )
    for match in re.finditer(pattern, page.read_text("utf-8"), re.MULTILINE | re.DOTALL):
        if match["heading"]:
            heading = match["heading"]
        else:
            found.append((heading, dedent(match["fenced"] or match["indented"]).strip("\n") + "\n"))
    return found


def commands(block: str) -> Iterator[str]:
    """The commands of a block of shell. One whose quotes are open goes on in the next line."""
    pending = ""
    for line in block.splitlines():
        pending += line
        try:
            words = shlex.split(pending, comments=True)
        except ValueError:
            pending += "\n"
            continue
        if words:
            yield pending
        pending = ""
    assert not pending, f"quotes are not closed: {pending}"


def transcript(found: Iterable[tuple[str, str]], heading: str) -> list[tuple[str, str]]:
    """The commands under a heading, each with what it prints."""
    steps: list[tuple[str, str]] = []
    for line in "".join([text for place, text in found if place == heading]).splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], ""))
        elif steps and line:
            steps[-1] = steps[-1][0], f"{steps[-1][1]}{line}\n"
    return steps


def masked(text: str) -> str:
    """Without numbers, sizes, addresses, times, ids and releases."""
    text = re.sub(r"https?://\S+:\d+", "URL", text)
    text = re.sub(r"\b[0-9a-f]{16,}\b", "ID", text)
    text = re.sub(r"\bEpoxy \d\S*", "Epoxy #", text)
    return re.sub(r"\d[\d.,:T+-]*( kB| MB| MiB)?", "#", text)


def expected_status(command: str) -> int:
    """What the comment beside a command promises: 0, unless it says `exit N`."""
    said = re.search(r"#.*\bexit (\d+)", command)
    return int(said[1]) if said else 0


class Shell:
    """Runs commands as a page has them, with `changes` made to their text first."""

    def __init__(self, folder: Path, environment: Mapping[str, str], changes: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = dict(environment)
        self._changes = changes
        programs = folder / "bin"
        programs.mkdir()
        self._write(programs / "epoxy", f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m epoxy "$@"\n')
        (programs / "redis-cli").symlink_to(redis_cli())
        if shutil.which("curl") is None:
            self._write(programs / "curl", f"#!{sys.executable}\n{CURL}")
        self._environment["PATH"] = f"{programs}:{self._environment['PATH']}"

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.write_text(text)
        path.chmod(0o755)

    def adapt(self, text: str) -> str:
        for pattern, instead in self._changes.items():
            text = re.sub(pattern, instead, text)
        return text

    def run(self, command: str, status: int | None = None) -> str:
        """What it prints, after its exit status was compared with what the page promises."""
        done = subprocess.run(
            ["bash", "-c", self.adapt(command)],
            cwd=self._folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=PROCESS_S,
            check=False,
        )
        expected = expected_status(command) if status is None else status
        assert done.returncode == expected, (command, done.returncode, done.stdout, done.stderr)
        return done.stdout
