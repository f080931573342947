"""Epoxy beside etcd, Redis and PostgreSQL, all on this machine, on the loopback, with data on one disk.

Starts every system, drives them in turns with the same load generator, and prints one table. Nothing is left behind:
processes end and folders go, after Ctrl-C too.
"""

import argparse
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import msgspec

from benchmarks.machine import commit, fsync_ms, machine
from benchmarks.suite import find, report
from benchmarks.suite.measure import Field, Plan, compare, named, say
from benchmarks.suite.results import Results
from benchmarks.suite.systems.base import System
from benchmarks.suite.systems.epoxy import Epoxy
from benchmarks.suite.systems.etcd import Etcd
from benchmarks.suite.systems.postgres import Postgres
from benchmarks.suite.systems.redis import Redis
from benchmarks.suite.workloads import EPOXY, ETCD, POSTGRES, REDIS, VALKEY, WORKLOADS
from epoxy.model.errors import EpoxyError

FULL = Plan()
QUICK = Plan(rounds=1, warm_s=0.3, seconds=1.0)
SYSTEMS = (EPOXY, ETCD, REDIS, VALKEY, POSTGRES)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.suite", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--quick", action="store_true", help="one short round: a look, not a result")
    made.add_argument("--write", action="store_true", help="renew benchmarks/results/bench.json and docs/benchmarks.md")
    made.add_argument("--only", metavar="NAMES", help="workloads whose names begin so, with commas between; see --list")
    made.add_argument("--systems", metavar="NAMES", help=f"of {', '.join(SYSTEMS)}; with commas between (default: all)")
    made.add_argument("--rounds", type=positive(int), help=f"default {FULL.rounds}, with --quick {QUICK.rounds}")
    made.add_argument("--seconds", type=positive(float), help=f"of each stretch; default {FULL.seconds:g}")
    made.add_argument("--list", action="store_true", help="show the workloads and end")
    made.add_argument(
        "--folder", type=Path, help="where data goes: the disk that is measured (default: a temporary one)"
    )
    made.add_argument("--peers", type=Path, default=Path(".venv-bench"), help="where the other systems are installed")
    made.add_argument("--epoxy-python", type=Path, metavar="PATH", help="the interpreter that runs our nodes")
    for name in ("etcd", "redis", "valkey", "postgres"):
        made.add_argument(f"--{name}", type=Path, metavar="PATH", help="this binary instead of the installed one")
    return made


def positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    def read(text: str) -> float:
        number = kind(text)
        if number <= 0:
            raise argparse.ArgumentTypeError(f"{text} is not more than 0")
        return number

    read.__name__ = kind.__name__  # what argparse calls it in its complaint
    return read


def chosen_systems(text: str | None) -> list[str]:
    """ValueError: one of them is not known."""
    if text is None:
        return list(SYSTEMS)
    known = {name.lower(): name for name in SYSTEMS}
    wanted = [name.strip().lower() for name in text.split(",")]
    for name in wanted:
        if name not in known:
            raise ValueError(f"there is no system {name!r}; there are {', '.join(SYSTEMS)}")
    return [known[name] for name in wanted]


def make(name: str, folder: Path, options: argparse.Namespace) -> System:
    """FileNotFoundError: its binary is missing."""
    home = folder / name.lower()
    peers: Path = options.peers
    match name:
        case "Epoxy":
            return Epoxy(home, python=options.epoxy_python)
        case "etcd":
            return Etcd(home, find.binary(peers, "etcd", options.etcd))
        case "PostgreSQL":
            return Postgres(home, find.binary(peers, "postgres", options.postgres).parent)
        case "Redis":
            return Redis(home, find.binary(peers, "redis-server", options.redis))
        case _:
            return Redis(home, find.binary(peers, "valkey-server", options.valkey), name=name)


@contextmanager
def running(systems: Mapping[str, System]) -> Iterator[Field]:
    with ExitStack() as stack:
        for name, system in systems.items():
            say(f"starting {name} {system.version}")
            stack.callback(system.stop)
            system.start()
        yield Field(systems)


@contextmanager
def temporary(where: Path | None) -> Iterator[Path]:
    """One that others may enter: PostgreSQL is somebody else when we are root."""
    with tempfile.TemporaryDirectory(prefix="epoxy-bench-", dir=where) as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


def measured(options: argparse.Namespace, plan: Plan, folder: Path) -> Results:
    workloads = named(options.only) if options.only else list(WORKLOADS)
    systems = {name: make(name, folder, options) for name in chosen_systems(options.systems)}
    before = fsync_ms(folder)
    with running(systems) as field:
        say("storing the keys that are read and overwritten")
        field.store()
        found = compare(field, workloads, plan)
    return Results(
        when=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        commit=commit(),
        machine=machine(),
        versions={name: system.version for name, system in systems.items()},
        rounds=plan.rounds,
        seconds=plan.seconds,
        quick=options.quick,
        fsync_ms=(before, fsync_ms(folder)),
        workloads=found,
    )


def plan_of(options: argparse.Namespace) -> Plan:
    plan = QUICK if options.quick else FULL
    return msgspec.structs.replace(
        plan, rounds=int(options.rounds or plan.rounds), seconds=options.seconds or plan.seconds
    )


def ended(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit("ended by a signal")


def main() -> None:
    options = parser().parse_args()
    if options.list:
        print("\n".join(f"{workload.name:26} {workload.title}" for workload in WORKLOADS))
        return
    signal.signal(signal.SIGTERM, ended)
    try:
        with temporary(options.folder) as folder:
            results = measured(options, plan_of(options), folder)
    except (EpoxyError, FileNotFoundError, RuntimeError, ValueError) as error:
        raise SystemExit(f"error: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit("interrupted: everything that was started has ended") from None
    print(report.text(results))
    if options.write:
        report.write(results)


if __name__ == "__main__":
    main()
