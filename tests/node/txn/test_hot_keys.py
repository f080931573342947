"""Closed loops of clients on one key: what they make of commands, how often one round is enough, and who gets how much.

In virtual time, so what is counted here are messages and turns, whatever the machine does."""

import pytest
from msgspec.structs import replace

from epoxy.model.transactions import Add, Executed, Txn, TxnOutcome
from epoxy.model.writes import Path
from epoxy.node.txn.submission import Submissions
from epoxy.protocol.txn.queue import Queue
from tests.node.txn.test_engine import Cluster

VIRTUAL_MS = 200


class HotKey:
    """`clients` at each of these nodes, each of which adds to the key again as soon as it is answered."""

    def __init__(self, homes: tuple[int, ...], clients: int, turn_ms: float) -> None:
        self.cluster = Cluster()
        self.answers: dict[int, list[int]] = {home: [] for home in homes}
        self.is_over = False
        for node in self.cluster.nodes.values():
            node.engine.timing = replace(node.engine.timing, turn_ms=turn_ms)
        for home in homes * clients:
            self._ask(home)
        self.cluster.run(VIRTUAL_MS)
        self.is_over = True
        self.cluster.run(VIRTUAL_MS)

    def _ask(self, home: int) -> None:
        def answered(outcome: TxnOutcome) -> None:
            assert isinstance(outcome, Executed)
            self.answers[home].append(int(outcome.done[0].value or b""))
            if not self.is_over:
                self.cluster.world.after(self.cluster.dice.randrange(900), lambda: self._ask(home))

        self.cluster.nodes[home].engine.txn(Txn(then=(Add(key=b"hot", amount=1),)), answered)

    @property
    def total(self) -> int:
        return sum(map(len, self.answers.values()))

    @property
    def least_share(self) -> float:
        return min(map(len, self.answers.values())) * len(self.answers) / self.total

    @property
    def commands(self) -> int:
        return sum(node.engine.paths.total() for node in self.cluster.nodes.values())

    @property
    def fast_share(self) -> float:
        return sum(node.engine.paths[Path.FAST] for node in self.cluster.nodes.values()) / self.commands


@pytest.mark.parametrize("homes", [(1,), (2, 3), (1, 2, 3)])
def test_clients_of_one_key_share_commands_and_none_is_starved(homes: tuple[int, ...]) -> None:
    hot = HotKey(homes, clients=8, turn_ms=25.0)
    sums = [each for answers in hot.answers.values() for each in answers]
    assert sorted(sums) == list(range(1, hot.total + 1)), "each is executed once"
    assert hot.total / hot.commands > 5
    assert hot.fast_share > 0.9
    assert hot.least_share > 0.9


def test_without_turns_coordinators_propose_at_the_same_moment() -> None:
    together, in_turn = (HotKey((1, 2, 3), 8, turn_ms) for turn_ms in (0.0, 25.0))
    assert together.fast_share < 0.5
    assert in_turn.total > together.total * 1.2
    assert together.least_share > 0.8


@pytest.mark.pure("plants a fault")
def test_without_gathering_half_of_the_clients_wait_for_the_other_half(monkeypatch: pytest.MonkeyPatch) -> None:
    gathered = HotKey((1, 2, 3), 8, 0.0)
    monkeypatch.setattr(Queue, "gather", lambda *_: None)
    at_once = HotKey((1, 2, 3), 8, 0.0)
    assert gathered.total > at_once.total * 1.3
    assert gathered.commands < at_once.commands


@pytest.mark.pure("plants a fault")
def test_without_the_news_of_a_rival_each_turn_waits_for_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    noticed = HotKey((1, 2, 3), 8, 25.0)
    monkeypatch.setattr(Submissions, "noticed", lambda *_: None)
    assert HotKey((1, 2, 3), 8, 25.0).total < noticed.total * 0.9
