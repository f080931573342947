"""Epoxy beside etcd, Redis, Valkey and PostgreSQL, all on this machine, on the loopback, with their data on one disk.

Starts the systems, drives them in turns with one load generator, and prints tables. Nothing is left behind: processes
end and folders go, after Ctrl-C too. A run takes 40 minutes, with --quick 8.

    make bench                                    everything; renews docs/benchmarks.md
    make bench BENCH=--quick                      a look
    python -m benchmarks.suite --only fresh-64 --systems epoxy,etcd
"""

import argparse
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import msgspec

from benchmarks.suite import report
from benchmarks.suite.makers import PLACES, SYSTEMS, Makers, chosen
from benchmarks.suite.measure import named
from benchmarks.suite.results import Results
from benchmarks.suite.session import COMPARE, FULL, FULL_SCALE, PARTS, QUICK, QUICK_SCALE, Session
from benchmarks.suite.workloads import EPOXY, WORKLOADS
from epoxy.model.errors import EpoxyError


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.suite", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--quick", action="store_true", help="one short round of less: a look, not a result")
    made.add_argument(
        "--write", action="store_true", help="renew benchmarks/results/, docs/img/ and docs/benchmarks.md"
    )
    made.add_argument("--json", type=Path, metavar="FILE", help="write the results there too, after each part")
    made.add_argument("--list", action="store_true", help="show the workloads that are compared, and end")
    made.add_argument(
        "--only", metavar="NAMES", help="workloads by name, or by how names begin, with commas between; no other part"
    )
    made.add_argument("--systems", metavar="NAMES", help=f"of {', '.join(SYSTEMS)}; with commas between (default: all)")
    made.add_argument("--parts", metavar="NAMES", help=f"of {', '.join(PARTS)}; with commas between (default: all)")
    made.add_argument("--rounds", type=positive(int), help=f"default {FULL.rounds}, with --quick {QUICK.rounds}")
    made.add_argument(
        "--seconds", type=positive(float), help=f"of a stretch; default {FULL.seconds:g} ({QUICK.seconds:g})"
    )
    made.add_argument("--keys", type=positive(int), help=f"the most keys we hold; default {max(FULL_SCALE.keys):,}")
    made.add_argument(
        "--folder", type=Path, help="where data goes: the disk that is measured (default: a temporary one)"
    )
    made.add_argument("--peers", type=Path, default=Path(".venv-bench"), help="where the other systems are installed")
    made.add_argument("--epoxy-python", type=Path, metavar="PATH", help="the interpreter that runs our nodes")
    for name in PLACES:
        made.add_argument(
            f"--{name.lower()}", type=Path, metavar="PATH", help="this binary instead of the installed one"
        )
    return made


def positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    def read(text: str) -> float:
        number = kind(text)
        if not 0 < number < float("inf"):
            raise argparse.ArgumentTypeError(f"{text} is not a number above 0")
        return number

    read.__name__ = kind.__name__  # what argparse calls it in its complaint
    return read


def parts(options: argparse.Namespace) -> list[str]:
    """ValueError: one of them is not known."""
    if options.parts is None:
        return [COMPARE] if options.only else list(PARTS)
    wanted = [part.strip() for part in options.parts.split(",")]
    for part in wanted:
        if part not in PARTS:
            raise ValueError(f"there is no part {part!r}; there are {', '.join(PARTS)}")
    return wanted


def session(options: argparse.Namespace, folder: Path) -> Session:
    """ValueError: something was asked for that does not exist."""
    given = {name: getattr(options, name.lower()) for name in PLACES}
    makers = Makers(options.peers, {name: path for name, path in given.items() if path}, options.epoxy_python)
    names, wanted = chosen(options.systems, makers), parts(options)
    if EPOXY not in names and wanted != [COMPARE]:
        raise ValueError(f"without {EPOXY} there is only the part {COMPARE}")
    if options.write and set(wanted) != set(PARTS):
        raise ValueError("--write renews all figures: it wants all parts, and no --only; --json FILE keeps some")
    plan, scale = (QUICK, QUICK_SCALE) if options.quick else (FULL, FULL_SCALE)
    most = int(options.keys or max(scale.keys))
    return Session(
        makers=makers,
        names=names,
        workloads=named(options.only) if options.only else WORKLOADS,
        parts=wanted,
        plan=msgspec.structs.replace(
            plan, rounds=int(options.rounds or plan.rounds), seconds=options.seconds or plan.seconds
        ),
        scale=msgspec.structs.replace(
            scale,
            keys=tuple(sorted({count for count in scale.keys if count < most} | {most})),
            loaded=min(most, scale.loaded),
        ),
        folder=folder,
        quick=options.quick,
    )


@contextmanager
def temporary(where: Path | None) -> Iterator[Path]:
    """One that others may pass through: PostgreSQL runs as another user when we are root."""
    with tempfile.TemporaryDirectory(prefix="epoxy-bench-", dir=where) as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


def ended(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def main() -> None:
    options = parser().parse_args()
    if options.list:
        print("\n".join(f"{workload.name:26} {workload.title}" for workload in WORKLOADS))
        return
    signal.signal(signal.SIGTERM, ended)
    found, trouble = measured(options)
    if found is not None:
        print(report.text(found))
    if trouble:
        raise SystemExit(trouble)
    if found is not None and options.write:
        report.save(found, report.RESULT)
        report.renew()


def measured(options: argparse.Namespace) -> tuple[Results | None, str]:
    """What was found, and what kept us from finding more."""
    found: Results | None = None
    try:
        with temporary(options.folder) as folder:
            for found in session(options, folder).run():
                if options.json is not None:
                    report.save(found, options.json)
    except (EpoxyError, OSError, RuntimeError, ValueError) as error:
        return found, f"error: {error}"
    except KeyboardInterrupt:
        return found, "interrupted: what was started has ended, and its data is gone"
    return found, ""


if __name__ == "__main__":
    main()
