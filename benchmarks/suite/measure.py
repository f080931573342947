"""Runs the stretches of load, one system after the other, and keeps what was found."""

import secrets
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from benchmarks.machine import ROOT
from benchmarks.plausible import all_answered, has_time, sendable
from benchmarks.suite.job import Job, Outcome
from benchmarks.suite.results import Figures, figures
from benchmarks.suite.systems.base import Door, Operation, System
from benchmarks.suite.workloads import (
    CHANGING,
    DOORS,
    HOT,
    IMMUTABLE,
    MUTABLE,
    OURS,
    STORED,
    WORKLOADS,
    Circumstances,
    Workload,
    job,
    storing,
)

SLACK_S = 120.0
"""Beyond the time of a job, for its connections and what is left under way."""


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


class Plan(Struct, frozen=True, kw_only=True):
    """`rounds` of everything, in turns; `seconds` of each stretch after `warm_s` that are not counted."""

    rounds: int = 3
    warm_s: float = 0.7
    seconds: float = 3.0


def generate(work: Job) -> Outcome:
    """In a process of its own. RuntimeError: it could not do it."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.suite.generator"],
        input=msgspec.msgpack.encode(work),
        capture_output=True,
        check=False,
        cwd=ROOT,
        timeout=work.warm_s + work.seconds + SLACK_S,
    )
    if done.returncode:
        raise RuntimeError(f"the load generator failed:\n{done.stderr.decode('utf-8', 'replace')[-2000:]}")
    return msgspec.msgpack.decode(done.stdout, type=Outcome)


class Field:
    """The systems that run, and how contenders ask them."""

    def __init__(self, systems: Mapping[str, System], doors: Mapping[str, tuple[str, str]] = DOORS) -> None:
        self.systems = systems
        self._doors = doors
        self.run = secrets.token_hex(4)
        self.loaded: dict[str, int] = {}

    def __contains__(self, contender: str) -> bool:
        return self.system_of(contender) in self.systems

    def system_of(self, contender: str) -> str:
        return self._doors[contender][0] if contender in self._doors else contender

    def system(self, contender: str) -> System:
        return self.systems[self.system_of(contender)]

    def door(self, contender: str) -> Door:
        doors = self.system(contender).doors
        return doors[self._doors[contender][1]] if contender in self._doors else next(iter(doors.values()))

    def store(self, *, count: int = STORED) -> None:
        """The keys that are read and overwritten. All clients wait until they are there; a replica that commits late
        would answer a local read with nothing."""
        for name, system in self.systems.items():
            door = next(iter(system.doors.values()))
            if Operation.GET not in door.speak:
                continue
            for operation, prefix, keys in (
                (Operation.CREATE, IMMUTABLE, count),
                (Operation.PUT, MUTABLE, count),
                (Operation.PUT, CHANGING, count),
                (Operation.PUT, HOT, 1),
            ):
                outcome = generate(storing(door, operation, prefix, keys))
                if outcome.operations != keys or outcome.failed:
                    raise RuntimeError(f"{name}: {outcome.operations} of {keys} keys stored: {outcome.example}")

    def load(self, name: str, keys: int) -> str:
        """Says how it was done."""
        system = self.systems[name]
        self.loaded[name] = system.numbers(keys)
        return system.load(keys, generate)

    def unique(self, workload: Workload, contender: str, number: int) -> str:
        """The prefix of keys that no other stretch has."""
        return f"{self.run}/{contender}/{workload.name}/{number}".replace(" ", "-").replace(",", "")

    def job(self, workload: Workload, contender: str, number: int, plan: Plan) -> Job:
        now = Circumstances(
            unique=self.unique(workload, contender, number),
            warm_s=plan.warm_s,
            seconds=plan.seconds,
            roots=self.system(contender).roots,
            database_roots=self.system(contender).database_roots,
            loaded=self.loaded.get(contender, 1),
        )
        return job(workload, self.door(contender), now)

    def stretch(self, workload: Workload, contender: str, number: int, plan: Plan) -> Outcome:
        work = self.job(workload, contender, number, plan)
        return honest(f"{contender}, {workload.title}", work, generate(work))


def honest(what: str, work: Job, outcome: Outcome) -> Outcome:
    """Impossible: the generator cannot have sent so much, or a node that clients asked has answered nothing."""
    possible(what, work, outcome)
    asked = outcome.nodes[: work.clients]
    all_answered(what, {f"node {number}": node.operations for number, node in enumerate(asked, start=1)})
    return outcome


def possible(what: str, work: Job, outcome: Outcome) -> Outcome:
    """Impossible: the generator cannot have sent so much."""
    sendable(
        what,
        operations=outcome.operations,
        in_flight=work.clients * work.streams * work.pipeline,
        mean_ms=outcome.latency.mean,
        most_ms=outcome.latency.most,
        seconds=outcome.seconds,
    )
    has_time(what, outcome.generator_cpu_s, outcome.seconds)
    return outcome


def compare(field: Field, chosen: Sequence[Workload], plan: Plan) -> dict[str, dict[str, Figures]]:
    """By workload, then by contender. Within a round contenders take turns, and every other round goes backwards, so
    that no system is always first."""
    found: dict[str, dict[str, list[Outcome]]] = {workload.name: {} for workload in chosen}
    for number in range(plan.rounds):
        say(f"round {number + 1} of {plan.rounds}" if plan.rounds > 1 else "one round")
        for workload in chosen:
            present = [contender for contender in workload.contenders if contender in field]
            for contender in present if number % 2 == 0 else reversed(present):
                outcome = field.stretch(workload, contender, number, plan)
                found[workload.name].setdefault(contender, []).append(outcome)
                say(f"  {workload.title}: {contender} {words(outcome)}")
    return {
        name: {contender: figures(outcomes) for contender, outcomes in ordered(by.items())}
        for name, by in found.items()
    }


def ordered(pairs: Iterable[tuple[str, list[Outcome]]]) -> list[tuple[str, list[Outcome]]]:
    return sorted(pairs, key=lambda pair: pair[0] not in OURS)


def words(outcome: Outcome) -> str:
    wrong = f", {outcome.failed} WRONG ({outcome.example})" if outcome.failed else ""
    return (
        f"{outcome.rate:,.0f}/s, p50 {outcome.latency.p50:.2f} ms, p99 {outcome.latency.p99:.2f} ms, "
        f"CPU {outcome.cpu_us:.0f} us{wrong}"
    )


def named(pattern: str) -> list[Workload]:
    """Those that are called so, or whose names begin so if none is. ValueError: there is none."""
    found: list[Workload] = []
    for each in pattern.split(","):
        exact = [workload for workload in WORKLOADS if workload.name == each.strip()]
        matching = exact or [workload for workload in WORKLOADS if workload.name.startswith(each.strip())]
        if not matching:
            raise ValueError(f"no workload begins with {each!r}; --list shows them")
        found += [workload for workload in matching if workload not in found]
    return found
