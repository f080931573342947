"""The arithmetic: what a write to a shared key can take at least, who owns it, shares, counts. No IO, no clock."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from benchmarks.contention.asker import Answer
from benchmarks.findings import Verdict
from benchmarks.stats import epoxy_floor, percentile
from epoxy.transport.wan.aws import rtt_ms

SLOW_TIMES, SLOW_MS = 1.5, 20.0
"""A request is slow that takes longer than so many times the floor of those that are left, and so many ms more: beyond
what two busy cores do to one that nothing disturbs."""

QUICKER_MS = 5.0
"""Than possible, a region may seem to be: half of the answers may have come from an earlier owner."""


def way_ms(here: str, owner: str, regions: Sequence[str]) -> float:
    """To the owner of a key, its fast round there, and back."""
    return epoxy_floor(owner, regions) + (rtt_ms(here, owner) if here != owner else 0.0)


def least_ms(here: str, regions: Sequence[str]) -> float:
    """No write can be acknowledged here sooner, wherever the round is made."""
    return min(way_ms(here, owner, regions) for owner in regions)


def early(answers: Iterable[Answer], regions: Sequence[str], slack_ms: float = 1.0) -> int:
    """Writes that were acknowledged before they can have been committed: a defect, of the delays or of the store."""
    return sum(answer.ok and answer.took_ms < least_ms(answer.region, regions) - slack_ms for answer in answers)


def owner_of(p50: Mapping[str, float], regions: Sequence[str]) -> str:
    """No API tells it: the region for which the worst distance from (round trip to it + its floor) is the least, of
    those for which no region is quicker than that. If the owner changed meanwhile there may be none: of all, then."""
    above = {owner: above_way(p50, owner, regions) for owner in regions}
    possible = [owner for owner in regions if min(above[owner].values()) >= -QUICKER_MS]
    return min(possible or regions, key=lambda owner: max(above[owner].values()))


def above_way(p50: Mapping[str, float], owner: str, regions: Sequence[str]) -> dict[str, float]:
    return {here: took - way_ms(here, owner, regions) for here, took in p50.items()}


class Accounted(Struct, frozen=True, kw_only=True):
    """Acknowledged overwrites of one key, held against its version before and after. `again`: versions that two of them
    were told. `missing`: acknowledged writes without a version of their own, or beyond what can have been written."""

    acknowledged: int
    indefinite: int
    grew_by: int
    again: int
    missing: int

    @property
    def sound(self) -> bool:
        return self.again == 0 and self.missing == 0


def account(answers: Sequence[Answer], before: int, after: int) -> Accounted:
    versions = [answer.version for answer in answers if answer.ok]
    indefinite = sum(not answer.ok and not answer.definite for answer in answers)
    grew = after - before
    return Accounted(
        acknowledged=len(versions),
        indefinite=indefinite,
        grew_by=grew,
        again=len(versions) - len(set(versions)),
        missing=max(0, len(versions) - grew, grew - len(versions) - indefinite),
    )


def shares(counts: Mapping[str, int]) -> dict[str, float]:
    """Of an even share."""
    even = sum(counts.values()) / len(counts) if counts else 0.0
    return {name: count / even if even else 0.0 for name, count in counts.items()}


def took(answers: Iterable[Answer]) -> list[float]:
    return [answer.took_ms for answer in answers if answer.ok]


def p50(values: Sequence[float]) -> float:
    return percentile(values, 0.5) if values else float("inf")


def p99(values: Sequence[float]) -> float:
    return percentile(values, 0.99) if values else float("inf")


def middle_and_tail(values: Sequence[float]) -> str:
    """p50, p99."""
    return f"{percentile(values, 0.5):,.1f}, {percentile(values, 0.99):,.1f}" if values else "none"


def slow_count(answers: Iterable[Answer], floor_ms: float) -> int:
    """What failed is slow, too."""
    return sum(not answer.ok or answer.took_ms > SLOW_TIMES * floor_ms + SLOW_MS for answer in answers)


def stale(reads: Iterable[Answer], writes: Iterable[Answer]) -> int:
    """Linearizable reads that saw less than what was acknowledged before they began."""
    known = [(write.ended_s, write.version) for write in writes if write.ok]
    return sum(
        read.ok and read.version < max((version for ended, version in known if ended < read.began_s), default=0)
        for read in reads
    )


def at_most(claim: str, limit: float, found: float, unit: str, where: str = "") -> Verdict:
    """`unit` with the blank before it, if it has one."""
    words = f"{number(found)}{unit}{f' ({where})' if where else ''}"
    return Verdict(claim=claim, wanted=f"at most {limit:g}{unit}", found=words, held=found <= limit)


def at_least(claim: str, limit: float, found: float, unit: str, where: str = "") -> Verdict:
    words = f"{number(found, 2)}{unit}{f' ({where})' if where else ''}"
    return Verdict(claim=claim, wanted=f"at least {limit:g}{unit}", found=words, held=found >= limit)


def none(claim: str, found: int, words: str = "") -> Verdict:
    return Verdict(claim=claim, wanted="0", found=f"{found}{f' ({words})' if found and words else ''}", held=found == 0)


def number(value: float, digits: int = 1) -> str:
    if value == float("inf"):
        return "none"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{digits}f}"


def worst(values: Mapping[str, float]) -> tuple[str, float]:
    """The largest."""
    name = max(values, key=lambda each: values[each])
    return name, values[name]


def told(faults: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in sorted(faults.items())) or "0"
