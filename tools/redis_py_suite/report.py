"""What is counted of two runs of the suite, and the page about it."""

from collections import Counter
from collections.abc import Iterable
from functools import cached_property

from msgspec import Struct

from tools.redis_py_suite.reasons import reason
from tools.redis_py_suite.scope import concerns

WANTED = 0.85
"""Of the tests that concern strings."""


class Note(Struct, frozen=True, kw_only=True):
    """How one test ended, and the commands it sent."""

    test: str
    outcome: str
    sent: list[str]
    message: str

    @property
    def file(self) -> str:
        return self.test.partition("::")[0]


class Report:
    def __init__(self, *, version: str, judged: Iterable[Note], seen: Iterable[Note]) -> None:
        self.version = version
        self.judged = {note.test: note for note in judged}
        self.seen = {note.test: note for note in seen}

    def verdict(self, test: str) -> str:
        """`passed` and `failed` are those that concern strings. What a Valkey fails asks for more than strings."""
        judged, seen = self.judged.get(test), self.seen.get(test)
        sent = {*(judged.sent if judged else ()), *(seen.sent if seen else ())}
        outcomes = {note.outcome for note in (judged, seen) if note}
        if not sent or not concerns(sent):
            return "skipped" if outcomes == {"skipped"} else "not concerned"
        if seen is None or seen.outcome == "skipped":
            return "skipped"
        if seen.outcome == "failed" and judged and judged.outcome == "failed":
            return "fails at a Valkey too"
        return seen.outcome

    @cached_property
    def verdicts(self) -> dict[str, str]:
        return {test: self.verdict(test) for test in sorted({*self.judged, *self.seen})}

    @cached_property
    def totals(self) -> Counter[str]:
        return Counter(self.verdicts.values())

    @property
    def share(self) -> float:
        counted = self.totals["passed"] + self.totals["failed"]
        return self.totals["passed"] / counted if counted else 0.0

    @cached_property
    def failures(self) -> dict[str, str | None]:
        """With the reason; None where none is known."""
        failed = [test for test, verdict in self.verdicts.items() if verdict == "failed"]
        return {test: reason(test, self.seen[test].message) for test in failed}

    def good(self) -> bool:
        return self.share >= WANTED and None not in self.failures.values()

    def text(self) -> str:
        told = [
            f"{test}\n    {why or 'UNEXPLAINED: ' + self.seen[test].message}" for test, why in self.failures.items()
        ]
        return "\n".join([*told, self.summary()])

    def summary(self) -> str:
        counted = self.totals["passed"] + self.totals["failed"]
        rest = ", ".join(
            f"{n} {verdict}" for verdict, n in sorted(self.totals.items()) if verdict not in ("passed", "failed")
        )
        return f"{self.totals['passed']} of {counted} tests that concern strings pass ({self.share:.1%}); {rest}"

    def page(self) -> str:
        columns = ("passed", "failed", "not concerned", "fails at a Valkey too", "skipped")
        files = dict.fromkeys(test.partition("::")[0] for test in self.verdicts)
        by_file = {file: Counter(v for t, v in self.verdicts.items() if t.startswith(f"{file}::")) for file in files}
        rows = [
            f"| {file.removeprefix('tests/').removesuffix('.py')} | {' | '.join(str(n[each]) for each in columns)} |"
            for file, n in by_file.items()
        ]
        total = " | ".join(str(self.totals[each]) for each in columns)
        by_reason: dict[str, list[str]] = {}
        for test, why in self.failures.items():
            by_reason.setdefault(why or "unexplained", []).append(short_name(test))
        reasons = [
            f"| {why} | {', '.join(f'`{name}`' for name in dict.fromkeys(names))} |"
            for why, names in sorted(by_reason.items())
        ]
        return PAGE.format(
            version=self.version,
            summary=self.summary(),
            columns=" | ".join(columns),
            dashes="|".join("---" for _ in columns),
            rows="\n".join([*rows, f"| all | {total} |"]),
            reasons="\n".join(reasons),
        )


def short_name(test: str) -> str:
    """Without its file and class, and without the way its fixture connects."""
    name = test.rpartition("::")[2].partition("[")[0]
    return f"async {name}" if "/test_asyncio/" in test else name


PAGE = """# redis-py's own tests

Written by `make redis-py-suite`, which fetches the source archive of redis-py {version} and runs its tests, unchanged,
first against a Valkey and then against one node. Between tests the store is emptied with SCAN and DEL, because a node
has no FLUSHDB (`tools/redis_py_suite/shim.py`).

**{summary}.**

A test concerns strings if all commands it sends are about strings, keys, expiry, transactions, scripts or connections
(the list: `tools/redis_py_suite/scope.py`). The others concern lists, sets, hashes, streams, publishing, modules,
clusters or the administration of a Redis, or send nothing at all. Skipped: by the suite itself, most for a server of
another version or kind.

| file | {columns} |
|---|{dashes}|
{rows}

## What fails, and why
| reason | tests |
|---|---|
{reasons}
"""
