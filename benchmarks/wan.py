"""Five regions of the world on one machine, beside etcd: `python -m benchmarks.wan --etcd PATH [--quick] [--write]`.

The part `distances`, nine minutes:

    fresh keys     from a client in every region to the node of its own region, ours and etcd's in turns, etcd's with
                   every region as leader; with 5 regions and with 3
    emulated       ours with the delays that nodes emulate themselves, as in the demo
    killed         ours, each region in turn ended by SIGKILL while the others write
    local          reserving again what is reserved, and reading it: what one node should answer alone

Keys that more than one region writes, a minute or less for each part:

    hot            one hot key, 10 clients in each region, beside etcd behind the same delays
    races          2, 3 and 5 regions reserve one fresh name at the same moment
    distant        a region that writes now and then beside an owner that writes 5 times a second
    loops          closed loops from 2, 3 and 5 regions on one key
    readers        linearizable readers in all other regions beside a writer
    gray           a replica stops, a link or one direction of it is cut, a disk takes 300 ms to sync
    minority       no quorum in reach

Of `distances` and `hot` both systems' links go through the same delay proxy; elsewhere the nodes emulate the distances
themselves. What cannot be is refused or shown as a defect: a commit below its floor, a link that carried nothing.
Everything runs on the loopback; every process that is started is ended by its pid. `--quick` has a look.

    make bench-wan WAN='--parts races,loops'
    make bench-wan WAN='--parts hot --write'
"""

import argparse
import asyncio
import os
import tempfile
from pathlib import Path

import msgspec
import uvloop

from benchmarks import columns, report
from benchmarks.columns import Part
from benchmarks.contention import run as contention
from benchmarks.contention.part import Setting
from benchmarks.distances import FULL, QUICK, measure
from benchmarks.findings import Findings

DISTANCES = "distances"
PARTS = (DISTANCES, *contention.PARTS)
QUICK_SCALE = 0.2


def main() -> None:
    options = parser().parse_args()
    if options.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))  # whatever we start has it from us
    with (
        tempfile.TemporaryDirectory(prefix="epoxy-wan-", dir=options.folder) as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        setting = Setting(folder=Path(folder), scale=QUICK_SCALE if options.quick else 1.0, etcd=options.etcd.resolve())
        shared = runner.run(contention.measured([name for name in options.parts if name != DISTANCES], setting))
        findings = None
        if DISTANCES in options.parts:
            findings = runner.run(measure(options.etcd.resolve(), QUICK if options.quick else FULL, Path(folder)))
    show(findings, shared)
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(shared)) + b"\n")
    if options.write:
        keep(findings, shared, before=options.before)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--etcd", type=Path, required=True, help="the etcd server's binary")
    made.add_argument(
        "--parts", type=parts, default=list(PARTS), help=f"of {', '.join(PARTS)}; with commas between (default: all)"
    )
    made.add_argument("--quick", action="store_true", help="one round, short: a look, not a result")
    made.add_argument("--json", type=Path, metavar="FILE", help=f"write what the parts beside {DISTANCES} found there")
    made.add_argument("--write", action="store_true", help="renew benchmarks/results/ and docs/benchmarks.md")
    made.add_argument("--before", action="store_true", help=f"with --write: the column before, but of {DISTANCES}")
    made.add_argument("--realtime", action="store_true", help="before all other work of the machine; wants root")
    made.add_argument("--folder", type=Path, help="where data goes: the disk that is measured")
    return made


def parts(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in PARTS:
            raise argparse.ArgumentTypeError(f"there is no part {name!r}; there are {', '.join(PARTS)}")
    return names


def show(findings: Findings | None, shared: dict[str, Part]) -> None:
    if findings is not None:
        print(report.text(findings))
    if shared:
        print(columns.text(shared))


def keep(findings: Findings | None, shared: dict[str, Part], *, before: bool) -> None:
    if findings is not None:
        report.RESULT.parent.mkdir(exist_ok=True)
        report.RESULT.write_bytes(msgspec.json.format(msgspec.json.encode(findings)) + b"\n")
        report.renew()
    if shared:
        contention.renew(shared, before=before)


if __name__ == "__main__":
    main()
