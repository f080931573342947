"""Leases of real processes, beside etcd: `python -m benchmarks.leases --etcd PATH [--write]`.

    takeover    a holder is killed right after a renewal: when does a client that waits have the lock? Epoxy over RESP
                and by the Python client's lock, etcd's leases, on the loopback; Epoxy between 3 regions
    many        100,000 leases at one node of three: making them, memory, a restart, and all of them ending in a second

Every process that is started is ended by its pid. A lease that is another's before its end makes the run fail, and
nothing of that part is written. Four minutes at most; `make bench-leases` takes its time, and kills holders at any
moment.

    make bench-leases                                                both parts; renews docs/benchmarks.md
    make bench-leases LEASES='--parts many --leases 2000'            a look
    make bench-leases LEASES='--parts takeover --rounds 2 --json found.json'
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from benchmarks import columns
from benchmarks.columns import Part
from benchmarks.contention.part import Setting, say
from benchmarks.leases.many import many
from benchmarks.leases.takeover import take_over
from benchmarks.machine import ROOT
from benchmarks.plausible import Impossible
from epoxy.model.errors import EpoxyError

ROUNDS, LEASES = 8, 100_000
PARTS = ("takeover", "many")
RESULT = ROOT / "benchmarks" / "results" / "leases.json"
MARK = "leases: made by benchmarks.leases"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.leases", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--etcd", type=Path, metavar="PATH", help="its binary; without it Epoxy is measured alone")
    made.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}; with a comma (default: both)")
    made.add_argument("--rounds", type=int, default=ROUNDS, help=f"of every take-over (default: {ROUNDS})")
    made.add_argument("--leases", type=int, default=LEASES, help=f"at one node (default: {LEASES})")
    made.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    made.add_argument("--write", action="store_true", help="renew benchmarks/results/ and docs/benchmarks.md")
    return made


def chosen(options: argparse.Namespace) -> list[str]:
    """Names of parts. SystemExit: what is asked for cannot be run."""
    names = [name.strip() for name in options.parts.split(",")]
    for name in names:
        if name not in PARTS:
            raise SystemExit(f"error: there is no part {name!r}; there are {', '.join(PARTS)}")
    if min(options.rounds, options.leases) < 1:
        raise SystemExit("error: --rounds and --leases are at least 1")
    if options.write and (options.rounds < ROUNDS or options.leases < LEASES or options.etcd is None):
        raise SystemExit(f"error: --write needs --etcd, {ROUNDS} rounds and {LEASES} leases: less is a look, no result")
    return names


def main() -> None:
    options = parser().parse_args()
    names = chosen(options)
    found: dict[str, Part] = {}
    try:
        with tempfile.TemporaryDirectory(prefix="epoxy-leases-") as folder:
            etcd = options.etcd.resolve() if options.etcd is not None else None
            setting = Setting(folder=Path(folder), etcd=etcd)
            runs: dict[str, Callable[[], Part]] = {
                "takeover": lambda: take_over(setting, options.rounds),
                "many": lambda: many(setting, options.leases),
            }
            for name in names:
                say(f"  {name}")
                found[name] = runs[name]()
                if options.write:  # one by one: a part that fails leaves those before it
                    columns.save(RESULT, {name: found[name]}, before=False)
                    columns.renew(RESULT, MARK, PARTS)
    except (EpoxyError, Impossible, OSError, RuntimeError) as error:
        raise SystemExit(f"error: {error}") from None
    except KeyboardInterrupt:
        raise SystemExit("interrupted") from None
    print(columns.text(found))
    if options.json is not None:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(found)) + b"\n")


if __name__ == "__main__":
    main()
