"""Stories told by chance: whatever happens, one instance has one value, and what was acknowledged is read.

The same world as in the files, moved by a seed: every message may be lost, doubled or overtaken, every replica may
crash, every timer may ring. The simulator does this at length, with disks and clocks; here the net is small enough to
run with the other tests, and a failure prints the commands of a scenario.
"""

import random
from collections.abc import Callable, Iterator

import pytest

from epoxy.model.errors import InvariantViolation
from epoxy.model.writes import Committed, Outcome, ReadOutcome, ReadResult, Source
from epoxy.protocol.keys import acceptor, local, reader, recovery
from tests.scenarios.flow_table import Running
from tests.scenarios.script import Stage
from tests.scenarios.table import ScenarioError
from tests.scenarios.world import World

SEEDS = range(300)
"""Every planted fault below is found within these; without faults they take a few seconds."""

SIZES = (3, 3, 4, 5, 7)


class Clients:
    """Compare what they are told. `floor` is the newest version anybody was told of when a flow began."""

    def __init__(self) -> None:
        self.mine: list[int] = []
        self._newest = 0
        self._floor: dict[Running, int] = {}

    def asked(self, running: Running) -> None:
        self._floor[running] = self._newest

    def answered(self, running: Running, outcome: Outcome | ReadOutcome) -> None:
        match outcome:
            case Committed(mine=True):
                version = outcome.proposal.version
                assert version not in self.mine, "two clients were told that one version is theirs"
                assert version > self._floor[running], "a write was put below one that was acknowledged before"
                self.mine.append(version)
            case ReadResult(source=Source.QUORUM):
                version = outcome.committed.version if outcome.committed is not None else 0
                assert version >= self._floor[running], "an acknowledged write was not read"
            case _:
                return
        self._newest = max(self._newest, version)


def moves(world: World, dice: random.Random, names: str) -> Iterator[str]:
    """A story: clients and trouble now and then, and otherwise some message that is on its way."""
    immutable = dice.random() < 0.4
    loss, trouble = dice.choice((0.0, 0.05, 0.2)), dice.choice((0.0, 0.01, 0.03))
    for _ in range(dice.choice((40, 80, 160))):
        who, draw = dice.choice(names), dice.random()
        busy = world.busy_links()
        if draw < 0.1:
            yield write(dice, who, immutable=immutable)
        elif draw < 0.14:
            yield f"read {who} linearizable"
        elif draw < 0.18:
            yield f"timer {who}"
        elif draw < 0.18 + trouble:
            yield f"{dice.choice(('crash', 'restart', 'restart'))} {who}"
        elif busy:
            yield message(world, dice, dice.choice(busy), loss)
    yield from all_well(names)


def write(dice: random.Random, who: str, *, immutable: bool) -> str:
    value = dice.choice("abc")
    if immutable:
        return f"propose {who} {value}"
    return dice.choice([f"put {who} {value}", f"put {who} {value} if={dice.randrange(4)}", f"delete {who}"])


def message(world: World, dice: random.Random, link: tuple[int, int], loss: float) -> str:
    sender, to = (chr(ord("A") + replica_id - 1) for replica_id in link)
    nth = dice.randrange(len(world.links[link])) + 1 if dice.random() < 0.3 else 1
    verb = "drop" if dice.random() < loss else "duplicate" if dice.random() < 0.03 else "deliver"
    return f"{verb} {sender}->{to} {nth}"


def all_well(names: str) -> Iterator[str]:
    """Everybody is up, everything arrives, and every flow may use all its retries."""
    yield from (f"restart {name}" for name in names)
    for _ in range(30):
        yield "run"
        yield from (f"timer {name}" for name in names)


def tell(seed: int) -> Clients:
    """One story. What makes no sense at its point of the story does not happen."""
    dice = random.Random(seed)
    n = dice.choice(SIZES)
    stage, clients, told = Stage(), Clients(), [f"cluster n={n}"]
    stage.lines_of((told[0],))
    stage.world.witness = clients
    try:
        for command in moves(stage.world, dice, "ABCDEFG"[:n]):
            told.append(command)
            attempt(stage, command)
    except (AssertionError, InvariantViolation) as error:
        raise AssertionError(f"seed {seed}: {error}\n" + "\n".join(told)) from error
    left = [replica.id for replica in stage.world.replicas.values() if replica.running]
    assert left == [], f"seed {seed}: clients without an answer at {left}"
    return clients


def attempt(stage: Stage, command: str) -> None:
    try:
        stage.lines_of((command,))
    except ScenarioError:
        return


def test_every_story_keeps_its_values() -> None:
    acknowledged = [len(tell(seed).mine) for seed in SEEDS]
    assert sum(acknowledged) > 2 * len(SEEDS), "stories in which nothing happens prove nothing"


def always(answer: object) -> Callable[..., object]:
    return lambda *_: answer


FAULTS = {
    "the commit does not look at the promise": (local, "promised_since", always(False), "two values"),
    "two votes in the fast round": (acceptor, "refuse_fast", always(None), "two values"),
    "a recovery forgets the fast round": (recovery, "potential", always(0), "two values|was not read"),
    "a read does not finish what is in flight": (reader, "in_flight", always(False), "was not read"),
    "nobody is behind": (acceptor, "missed_a_commit", always(None), "KeyState"),
}


def tell_all() -> None:
    for seed in SEEDS:
        tell(seed)


@pytest.mark.pure("plants faults in the rules")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_spoils_a_story(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    room, rule, broken, complaint = FAULTS[fault]
    monkeypatch.setattr(room, rule, broken)
    with pytest.raises(AssertionError, match=complaint):
        tell_all()
