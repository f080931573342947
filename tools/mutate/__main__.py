"""Draw random changes of production code, room by room, and print those that no test notices.

    python -m tools.mutate [ROOM ...] [--count 20] [--seed 0] [--short] [--json] [--list]

Each change is made alone, in a copy of the tree, and shown to the tests of its room, then to a short simulation, then
to tests of whole processes where the room has some. The same seed draws the same changes of the same sources. What was
looked at and may survive is in tools/mutate/judged.toml, with the reason.

Exit status: 0 all that matter were noticed; 1 something survived; 2 the command line is wrong, or a test fails
unchanged.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from tools.mutate.changes import Change, changes
from tools.mutate.judge import Found, Tree, diff, limits
from tools.mutate.rooms import ROOMS, sources

ROOT = Path(__file__).resolve().parents[2]
JUDGED = Path(__file__).with_name("judged.toml")
BASELINE_S = 900.0


class Judged(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change that may survive: the line as it was and as it became, without the spaces around."""

    path: str
    was: str
    became: str
    verdict: str
    why: str


def drawn(root: Path, room: str, count: int, seed: int) -> list[Change]:
    """Without repeats: first a kind, then a place, so that rare kinds have their turn."""
    dice = Random(f"{seed}/{room}")
    by_kind: dict[str, list[Change]] = {}
    for path in sources(root, room):
        for change in changes(str(path), (root / path).read_text("utf-8")):
            by_kind.setdefault(change.kind, []).append(change)
    chosen: list[Change] = []
    while len(chosen) < count and any(by_kind.values()):
        kind = dice.choice(sorted(kind for kind, left in by_kind.items() if left))
        chosen.append(by_kind[kind].pop(dice.randrange(len(by_kind[kind]))))
    return chosen


def known() -> dict[tuple[str, str, str], Judged]:
    told = msgspec.toml.decode(JUDGED.read_bytes(), type=dict[str, list[Judged]]) if JUDGED.exists() else {}
    return {(each.path, each.was, each.became): each for each in told.get("judged", [])}


def key(found: Found) -> tuple[str, str, str]:
    return found.change.path, found.was, found.became


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def examine(names: Sequence[str], count: int, seed: int, patience: float, folder: Path, *, short: bool) -> list[Found]:
    tree = Tree(ROOT, folder / "tree")
    found: list[Found] = []
    for name in names:
        room, chosen = ROOMS[name], drawn(tree.root, name, count, seed)
        room = replace(room, more=()) if short else room
        times = tree.times(room, BASELINE_S)
        say(f"{name}: {len(chosen)} changes; unchanged, " + ", ".join(f"{k} {v:.0f} s" for k, v in times.items()))
        for number, change in enumerate(chosen, start=1):
            found.append(tree.judge(room, change, limits(times, patience)))
            by = found[-1].by or "NOT NOTICED"
            say(f"  {number}/{len(chosen)} {change.path}:{change.line} {change.kind}: {by}, {found[-1].seconds:.0f} s")
    return found


def table(found: Sequence[Found], forgiven: dict[tuple[str, str, str], Judged]) -> list[str]:
    rows = ["| room | changes | noticed | may survive | survived |", "| --- | --- | --- | --- | --- |"]
    for name in dict.fromkeys(each.room for each in found):
        of_room = [each for each in found if each.room == name]
        passed = [each for each in of_room if each.by is None]
        excused = sum(key(each) in forgiven for each in passed)
        rows.append(f"| {name} | {len(of_room)} | {len(of_room) - len(passed)} | {excused} | {len(passed) - excused} |")
    return rows


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", help=f"default: all ({', '.join(ROOMS)})")
    parser.add_argument("--count", type=int, default=20, help="changes of each room (default 20)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--patience", type=float, default=4.0, help="times the usual, after which a test hangs")
    parser.add_argument("--short", action="store_true", help="without tests of whole processes")
    parser.add_argument("--list", action="store_true", help="show what would be changed, and change nothing")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of a table")
    given = parser.parse_args(words)
    unknown = [name for name in given.rooms if name not in ROOMS]
    if unknown:
        parser.error(f"there is no room {unknown[0]!r}; there are {', '.join(ROOMS)}")
    names = given.rooms or list(ROOMS)
    if given.list:
        for name in names:
            for change in drawn(ROOT, name, given.count, given.seed):
                right = (ROOT / change.path).read_text("utf-8")
                print(diff(change.path, right, change.made(right)))
        return 0
    with tempfile.TemporaryDirectory(prefix="epoxy-mutate-") as folder:
        try:
            found = examine(names, given.count, given.seed, given.patience, Path(folder), short=given.short)
        except RuntimeError as broken:
            say(str(broken))
            return 2
    return report(found, as_json=given.json)


def report(found: Sequence[Found], *, as_json: bool) -> int:
    forgiven = known()
    survived = [each for each in found if each.by is None and key(each) not in forgiven]
    if as_json:
        print(msgspec.json.format(msgspec.json.encode({"found": found, "survived": survived})).decode())
        return 1 if survived else 0
    for each in survived:
        print(each.diff, end="\n\n")
    print("\n".join(table(found, forgiven)))
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
