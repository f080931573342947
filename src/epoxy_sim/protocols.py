"""What the simulators of all protocols share: the setup of a campaign, and the hunt for planted faults."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from hashlib import blake2b
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from epoxy_sim.campaign import DIGEST_BYTES, Campaign, Played, Tally
from epoxy_sim.keys.simulation import Failure
from epoxy_sim.patching import Mutant, planted
from epoxy_sim.search import P


class RunReport(Protocol):
    """What every run tells, whatever it is that it plays."""

    @property
    def plan(self) -> Any: ...
    @property
    def failure(self) -> Failure | None: ...
    @property
    def virtual_us(self) -> int: ...
    @property
    def events(self) -> int: ...
    @property
    def messages(self) -> int: ...
    @property
    def faults(self) -> dict[str, int]: ...
    @property
    def trace(self) -> list[str] | None: ...


R = TypeVar("R", bound=RunReport)


class CampaignSetup(Struct, Generic[P, R], frozen=True, kw_only=True):
    """What all runs of a campaign share; None: each seed draws its own. Whoever extends it says how a plan is made and
    played, what is counted, and by which facts two runs are told apart."""

    name: ClassVar[str]
    mutants: ClassVar[Mapping[str, Mutant]]
    limit_seeds: ClassVar[int]

    n: int | None = None
    mutant: str | None = None

    def plan(self, seed: int) -> P:
        raise NotImplementedError

    def run(self, plan: P, *, tracing: bool = False) -> R:
        raise NotImplementedError

    def tally(self, report: R) -> Tally:
        raise NotImplementedError

    def facts(self, report: R) -> tuple[object, ...]:
        raise NotImplementedError

    def asked(self) -> dict[str, object]:
        """By the names of the options that ask for it."""
        return {"n": self.n, "mutant": self.mutant}

    @property
    def protocol(self) -> str:
        """The command that plays it. A mutant that replaces a whole protocol is one of its own."""
        return self.name

    @property
    def title(self) -> str:
        words = [self.protocol]
        if self.mutant is not None and self.mutant != self.protocol:
            words.append(f"with {self.mutant} planted")
        if self.n is not None:
            words.append(f"n = {self.n}")
        return ", ".join(words)

    def planted(self) -> AbstractContextManager[None]:
        return planted(self.mutants, self.mutant)

    def play(self, seed: int) -> Played:
        report = self.run(self.plan(seed))
        return Played(tally=self.tally(report), digest=self.digest(report), failure=report.failure)

    def digest(self, report: R) -> bytes:
        return blake2b(self.encoded(report), digest_size=DIGEST_BYTES).digest()

    def encoded(self, report: R) -> bytes:
        facts = (report.failure, report.virtual_us, report.events, report.messages, *self.facts(report))
        return msgspec.json.encode(facts)

    def replay_command(self, seed: int) -> str:
        """The words that make this very run again, on any machine."""
        words = ["epoxy", "sim", self.protocol, "--replay", str(seed)]
        for option, value in self.asked().items():
            if value is not None and value != self.protocol:
                words += [f"--{option}", str(value)]
        return " ".join(words)


def tally_of(
    report: RunReport,
    *,
    operations: int,
    paths: dict[str, int],
    faults: dict[str, int] | None = None,
    verdicts: dict[str, int] | None = None,
) -> Tally:
    return Tally(
        runs=1,
        failures=int(report.failure is not None),
        virtual_us=report.virtual_us,
        events=report.events,
        messages=report.messages,
        operations=operations,
        paths=paths,
        faults=report.faults if faults is None else faults,
        verdicts=verdicts or {},
    )


class FaultCatch(Struct, frozen=True, kw_only=True):
    """What became of a planted fault. No rule: it survived. `tried`: runs of the simulator until then."""

    mutant: str
    breaks: str
    tried: int
    seed: int | None = None
    rule: str | None = None
    replay: str | None = None


def chase(
    protocol: type[CampaignSetup[Any, Any]], name: str, *, jobs: int = 1, limit_seeds: int | None = None
) -> FaultCatch:
    mutant = protocol.mutants[name]
    end = mutant.since + (protocol.limit_seeds if limit_seeds is None else limit_seeds)
    summary = Campaign(protocol(mutant=name), mutant.since, end, jobs=jobs).run()
    if summary.interrupted:
        raise KeyboardInterrupt
    catch = FaultCatch(mutant=name, breaks=mutant.breaks, tried=summary.tally.runs)
    if not summary.failed:
        return catch
    first = summary.failed[0]
    return replace(catch, seed=first.seed, rule=first.rule, replay=first.replay)
