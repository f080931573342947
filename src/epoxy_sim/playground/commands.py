"""What the page asks for: one JSON object in, one out. The page's worker calls `answer` and no other function."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from epoxy.model.quorum import quorums
from epoxy_sim.playground import chase
from epoxy_sim.playground.actions import BadStep
from epoxy_sim.playground.cards import proposal_words, vote_words
from epoxy_sim.playground.rules import FINDINGS, MUTANTS, RULES
from epoxy_sim.playground.stories import STORIES
from epoxy_sim.playground.table import MAX_STEPS, HandTable, Settings, play_on, replay
from epoxy_sim.trace_format import NAMES, say

MAX_PLAYED_ON = 60
"""Messages that one press of "deliver all" delivers: a race among five has about forty."""

Request = Mapping[str, Any]


class Playground:
    """Holds the table between two requests."""

    def __init__(self) -> None:
        self._table = HandTable(Settings())
        self._asked: dict[str, Callable[[Request], object]] = {
            "known": lambda _: {"rules": plain(RULES), "stories": plain(STORIES), "findings": FINDINGS},
            "run": self._run,
            "shrink": self._shrink,
            "open": self._open,
            "step": self._step,
            "play on": self._play_on,
            "back": self._back,
        }

    def answer(self, text: str) -> str:
        """`{"ok": ...}`, or `{"error": words}` for what cannot be done."""
        request = json.loads(text)
        try:
            asked = self._asked.get(request.get("do", ""))
            if asked is None:
                raise BadStep(f"the playground does not know {request.get('do')!r}")
            return json.dumps({"ok": asked(request)})
        except BadStep as bad:
            return json.dumps({"error": str(bad)})

    def _run(self, request: Request) -> object:
        return plain(chase.run_seed(seed_of(request), **choices_of(request)))

    def _shrink(self, request: Request) -> object:
        return plain(chase.shortest(seed_of(request), **choices_of(request)))

    def _open(self, request: Request) -> object:
        """A new table, or that of a link."""
        steps = request.get("steps") or []
        if len(steps) > MAX_STEPS:
            raise BadStep(f"a session has at most {MAX_STEPS} steps")
        settings = Settings(n=request.get("n", 3), seed=seed_of(request), mutant=request.get("mutant"))
        self._table = replay(settings, steps)
        return view(self._table)

    def _step(self, request: Request) -> object:
        self._table.do(str(request.get("step")))
        return view(self._table)

    def _play_on(self, _: Request) -> object:
        play_on(self._table, MAX_PLAYED_ON)
        return view(self._table)

    def _back(self, _: Request) -> object:
        steps = [told.action for told in self._table.told[:-1]]
        self._table = replay(self._table.settings, steps)
        return view(self._table)


def seed_of(request: Request) -> int:
    seed = request.get("seed")
    if not isinstance(seed, int) or not 0 <= seed <= chase.MAX_SEED:
        raise BadStep(f"a seed is a number from 0 to {chase.MAX_SEED:,}")
    return seed


def choices_of(request: Request) -> dict[str, str | None]:
    workload, mutant = request.get("workload"), request.get("mutant")
    if workload is not None and workload not in chase.WORKLOADS:
        raise BadStep(f"no workload is called {workload!r}")
    if mutant is not None and mutant not in MUTANTS:
        raise BadStep(f"no broken rule is called {mutant!r}")
    return {"workload": workload, "mutant": mutant}


def view(table: HandTable) -> dict[str, object]:
    """All that the page shows of a table."""
    sizes = quorums(table.settings.n)
    return {
        "n": table.settings.n,
        "seed": table.settings.seed,
        "mutant": table.settings.mutant,
        "fast": sizes.fast,
        "slow": sizes.slow,
        "ms": table.world.now_us / 1000,
        "steps": [told.action for told in table.told],
        "told": [plain(told) for told in table.told],
        "failure": plain(table.failure),
        "replicas": [replica(table, at) for at in range(table.settings.n)],
        "messages": [
            {"number": held.number, "from": NAMES[held.sender], "to": NAMES[held.to], **asdict(held.card)}
            for held in table.network.held.values()
        ],
        "delivered": (
            {"from": NAMES[table.delivered.sender], "to": NAMES[table.delivered.to], **asdict(table.delivered.card)}
            if table.delivered is not None
            else None
        ),
    }


def replica(table: HandTable, at: int) -> dict[str, object]:
    """One column. `changed`: fields that the last step changed."""
    machine, client = table.machines[at], table.clients[at]
    before, after = table.before[at], table.states()[at]
    life = machine.life
    return {
        "name": machine.name,
        "up": life is not None,
        "votes": life is not None and life.votes,
        "committed": proposal_words(after.committed) if after.committed is not None else None,
        "promised": say(after.promised) if after.promised.is_classic else None,
        "vote": vote_words(after.vote) if after.vote is not None else None,
        "changed": [
            field for field in ("committed", "promised", "vote") if getattr(before, field) != getattr(after, field)
        ],
        "waits": client.waits_for,
        "told": client.told,
    }


def plain(record: object) -> object:
    """A record as JSON has it."""
    if isinstance(record, Struct):
        return {name: plain(value) for name, value in asdict(record).items()}
    return [plain(each) for each in record] if isinstance(record, tuple | list) else record
