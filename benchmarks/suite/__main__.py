"""Epoxy beside etcd, Redis, Valkey and PostgreSQL, all on this machine, on the loopback, with their data on one disk.

Starts the systems, drives them in turns with one load generator, and prints tables. Nothing is left behind: processes
end and folders go, after Ctrl-C too. A run takes 40 minutes, with --quick 8.

    make bench                                    everything; renews docs/benchmarks.md
    make bench BENCH=--quick                      a look
    make bench BENCH='--parts hot'                one hot key beside etcd, 3 minutes
    make bench BENCH='--parts datacenter'         nodes that share a PostgreSQL beside the embedded store, 8 minutes
    make bench BENCH='--parts hot --baseline ../other'    and cold keys beside the build of another checkout
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

from benchmarks import columns
from benchmarks.columns import Part
from benchmarks.machine import ROOT
from benchmarks.suite import report
from benchmarks.suite.cold import PAIRS, Pairs, interpreter
from benchmarks.suite.datacenter import PLAN as DATACENTER_PLAN
from benchmarks.suite.datacenter_claims import datacenter_part
from benchmarks.suite.hot import PLAN as HOT_PLAN
from benchmarks.suite.hot_claims import cold_part, hot_part
from benchmarks.suite.makers import PLACES, SYSTEMS, Makers, chosen
from benchmarks.suite.measure import Plan, named, say
from benchmarks.suite.processes import take_short_turns
from benchmarks.suite.results import Results
from benchmarks.suite.session import COMPARE, FULL, FULL_SCALE, PARTS, QUICK, QUICK_SCALE, Session
from benchmarks.suite.workloads import EPOXY, WORKLOADS
from epoxy.model.errors import EpoxyError

HOT, COLD, DATACENTER = "hot", "cold", "datacenter"
ALL = (HOT, DATACENTER, *PARTS)
HOT_RESULT = ROOT / "benchmarks" / "results" / "hot.json"
HOT_MARK = "hot: made by benchmarks.suite"
DATACENTER_RESULT = ROOT / "benchmarks" / "results" / "datacenter.json"
DATACENTER_MARK = "datacenter: made by benchmarks.suite"
HOT_QUICK = Plan(rounds=1, warm_s=0.5, seconds=1.0)
PAIRS_QUICK = Pairs(count=4)


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
    made.add_argument("--parts", metavar="NAMES", help=f"of {', '.join(ALL)}; with commas between (default: all)")
    made.add_argument(
        "--baseline", type=Path, metavar="PATH", help="a checkout where `make fast` was run: cold keys beside its build"
    )
    made.add_argument("--before", action="store_true", help="with --write: hot keys' column before, not after")
    made.add_argument("--rounds", type=positive(int), help=f"default {FULL.rounds}, with --quick {QUICK.rounds}")
    made.add_argument(
        "--seconds", type=positive(float), help=f"of a stretch; default {FULL.seconds:g} ({QUICK.seconds:g})"
    )
    made.add_argument("--keys", type=positive(int), help=f"the most keys we hold; default {max(FULL_SCALE.keys):,}")
    made.add_argument(
        "--folder", type=Path, help="where data goes: the disk that is measured (default: a temporary one)"
    )
    made.add_argument(
        "--turns-us",
        type=positive(int),
        metavar="US",
        help="the scheduler's turns of all that is measured, on a machine with other work (Linux 6.12 and newer)",
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
        return [COMPARE] if options.only else list(ALL)
    wanted = [part.strip() for part in options.parts.split(",")]
    for part in wanted:
        if part not in ALL:
            raise ValueError(f"there is no part {part!r}; there are {', '.join(ALL)}")
    return wanted


def makers_of(options: argparse.Namespace) -> Makers:
    given = {name: getattr(options, name.lower()) for name in PLACES}
    return Makers(options.peers, {name: path for name, path in given.items() if path}, options.epoxy_python)


def hot_keys(options: argparse.Namespace, folder: Path) -> dict[str, Part]:
    """ValueError: something was asked for that does not exist."""
    makers = makers_of(options)
    names = chosen(options.systems, makers)
    if EPOXY not in names:
        raise ValueError(f"without {EPOXY} there is only the part {COMPARE}")
    python = interpreter(options.baseline) if options.baseline is not None else None
    pairs = PAIRS_QUICK if options.quick else PAIRS
    found = {HOT: hot_part(makers, names, folder / HOT, plan_of(options, HOT_QUICK, HOT_PLAN))}
    if python is None:
        say("cold keys are not compared: --baseline PATH names a checkout to compare with")
    else:
        found[COLD] = cold_part(makers, options.baseline, folder / COLD, pairs)
    return found


def shared_database(options: argparse.Namespace, folder: Path) -> dict[str, Part]:
    plan = plan_of(options, HOT_QUICK, DATACENTER_PLAN)
    return {DATACENTER: datacenter_part(makers_of(options), folder / DATACENTER, plan)}


def plan_of(options: argparse.Namespace, quick: Plan, full: Plan) -> Plan:
    plan = quick if options.quick else full
    rounds, seconds = int(options.rounds or plan.rounds), options.seconds or plan.seconds
    return msgspec.structs.replace(plan, rounds=rounds, seconds=seconds)


def session(options: argparse.Namespace, folder: Path) -> Session:
    """ValueError: something was asked for that does not exist."""
    makers = makers_of(options)
    names, wanted = chosen(options.systems, makers), [part for part in parts(options) if part in PARTS]
    if EPOXY not in names and wanted != [COMPARE]:
        raise ValueError(f"without {EPOXY} there is only the part {COMPARE}")
    if options.write and set(wanted) != set(PARTS):
        raise ValueError(
            f"--write renews all figures: it wants all parts, or {HOT} alone, or {DATACENTER}, and no --only; "
            "--json FILE keeps some"
        )
    scale = QUICK_SCALE if options.quick else FULL_SCALE
    most = int(options.keys or max(scale.keys))
    return Session(
        makers=makers,
        names=names,
        workloads=named(options.only) if options.only else WORKLOADS,
        parts=wanted,
        plan=plan_of(options, QUICK, FULL),
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
    if options.turns_us:
        take_short_turns(int(options.turns_us))
    found, apart, trouble = measured(options)
    if apart:
        print(columns.text(apart))
    if found is not None:
        print(report.text(found))
    if trouble:
        raise SystemExit(trouble)
    if options.write:
        renew(found, apart, before=options.before)


def renew(found: Results | None, apart: dict[str, Part], *, before: bool) -> None:
    for names, result, mark in (
        ((HOT, COLD), HOT_RESULT, HOT_MARK),
        ((DATACENTER,), DATACENTER_RESULT, DATACENTER_MARK),
    ):
        if parts := {name: apart[name] for name in names if name in apart}:
            columns.save(result, parts, before=before)
            columns.renew(result, mark, names)
    if found is not None:
        report.save(found, report.RESULT)
        report.renew()


def measured(options: argparse.Namespace) -> tuple[Results | None, dict[str, Part], str]:
    """What was found, the parts apart that have columns of their own, and what kept us from finding more."""
    found: Results | None = None
    apart: dict[str, Part] = {}
    try:
        wanted = parts(options)
        with temporary(options.folder) as folder:
            rest = session(options, folder) if set(wanted) & set(PARTS) else None
            for part, measure in ((HOT, hot_keys), (DATACENTER, shared_database)):
                if part in wanted:
                    apart |= measure(options, folder)
                    keep(apart, options.json)
            for found in rest.run() if rest is not None else ():
                if options.json is not None:
                    report.save(found, options.json)
    except (EpoxyError, OSError, RuntimeError, ValueError) as error:
        return found, apart, f"error: {error}"
    except KeyboardInterrupt:
        return found, apart, "interrupted: what was started has ended, and its data is gone"
    return found, apart, ""


def keep(apart: dict[str, Part], path: Path | None) -> None:
    """Beside the rest, which has a shape of its own."""
    if path is not None:
        path.with_suffix(".apart.json").write_bytes(msgspec.json.format(msgspec.json.encode(apart)) + b"\n")


if __name__ == "__main__":
    main()
