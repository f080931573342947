"""A deterministic world with lost messages and one replica away: everything acknowledged before a backup began is held
by the node that makes it, and transactions are executed there. Each rule is shown by what is missing without it."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import pytest

from epoxy.model.cluster import ClusterConfig
from epoxy.model.errors import RottenRow
from epoxy.model.members import ActorRow
from epoxy.model.messages import Commit, Request
from epoxy.model.transactions import Add, Executed, OrderedValue, Txn, TxnOutcome
from epoxy.model.writes import Committed, Outcome, Write
from epoxy.node.backup.gathering import IN_MEMORY, ActorSpool, Gathering
from epoxy.ports import Snapshot, StoreCut
from epoxy.protocol.members import gather
from epoxy.protocol.members.effects import Flow
from epoxy.protocol.members.gather import GatherOutcome
from epoxy.protocol.members.learner import sources_in_order
from tests.node.members.town import Town

SEEDS = range(8)


class Story:
    """Random writes in 3 to 5 replicas, of which one is lost right before the backup."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(seed)
        self.members = list(range(1, self.dice.randrange(3, 6) + 1))
        self.town = Town(self.members, seed)
        self.acknowledged: dict[bytes, int] = {}
        self.me = self.dice.choice(self.members)
        self.write_all(10, patience_ms=200)
        self.town.loses = self.loses
        self.write_all(30, patience_ms=self.dice.choice((4, 10, 60)))
        self.gone = self.dice.choice([each for each in self.members if each != self.me])
        self.town.kill(self.gone)
        self.town.loses = lambda _sender, _to, requests: isinstance(requests[-1], Commit)

    def loses(self, _sender: int, _to: int, requests: Sequence[Request]) -> bool:
        share = 0.9 if isinstance(requests[-1], Commit) else 0.1
        return self.dice.random() < share

    def write_all(self, count: int, patience_ms: float) -> None:
        for number in range(count):
            key = b"k%d" % self.dice.randrange(20) if number % 2 else b"n%d" % self.dice.getrandbits(32)
            write = Write(key=key, value=b"%d" % number, mutable=bool(number % 2))
            home = self.dice.choice(self.members)
            self.town.lives[home].node.write(write, partial(self.answered, key))
        self.town.run(patience_ms)

    def answered(self, key: bytes, outcome: Outcome) -> None:
        if isinstance(outcome, Committed):
            version = outcome.proposal.version
            self.acknowledged[key] = max(self.acknowledged.get(key, 0), version)

    def lost(self) -> dict[bytes, int]:
        """Make the part of a backup that gathers keys, then cut: what was acknowledged before and is not in the cut."""
        life = self.town.lives[self.me]
        assert life.node.member is not None
        before = dict(self.acknowledged)
        outcomes: list[GatherOutcome] = []
        Gathering(life.node.member, self.town.stores[self.me]).keys(outcomes.append)
        self.town.until(lambda: bool(outcomes), "gathered")
        assert not outcomes[0].reason, outcomes
        assert self.gone in outcomes[0].missing
        return missing_in(self.cut(), before, life.node.replica.keyspace.committed)

    def cut(self) -> StoreCut:
        cuts: list[StoreCut] = []
        self.town.stores[self.me].cut(cuts.append)
        return cuts[0]


def missing_in(cut: StoreCut, before: dict[bytes, int], committed: Callable[..., object]) -> dict[bytes, int]:
    def judge(view: Snapshot) -> dict[bytes, int]:
        held = {key: committed(view, key) for key in before}
        return {key: version for key, version in before.items() if getattr(held[key], "version", 0) < version}

    found: list[dict[bytes, int]] = []
    cut.read(judge, found.append, lambda error: pytest.fail(str(error)))
    return found[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_every_acknowledged_write_is_there(seed: int) -> None:
    story = Story(seed)
    assert len(story.acknowledged) >= 10
    assert story.lost() == {}


def losses() -> bool:
    return any(Story(seed).lost() for seed in SEEDS)


def test_votes_that_are_not_settled_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsettled(_config: ClusterConfig, _source: int) -> Flow[bool]:
        yield from ()
        return True

    monkeypatch.setattr(gather, "settle_votes", unsettled)
    assert losses()


def test_votes_of_this_replica_alone_are_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """In three, one other is enough; in five it is not."""
    monkeypatch.setattr(gather, "sources_in_order", lambda voters, me: sources_in_order(voters, me)[:2])
    monkeypatch.setattr(gather, "covers", lambda _config, _asked: True)
    assert losses()


def test_commits_that_are_not_compared_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unseen(sources: Sequence[int]) -> Flow[set[int]]:
        yield from ()
        return set(sources)

    monkeypatch.setattr(gather, "learn_held", unseen)
    assert losses()


def test_a_cut_before_settling_misses_writes() -> None:
    def early(seed: int) -> dict[bytes, int]:
        story = Story(seed)
        return missing_in(story.cut(), story.acknowledged, story.town.lives[story.me].node.replica.keyspace.committed)

    assert any(early(seed) for seed in SEEDS)


def test_too_few_members_are_named() -> None:
    town = Town((1, 2, 3))
    member = town.lives[1].node.member
    assert member is not None
    for each in (2, 3):
        town.kill(each)
    outcomes: list[GatherOutcome] = []
    Gathering(member, town.stores[1]).keys(outcomes.append)
    town.until(lambda: bool(outcomes), "refused")
    assert outcomes[0].reason.startswith("dc-2 (replica 2) and dc-3 (replica 3) do not answer")
    assert outcomes[0].reason.endswith("a backup needs 2 of 3 members")


def test_one_node_alone_has_everything() -> None:
    town = Town((1,))
    member = town.lives[1].node.member
    assert member is not None
    outcomes: list[GatherOutcome] = []
    gathering = Gathering(member, town.stores[1])
    gathering.keys(outcomes.append)
    town.until(lambda: bool(outcomes), "gathered")
    assert outcomes == [GatherOutcome(asked=(1,))]


def test_a_rotten_row_here_ends_it_and_elsewhere_leaves_that_member_out(monkeypatch: pytest.MonkeyPatch) -> None:
    town = Town((1, 2, 3))
    lives = {me: town.lives[me].node.member for me in (1, 2, 3)}
    assert all(lives.values())

    def rotten(*_: object) -> None:
        raise RottenRow(b"row")

    other = lives[2]
    assert other is not None
    monkeypatch.setattr(other.backup_source.held, "page", rotten)
    member = lives[1]
    assert member is not None
    outcomes: list[GatherOutcome] = []
    Gathering(member, town.stores[1]).keys(outcomes.append)
    town.until(lambda: len(outcomes) == 1, "gathered")
    assert outcomes[0] == GatherOutcome(asked=(1, 3), missing=(2,))
    gathering = Gathering(member, town.stores[1])
    monkeypatch.setattr(gathering._held, "stretches", rotten)
    gathering.keys(outcomes.append)
    town.until(lambda: len(outcomes) == 2, "given up")
    assert "it is repaired from the other members: try again" in outcomes[1].reason


# Transactions


def transfer(a: int, b: int) -> Txn:
    return Txn(then=(Add(key=b"acct/%d" % a, amount=-1), Add(key=b"acct/%d" % b, amount=1)))


ACCOUNTS = [b"acct/%d" % each for each in range(6)]


def balances(
    cut: StoreCut, held: Callable[[Snapshot, bytes], OrderedValue], keys: Sequence[bytes] = ACCOUNTS
) -> list[int]:
    found: list[list[int]] = []
    cut.read(
        lambda view: [int(held(view, key).value or 0) for key in keys],
        found.append,
        lambda error: pytest.fail(str(error)),
    )
    return found[0]


def test_sums_are_right_in_every_backup_under_load() -> None:
    """And each transfer that was answered before is in it: marks on a key of their own count them."""
    town = Town((1, 2, 3))
    dice = Random(3)
    answered = 0

    def done(outcome: TxnOutcome) -> None:
        nonlocal answered
        answered += isinstance(outcome, Executed)

    for number in range(12):
        for _ in range(10):
            a, b = dice.sample(range(6), 2)
            txn = transfer(a, b)
            counted = Txn(then=(*txn.then, Add(key=b"count", amount=1)))
            town.lives[dice.choice((1, 2, 3))].node.txn(counted, done)
        town.run(dice.choice((1, 3, 9)))
        me = dice.choice((1, 2, 3))
        node = town.lives[me].node
        assert node.member is not None
        before = answered
        reasons: list[str] = []
        Gathering(node.member, town.stores[me]).transactions(reasons.append)
        town.until(partial(bool, reasons), f"executed, {number}")
        assert reasons == [""]
        cuts: list[StoreCut] = []
        town.stores[me].cut(cuts.append)
        space = node.ordered.replica.space
        assert sum(balances(cuts[0], space.held)) == 0
        assert balances(cuts[0], space.held, [b"count"])[0] >= before
    assert answered > 60


def answered_without_one() -> Town:
    """A transaction that replicas 2 and 3 decide, and 2 answers; then 2 is away. Replica 1 has heard of nothing."""
    town = Town((1, 2, 3))
    town.loses = lambda _sender, to, _requests: to == 1
    told: list[TxnOutcome] = []
    town.lives[2].node.txn(Txn(then=(Add(key=b"acct/1", amount=5),)), told.append)
    town.until(lambda: bool(told), "answered")
    assert isinstance(told[0], Executed)
    town.kill(2)
    town.loses = lambda _sender, _to, _requests: False
    return town


def executed_at_one(town: Town) -> bytes | None:
    node = town.lives[1].node
    assert node.member is not None
    reasons: list[str] = []
    Gathering(node.member, town.stores[1]).transactions(reasons.append)
    town.until(lambda: bool(reasons), "executed")
    assert reasons == [""]
    return node.ordered.held(b"acct/1").value


def test_an_answered_transaction_is_executed_here_though_its_coordinator_is_away() -> None:
    assert executed_at_one(answered_without_one()) == b"5"


def test_without_the_slots_of_others_it_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "furthest", lambda _: ())
    assert executed_at_one(answered_without_one()) is None


# Actors


def test_rows_of_actors_are_spooled_to_disk_when_they_are_many() -> None:
    spool = ActorSpool()
    rows = tuple(ActorRow(b"%d" % number, bytes(1 << 19)) for number in range(3))
    for _ in range(2):
        spool.add(2, rows, begins=True)
    for _ in range(IN_MEMORY >> 20):
        spool.add(2, rows, begins=False)
    spool.add(3, rows[:1], begins=True)
    spool.add(4, rows, begins=True)
    spool.drop(4)
    assert (spool.sources, spool.pages(2), spool.pages(3)) == ((2, 3), 1 + (IN_MEMORY >> 20), 1)
    assert spool.page(2, 1) == rows
    assert spool.page(3, 0) == rows[:1]
    spool.close()
