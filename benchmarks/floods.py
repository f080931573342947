"""How much slower other clients of a node are while it is flooded, for each flood of every door.

    python -m benchmarks.floods [NAME ...] [--windows 5] [--seconds 1.5] [--json]

All of them take seven minutes, and five with `--windows 4 --seconds 1.3`.

Quiet and flooded windows take turns, because a busy machine slows both. The ratio is that of the medians of their 99th
percentiles. `requests`: of the flooded window with the fewest; with less than a hundred, the percentile is the slowest
of them. `unreached`: samples in which another node had no answer in time. The sender takes CPU, too: on two
cores three nodes, the sender and the client share what is there, so a part of the ratio is its doing, not the node's.
"""

import argparse
import json
import sys
import time
from statistics import median

from benchmarks.flood_senders import FLOODS
from benchmarks.flood_watch import Bystander, Watch, flooding, peer_connections_ended, prepare, quantile, rss_kib
from epoxy.testing import Cluster, cluster

HEADINGS = (
    f"{'flood':22} {'p50':>15} {'p99, ms':>17} {'ratio':>7} {'more MiB':>9} {'requests':>9}  "
    "peers unreached, refused; writes lost"
)


def window(bystander: Bystander, seconds: float) -> list[float]:
    """How long each request of one window took."""
    begun = len(bystander.took_s)
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        bystander.ask()
    return bystander.took_s[begun:]


def measure(made: Cluster, name: str, windows: int, seconds: float) -> dict[str, float | str]:
    quiet: list[list[float]] = []
    flooded: list[list[float]] = []
    ended = sum(peer_connections_ended(made).values())
    with Bystander(made[0], name) as bystander:
        window(bystander, seconds / 2)
        before_kib, most_kib, unreached = rss_kib(made[0]), 0, 0
        for _ in range(windows):
            quiet.append(window(bystander, seconds))
            with flooding(name, made[0]), Watch(made) as watch:
                flooded.append(window(bystander, seconds))
            most_kib, unreached = max(most_kib, watch.most_kib), unreached + watch.unreached
        lost = len(bystander.lost(made[2]))
    p99_quiet, p99_flooded = (median(quantile(took, 0.99) for took in all_) for all_ in (quiet, flooded))
    return {
        "flood": name,
        "p50_quiet_ms": 1e3 * median(quantile(took, 0.5) for took in quiet),
        "p50_flooded_ms": 1e3 * median(quantile(took, 0.5) for took in flooded),
        "p99_quiet_ms": 1e3 * p99_quiet,
        "p99_flooded_ms": 1e3 * p99_flooded,
        "p99_ratio": p99_flooded / p99_quiet,
        "more_mib": max(0, most_kib - before_kib) / 1024,
        "requests": min(len(took) for took in flooded),
        "unreached": unreached,
        "peer_connections_ended": sum(peer_connections_ended(made).values()) - ended,
        "lost": lost,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="How much slower others are while a node is flooded.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FLOODS)}; all if none is given")
    parser.add_argument("--windows", type=int, default=5, help="quiet and flooded ones each (default 5)")
    parser.add_argument("--seconds", type=float, default=1.5, help="of each window (default 1.5)")
    parser.add_argument("--json", action="store_true", help="one object a line")
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in FLOODS]
    if unknown:
        print(f"no such flood: {', '.join(unknown)}; known: {', '.join(FLOODS)}", file=sys.stderr)
        return 2
    if not options.json:
        print(print(HEADINGS))
    with cluster(3) as made:
        prepare(made)
        for name in options.names or FLOODS:
            found = measure(made, name, options.windows, options.seconds)
            print(json.dumps(found) if options.json else row(found), flush=True)
    return 0


def row(found: dict[str, float | str]) -> str:
    return (
        f"{found['flood']:22} {found['p50_quiet_ms']:6.1f} -> {found['p50_flooded_ms']:5.1f} "
        f"{found['p99_quiet_ms']:7.1f} -> {found['p99_flooded_ms']:6.1f} {found['p99_ratio']:7.1f} "
        f"{found['more_mib']:9.0f} {found['requests']:9}  "
        f"{found['unreached']}, {found['peer_connections_ended']:.0f}; {found['lost']}"
    )


if __name__ == "__main__":
    sys.exit(main())
