"""What was promised of our speed, and whether a run shows it. A line whose figures are missing is left out."""

from collections.abc import Iterator, Mapping, Sequence

from benchmarks.findings import Verdict
from benchmarks.suite.results import Figures, Growth, Holding, Loaded, Overload, Results
from benchmarks.suite.workloads import EMPTY, EPOXY, EPOXY_HTTP, ETCD, ETCD_SHARED, REDIS

Found = Mapping[str, Mapping[str, Figures]]

COMMITS, OVERWRITES_OF_ETCD = 1.6, 1.5
"""Times etcd's, in commits a second."""

COMMIT_CPU, COMMIT_P50 = 0.6, 1.0
"""Times etcd's, at most."""

HTTP_COMMITS = 0.9
"""Of those over RESP."""

OF_REDIS, OF_ETCD_READS, HTTP_OF_ETCD_READS, LINEARIZABLE = 0.5, 5.0, 1.5, 1.0
OVERWRITES = 0.8
"""Of fresh keys."""

EVEN_SHARE = 0.8
"""Of an even share, that the least busy node has: below, there is a hot spot somewhere."""

P50_WHEN_FULL = 1.5
START_S = 5.0
MEMORY_WHEN_FULL = 1.25
"""Times the memory of an empty one that has done the same work: the allocator is worth some of that."""

P99_OVERLOADED_MS = 2000.0
"""Of what is not refused, with 16,000 requests under way: a client would still wait for that."""


def verdicts(results: Results) -> Iterator[Verdict]:
    found = results.workloads
    yield from commits(found)
    yield from reads(found)
    yield from linearizable(found)
    yield from everywhere(found)
    if results.loaded is not None:
        yield from scattered(results.loaded)
    if results.growth is not None:
        yield from grown(results.growth)


def at_least(claim: str, ratio: float, limit: float) -> Verdict:
    return Verdict(claim=claim, wanted=f"at least {limit:g}x", found=f"{ratio:.2f}x", held=ratio >= limit)


def at_most(claim: str, ratio: float, limit: float) -> Verdict:
    return Verdict(claim=claim, wanted=f"at most {limit:g}x", found=f"{ratio:.2f}x", held=ratio <= limit)


def rate(one: Figures) -> float:
    return one.rate.median


def ratio(ours: float, theirs: float) -> float:
    return ours / theirs if theirs else float("inf")


def commits(found: Found) -> Iterator[Verdict]:
    for clients in (64, 256):
        by = found.get(f"fresh-{clients}", {})
        for rival in (ETCD, ETCD_SHARED):
            if EPOXY in by and rival in by:
                what = f"fresh keys, {clients} clients: commits a second, to {rival}"
                yield at_least(what, ratio(rate(by[EPOXY]), rate(by[rival])), COMMITS)
        if EPOXY in by and ETCD in by:
            cpu = ratio(by[EPOXY].cpu_us.median, by[ETCD].cpu_us.median)
            yield at_most(f"fresh keys, {clients} clients: CPU for each commit, to etcd", cpu, COMMIT_CPU)
        if EPOXY in by and EPOXY_HTTP in by:
            what = f"fresh keys, {clients} clients over HTTP: commits a second, to those over RESP"
            yield at_least(what, ratio(rate(by[EPOXY_HTTP]), rate(by[EPOXY])), HTTP_COMMITS)
    by = found.get("overwrite-64", {})
    if EPOXY in by and ETCD in by:
        what = "overwrites of disjoint keys, 64 clients: commits a second, to etcd"
        yield at_least(what, ratio(rate(by[EPOXY]), rate(by[ETCD])), OVERWRITES_OF_ETCD)
    by = found.get("fresh-1", {})
    if EPOXY in by and ETCD in by:
        p50 = ratio(by[EPOXY].p50.median, by[ETCD].p50.median)
        yield at_most("fresh keys, 1 client: p50, to etcd", p50, COMMIT_P50)


def reads(found: Found) -> Iterator[Verdict]:
    for name, words in (("get-1", "pipeline 1"), ("get-16", "pipeline 16")):
        by = found.get(name, {})
        if EPOXY in by and REDIS in by:
            yield at_least(f"local reads, RESP, {words}: to Redis", ratio(rate(by[EPOXY]), rate(by[REDIS])), OF_REDIS)
    one, spread = found.get("get-1", {}), found.get("get-spread", {})
    rivals = [rate(by[name]) for by in (one, spread) for name in (ETCD, ETCD_SHARED) if name in by]
    for ours, limit, words in ((EPOXY, OF_ETCD_READS, "RESP"), (EPOXY_HTTP, HTTP_OF_ETCD_READS, "HTTP")):
        mine = [rate(by[ours]) for by in (one, spread) if ours in by]
        if mine and rivals:
            claim = f"local reads, {words}: to etcd's serializable ones, both at their best"
            yield at_least(claim, ratio(max(mine), max(rivals)), limit)


def scattered(loaded: Loaded) -> Iterator[Verdict]:
    """Reads all over a store that is larger than any cache."""
    by = loaded.workloads.get("get-loaded", {})
    if EPOXY in by and REDIS in by:
        claim = f"local reads, RESP, all over {loaded.held[EPOXY].keys:,} keys: to Redis"
        yield at_least(claim, ratio(rate(by[EPOXY]), rate(by[REDIS])), OF_REDIS)


def linearizable(found: Found) -> Iterator[Verdict]:
    for kind in ("mutable", "immutable"):
        for clients in (1, 64, 256):
            by = found.get(f"linearizable-{kind}-{clients}", {})
            for rival in (ETCD, ETCD_SHARED):
                if EPOXY in by and rival in by:
                    claim = f"linearizable reads of {kind} keys, {clients} clients: to {rival}"
                    yield at_least(claim, ratio(rate(by[EPOXY]), rate(by[rival])), LINEARIZABLE)


def everywhere(found: Found) -> Iterator[Verdict]:
    """All three nodes at once."""
    fresh = found.get("fresh-256", {}).get(EPOXY)
    if fresh is not None:
        claim = "fresh keys, 256 clients: the least busy node, to an even share"
        yield at_least(claim, even_share(fresh.nodes), EVEN_SHARE)
    for clients in (64, 256):
        fresh = found.get(f"fresh-{clients}", {}).get(EPOXY)
        again = found.get(f"overwrite-{clients}", {}).get(EPOXY)
        if fresh is not None and again is not None:
            claim = f"overwrites of disjoint keys, {clients} clients: to fresh keys"
            yield at_least(claim, ratio(rate(again), rate(fresh)), OVERWRITES)
    hot = found.get("hot-key", {}).get(EPOXY)
    if hot is not None:
        yield Verdict(
            claim="one hot key from three nodes: progress, the share of the least lucky node, failed writes",
            wanted="every node, none failed",
            found=f"{hot.rate.median:,.0f}/s, {even_share(hot.nodes):.0%} of an even share, {hot.failed} failed",
            held=min(hot.nodes) > 0 and hot.rate.low > 0 and hot.failed == 0,
        )


def even_share(nodes: Sequence[int]) -> float:
    return ratio(min(nodes) * len(nodes), sum(nodes))


def grown(growth: Growth) -> Iterator[Verdict]:
    if growth.keys:
        yield from full(growth.keys[-1])
    if growth.overload:
        yield overloaded(growth.overload[-1])


def full(holding: Holding) -> Iterator[Verdict]:
    keys = f"{holding.held.keys:,} keys"
    for words, by in (("1 client", holding.alone), ("64 clients", holding.busy)):
        claim = f"{keys}, {words}: p50 of a commit, to the empty store's"
        yield at_most(claim, ratio(by[EPOXY].p50.median, by[EMPTY].p50.median), P50_WHEN_FULL)
    start = max(holding.start_s, holding.start_after_kill_s)
    yield Verdict(
        claim=f"{keys}: start of a node, after a kill too",
        wanted=f"under {START_S:g} s",
        found=f"{start:.1f} s",
        held=start < START_S,
    )
    grown_by = ratio(holding.memory.anonymous, holding.memory_empty.anonymous)
    yield at_most(f"{keys}: memory, to the empty store's", grown_by, MEMORY_WHEN_FULL)


def overloaded(most: Overload) -> Verdict:
    p99 = most.figures.p99.median
    others = most.figures.failed - most.figures.faults.get("BUSY", 0)
    return Verdict(
        claim=f"{most.under_way:,} requests under way at once: p99 of what is not refused; other failures than BUSY",
        wanted=f"at most {P99_OVERLOADED_MS:,.0f} ms, 0",
        found=f"{p99:,.0f} ms, {others}; {most.busy_share:.0%} refused",
        held=p99 <= P99_OVERLOADED_MS and others == 0,
    )
