"""Fetches the source archive of redis-py through pip, runs its tests against a Valkey and against a node, and counts.

    python -m tools.redis_py_suite --python .venv-redis-py/bin/python            # a table on the terminal
    python -m tools.redis_py_suite --python .venv-redis-py/bin/python --write    # and docs/redis-py.md

Exits 1 if less than 85 % of the tests that concern strings pass, or if one fails for a reason that reasons.py lacks.
"""

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from epoxy.testing import POLL_S, cluster, free_ports
from tools.programs import valkey_server
from tools.redis_py_suite.report import Note, Report
from tools.redis_py_suite.scope import FILES, concerns

ROOT = Path(__file__).resolve().parents[2]
PINS = ROOT / "requirements" / "redis-py-suite.txt"
PAGE = ROOT / "docs" / "redis-py.md"
SUITE_S = 1800
"""For one run. It takes four minutes on two quiet cores."""


def fetch(python: Path, folder: Path) -> tuple[str, Path]:
    """The version of redis-py, and its source archive unpacked: wheels do not carry the tests."""
    (pin,) = re.findall(r"^redis==(\S+).*\n((?:    --hash.*\n)+)", PINS.read_text("utf-8"), re.MULTILINE)
    asked = folder / "redis.txt"
    asked.write_text(f"redis=={pin[0]} \\\n{pin[1]}", "utf-8")
    words = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", "redis"]
    words += ["--require-hashes", "--dest", str(folder), "-r", str(asked)]
    subprocess.run([python, *words], check=True)
    (archive,) = folder.glob("redis-*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return pin[0], folder / f"redis-{pin[0]}"


def run(python: Path, suite: Path, port: int, *, flush: bool, left_out: set[str]) -> list[Note]:
    with tempfile.TemporaryDirectory() as scratch:
        notes, unwanted = Path(scratch) / "notes", Path(scratch) / "left-out"
        unwanted.write_text("\n".join(left_out), "utf-8")
        environment = os.environ | {"SHIM_NOTES": str(notes), "SHIM_LEFT_OUT": str(unwanted)}
        environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), str(suite)])
        environment |= {"SHIM_FLUSH": "1"} if flush else {}
        words = ["-m", "pytest", "-q", "-p", "shim", "-p", "no:cacheprovider", "-o", "addopts=", "--tb=short"]
        words += [f"--redis-url=redis://127.0.0.1:{port}/0", "--disable-warnings", *FILES]
        with (suite.parent / f"log-{port}").open("wb") as log:
            subprocess.run(
                [python, *words], cwd=suite, env=environment, stdout=log, stderr=log, timeout=SUITE_S, check=False
            )
        lines = notes.read_text("utf-8").splitlines() if notes.exists() else []
        if not lines:
            raise SystemExit(f"the suite did not run: {(suite.parent / f'log-{port}').read_text('utf-8')[-2000:]}")
        return [msgspec.json.decode(line, type=Note) for line in lines]


@contextmanager
def a_valkey(folder: Path) -> Iterator[int]:
    (port,) = free_ports(1)
    words = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    process = subprocess.Popen([valkey_server(), *words], stdout=subprocess.DEVNULL)
    try:
        until_it_answers(port)
        yield port
    finally:
        process.kill()
        process.wait()


def until_it_answers(port: int) -> None:
    """A suite that finds no server takes it for the newest Redis."""
    patient = redis.Redis(port=port, retry=Retry(ConstantBackoff(POLL_S), retries=500))
    with patient:
        patient.ping()


def judge(python: Path, suite: Path, folder: Path, kept: Path | None) -> list[Note]:
    """What a Valkey says of the whole suite; the slower half of the work."""
    if kept is not None and kept.exists():
        return msgspec.json.decode(kept.read_bytes(), type=list[Note])
    tell(f"{suite.name}: its tests against a Valkey, the judge of what they ask for")
    with a_valkey(folder) as port:
        judged = run(python, suite, port, flush=False, left_out=set())
    if kept is not None:
        kept.write_bytes(msgspec.json.encode(judged))
    return judged


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools.redis_py_suite", description="redis-py's own tests against a node")
    parser.add_argument(
        "--python", type=Path, required=True, help="of an environment with requirements/redis-py-suite.txt"
    )
    parser.add_argument("--write", action="store_true", help="renew docs/redis-py.md")
    parser.add_argument("--port", type=int, help="of a RESP door that runs already, in place of a node of its own")
    parser.add_argument(
        "--judged", type=Path, help="a file that keeps what the Valkey said, and spares it if it is there"
    )
    asked = parser.parse_args()
    python = asked.python.absolute()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        version, suite = fetch(python, folder)
        judged = judge(python, suite, folder, asked.judged)
        unconcerned = {note.test for note in judged if note.sent and not concerns(note.sent)}
        tell(f"{len(judged)} tests; now the {len(judged) - len(unconcerned)} others against a node")
        port = asked.port or stack.enter_context(cluster(1)).nodes[0].resp_port
        seen = run(python, suite, port, flush=True, left_out=unconcerned)
    report = Report(version=version, judged=judged, seen=seen)
    print(report.text())
    if asked.write:
        PAGE.write_text(report.page(), "utf-8")
    return 0 if report.good() else 1


if __name__ == "__main__":
    sys.exit(main())
