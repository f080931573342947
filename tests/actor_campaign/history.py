"""What clients of a campaign asked of actors and were told, and what the actors have in their state in the end.

An actor keeps a log in its state: a line for each change, with the fence under which it was written and the process
that wrote it. An answer tells how long the log is by then.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

KEPT_KEYS = 128
"""Idempotency keys that an actor remembers."""


class Line(Struct, frozen=True, kw_only=True):
    change: str
    fence: int
    process: str


class Told(Struct, frozen=True, kw_only=True):
    """`length`: of the log, with the change if there was one; `last`: the change in its last line."""

    length: int
    last: str
    fence: int
    process: str


class Attempt(Struct, frozen=True, kw_only=True):
    """One request. `change` empty: it reads. Attempts of one change have the same idempotency key. `told` None: there
    was no answer, and unless that is `definite` the request may have been carried out."""

    actor: str
    change: str
    began_s: float
    ended_s: float
    told: Told | None = None
    definite: bool = False


class Finding(Struct, frozen=True, kw_only=True):
    """`rule`: lost, doubled, misplaced, invented, goes back, two writers, fence falls."""

    rule: str
    actor: str
    words: str


class Verdict(Struct, frozen=True, kw_only=True):
    """`forgotten`: changes that were made again after their key was no longer among the last that are kept."""

    acknowledged: int
    reads: int
    unknown: int
    forgotten: int
    findings: tuple[Finding, ...]


def judge(attempts: Sequence[Attempt], logs: Mapping[str, Sequence[Line]]) -> Verdict:
    of_actor: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        of_actor[attempt.actor].append(attempt)
    findings: list[Finding] = []
    forgotten = 0
    for actor in sorted(of_actor.keys() | logs.keys()):
        asked, log = of_actor[actor], logs.get(actor, ())
        again, twice = doubled(actor, log)
        forgotten += again
        findings += [*twice, *misplaced(actor, asked, log), *not_asked_for(actor, asked, log)]
        findings += [*going_back(actor, asked), *of_two_writers(actor, asked, log)]
    answered = {each.change for each in attempts if each.change and each.told is not None}
    open_ones = {each.change for each in attempts if each.change and not each.definite} - answered
    return Verdict(
        acknowledged=len(answered),
        reads=sum(not each.change and each.told is not None for each in attempts),
        unknown=len(open_ones),
        forgotten=forgotten,
        findings=tuple(findings),
    )


def doubled(actor: str, log: Sequence[Line]) -> tuple[int, list[Finding]]:
    """Changes that are there twice. Those whose keys lie further apart than an actor remembers are counted alone."""
    first: dict[str, int] = {}
    forgotten, found = 0, []
    for place, line in enumerate(log):
        before = first.setdefault(line.change, place)
        if before == place:
            continue
        if place - before > KEPT_KEYS:
            forgotten += 1
        else:
            words = f"{line.change} is at {before + 1} and, under fence {line.fence:#x}, at {place + 1}"
            found.append(Finding(rule="doubled", actor=actor, words=words))
    return forgotten, found


def misplaced(actor: str, asked: Iterable[Attempt], log: Sequence[Line]) -> list[Finding]:
    """Every answer tells of a log that is the beginning of the last one: its last line is where it was."""
    found, kept = [], {line.change for line in log}
    for attempt in asked:
        told = attempt.told
        if told is None:
            continue
        here = log[told.length - 1].change if 0 < told.length <= len(log) else ""
        if attempt.change and attempt.change not in kept:
            words = f"{attempt.change} was acknowledged at {told.length} under fence {told.fence:#x}, and is not there"
            found.append(Finding(rule="lost", actor=actor, words=words))
        elif told.last != here or (attempt.change and told.last != attempt.change):
            words = f"the answer for {attempt.change or 'a read'} had {told.last!r} at {told.length}, where {here!r} is"
            found.append(Finding(rule="misplaced", actor=actor, words=words))
    return found


def not_asked_for(actor: str, asked: Iterable[Attempt], log: Sequence[Line]) -> list[Finding]:
    """Lines of changes that no client asked for, or whose every attempt was definitely not carried out."""
    possible = {each.change for each in asked if each.change and not each.definite}
    return [
        Finding(rule="invented", actor=actor, words=f"{line.change} at {place}, which no request may have made")
        for place, line in enumerate(log, start=1)
        if line.change not in possible
    ]


def going_back(actor: str, asked: Iterable[Attempt]) -> list[Finding]:
    """An answer to a request that began after another was answered shows at least as much. The answer of a change that
    was made by an earlier attempt of it is as old as that."""
    first: dict[str, float] = {}
    for each in asked:
        if each.change:
            first[each.change] = min(each.began_s, first.get(each.change, each.began_s))
    answered = [(each, each.told) for each in asked if each.told is not None]
    ends = sorted((each.ended_s, told.length) for each, told in answered)
    found, seen, place = [], 0, 0
    for began_s, each, told in sorted(
        ((first.get(each.change, each.began_s), each, told) for each, told in answered), key=lambda it: it[0]
    ):
        while place < len(ends) and ends[place][0] < began_s:
            seen = max(seen, ends[place][1])
            place += 1
        if told.length < seen:
            words = f"{told.length} lines for {each.change or 'a read'}, where an earlier answer had {seen}"
            found.append(Finding(rule="goes back", actor=actor, words=words))
    return found


def of_two_writers(actor: str, asked: Iterable[Attempt], log: Sequence[Line]) -> list[Finding]:
    """Fences rise along the log, and each belongs to one process: in the log, and in what clients were told."""
    found = [
        Finding(rule="fence falls", actor=actor, words=f"{after.fence:#x} at {place} after {before.fence:#x}")
        for place, (before, after) in enumerate(pairwise(log), start=2)
        if after.fence < before.fence
    ]
    writers: dict[int, str] = {}
    pairs = [(line.fence, line.process) for line in log]
    pairs += [(each.told.fence, each.told.process) for each in asked if each.told is not None]
    for fence, process in pairs:
        if writers.setdefault(fence, process) != process:
            words = f"fence {fence:#x} is of {writers[fence]} and of {process}"
            found.append(Finding(rule="two writers", actor=actor, words=words))
    return found
