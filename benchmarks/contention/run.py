"""All workloads on keys that more than one region writes, and where their figures are kept."""

from collections.abc import Awaitable, Callable, Sequence

from benchmarks import columns
from benchmarks.columns import Part
from benchmarks.contention.gray import gray
from benchmarks.contention.hot import hot
from benchmarks.contention.minority import minority
from benchmarks.contention.part import Setting, say
from benchmarks.contention.races import races
from benchmarks.contention.readers import readers
from benchmarks.contention.writers import distant, loops
from benchmarks.machine import ROOT

PARTS: dict[str, Callable[[Setting], Awaitable[Part]]] = {
    "hot": hot,
    "races": races,
    "distant": distant,
    "loops": loops,
    "readers": readers,
    "gray": gray,
    "minority": minority,
}
RESULT = ROOT / "benchmarks" / "results" / "contention.json"
MARK = "contention: made by benchmarks.wan"


async def measured(names: Sequence[str], setting: Setting) -> dict[str, Part]:
    found: dict[str, Part] = {}
    for name in names:
        say(f"  {name}")
        found[name] = await PARTS[name](setting)
    return found


def renew(found: dict[str, Part], *, before: bool) -> None:
    columns.save(RESULT, found, before=before)
    columns.renew(RESULT, MARK, PARTS)
