"""In which order decisions are told to a replica that missed them, and how many at a time."""

from collections.abc import Iterable, Iterator, Sequence
from random import Random

import pytest

from epoxy.model.cluster import first_epoch
from epoxy.model.instances import (
    MAX_PAGE,
    MAX_PAGE_BYTES,
    NOTHING,
    Catchup,
    Deps,
    Instance,
    InstanceId,
    Missed,
    Noted,
    OrderedCommit,
    Waiting,
)
from epoxy.node.txn.replica import OrderedReplica
from epoxy.protocol.txn.catchup import dependencies_first, known_after, page_of
from epoxy.protocol.txn.log import InstanceLog
from epoxy.store.memory import MemoryStore
from tests.protocol.txn.cluster import write

CONFIG = first_epoch((1, 2, 3))


def named(*ids: tuple[int, int]) -> Deps:
    return Deps(also=tuple(sorted(InstanceId(*each) for each in ids)))


def commit(replica: int, slot: int, deps: Deps = NOTHING, *, nop: bool = False, size: int = 1) -> OrderedCommit:
    return OrderedCommit(id=InstanceId(replica, slot), command=None if nop else write(b"k", bytes(size)), deps=deps)


def streams_of(commits: Iterable[OrderedCommit]) -> dict[int, Iterator[OrderedCommit]]:
    by_replica: dict[int, list[OrderedCommit]] = {}
    for each in sorted(commits, key=lambda each: each.id):
        by_replica.setdefault(each.id.replica_id, []).append(each)
    return {replica: iter(stream) for replica, stream in by_replica.items()}


def merged(*commits: OrderedCommit, known: dict[int, int] | None = None) -> list[InstanceId]:
    return [each.id for each in dependencies_first(streams_of(commits), known or {})]


def history(count: int, seed: int = 7) -> list[OrderedCommit]:
    """In the order in which they were executed: each depends on everything that somebody had executed a moment ago, a
    stretch for each replica, as coordinators say it."""
    dice = Random(seed)
    slots = dict.fromkeys((1, 2, 3), 0)
    made: list[OrderedCommit] = []
    seen: list[dict[int, int]] = [dict(slots)]
    for _ in range(count):
        home = dice.choice((1, 2, 3))
        floors = seen[max(0, len(seen) - 1 - dice.randrange(3))]
        deps = Deps(upto=tuple(InstanceId(replica, slot) for replica, slot in floors.items() if slot))
        slots[home] += 1
        made.append(commit(home, slots[home], deps))
        seen.append(dict(slots))
    return made


@pytest.mark.parametrize("seed", range(5))
def test_what_is_depended_on_comes_first(seed: int) -> None:
    told = list(dependencies_first(streams_of(history(200, seed)), {}))
    assert len(told) == 200
    sent: set[InstanceId] = set()
    for each in told:
        for end in each.deps.upto:
            assert InstanceId(end.replica_id, end.slot) in sent, each
        sent.add(each.id)


def test_what_is_known_or_not_held_is_not_waited_for() -> None:
    first = commit(1, 2, named((2, 1), (3, 9)))
    assert merged(first, commit(2, 2, named((1, 2))), known={1: 1, 2: 1}) == [first.id, InstanceId(2, 2)]


def test_a_circle_comes_in_one_piece_and_ends() -> None:
    circle = [commit(1, 1, named((2, 1))), commit(2, 1, named((3, 1))), commit(3, 1, named((1, 1)))]
    after = commit(1, 2, named((1, 1), (2, 1), (3, 1)))
    told = merged(after, *circle)
    assert sorted(told[:3]) == [each.id for each in circle]
    assert told[3:] == [after.id]


def test_nothing_depends_on_nothing() -> None:
    """What became a Nop has no dependencies that count."""
    assert merged(commit(1, 1, named((2, 1)), nop=True), commit(2, 1)) == [InstanceId(1, 1), InstanceId(2, 1)]


def test_a_page_ends_with_a_number_or_with_a_size_and_says_whether_there_are_more() -> None:
    few = [commit(1, slot) for slot in range(1, MAX_PAGE + 1)]
    assert page_of(few) == (tuple(few), False)
    assert page_of([*few, commit(1, MAX_PAGE + 1)]) == (tuple(few), True)
    large = [commit(1, slot, size=MAX_PAGE_BYTES) for slot in (1, 2)]
    assert page_of(large) == ((large[0],), True)
    assert page_of([]) == ((), False)


def test_what_is_known_after_a_page() -> None:
    known = (InstanceId(1, 4), InstanceId(2, 1))
    assert known_after(known, [commit(1, 5), commit(3, 1), commit(1, 6)]) == (
        InstanceId(1, 6),
        InstanceId(2, 1),
        InstanceId(3, 1),
    )


# At a replica


class CountedLog(InstanceLog):
    """How often somebody looks at an instance, or at what one depends on."""

    looks = 0

    def get(self, instance_id: InstanceId) -> Instance:
        self.looks += 1
        return super().get(instance_id)

    def unexecuted(self, deps: Deps) -> Iterator[InstanceId]:
        for each in super().unexecuted(deps):
            self.looks += 1
            yield each


class Learner:
    """A replica that missed everything; others take their turns as often as it asks for that."""

    def __init__(self) -> None:
        self.replica = OrderedReplica(3, MemoryStore(), CONFIG)
        self.log = self.replica.log = CountedLog()
        self.backlog = 0
        self.replica.on_backlog = self._more

    def _more(self) -> None:
        self.backlog += 1

    def learn(self, commits: Iterable[OrderedCommit]) -> None:
        for each in commits:
            self.replica.handle(each)
            while self.backlog:
                self.backlog = 0
                self.replica.execute_some()


def teacher(made: Sequence[OrderedCommit]) -> OrderedReplica:
    replica = OrderedReplica(1, MemoryStore(), CONFIG)
    for each in made:
        replica.handle(each)
    return replica


def pages(source: OrderedReplica, learner: Learner) -> list[Missed]:
    """Asks until there are no more."""
    told: list[Missed] = []
    while not told or told[-1].more:
        log = learner.replica.log
        reply = source.handle(Catchup(sender=3, executed=log.floors(), known=log.known()))
        assert isinstance(reply, Missed)
        told.append(reply)
        learner.learn(reply.commits)
    return told


def test_pages_go_on_where_the_one_before_ended_until_nothing_is_left() -> None:
    made = history(2 * MAX_PAGE + 10)
    source, learner = teacher(made), Learner()
    told = pages(source, learner)
    assert [(len(each.commits), each.more) for each in told] == [(MAX_PAGE, True), (MAX_PAGE, True), (10, False)]
    ids = [each.id for page in told for each in page.commits]
    assert sorted(ids) == sorted(each.id for each in made), "each once"
    assert learner.log.floors() == source.log.floors() == told[-1].executed
    (nothing,) = pages(source, learner)
    assert (nothing.commits, nothing.more) == ((), False)


def test_a_page_holds_nothing_beyond_a_gap_and_nothing_that_was_forgotten() -> None:
    source = teacher([commit(2, 1), commit(2, 2), commit(2, 4)])
    reply = source.handle(Catchup(sender=3, executed=(), known=(InstanceId(2, 1),)))
    assert isinstance(reply, Missed)
    assert [each.id for each in reply.commits] == [InstanceId(2, 2)]
    assert reply.executed == (InstanceId(2, 2),), "without gaps"
    for sender in (2, 3):
        source.reached(sender, (InstanceId(2, 1),))
    assert source.forget() == 1
    reply = source.handle(Catchup(sender=3, executed=(InstanceId(2, 1),), known=()))
    assert isinstance(reply, Missed)
    assert [each.id for each in reply.commits] == [InstanceId(2, 2)]


def work(missed: int, live: int) -> int:
    """Of one that learns what it missed after it has heard of what was decided since."""
    made = history(missed + live)
    source, learner = teacher(made), Learner()
    learner.learn(made[missed:])
    assert learner.log.floors() == (), "everything waits for what was missed"
    told = pages(source, learner)
    assert learner.log.floors() == source.log.floors()
    assert sum(len(each.commits) for each in told) >= missed
    return learner.log.looks


@pytest.mark.parametrize("share", [0, 4])
def test_catching_up_takes_work_in_proportion_to_what_was_missed(share: int) -> None:
    """Four times as much: it was sixteen times the work, and minutes on a busy day."""
    assert work(2000, 2000 * share // 10) < 5 * work(500, 500 * share // 10)


def test_others_have_their_turn_while_much_is_executed() -> None:
    made = history(500)
    learner = Learner()
    turns: list[int] = []
    learner.replica.on_backlog = lambda: turns.append(len(learner.log.beyond))
    for each in [*made[1:], made[0]]:
        learner.replica.handle(each)
    count = 0
    while len(turns) > count:
        count = len(turns)
        learner.replica.execute_some()
    assert count > 5
    assert sum(end.slot for end in learner.log.floors()) == 500


def test_what_a_recoverer_waits_for_is_noted_once_and_only_while_it_matters() -> None:
    replica = OrderedReplica(1, MemoryStore(), CONFIG)
    news: list[InstanceId] = []
    replica.on_news = news.append
    waited = InstanceId(2, 1)
    for count, known in ((2, 2), (1, 2), (2, 2), (3, 3)):
        assert isinstance(replica.handle(Waiting(id=waited, count=count)), Noted)
        assert replica.log.waiting == {waited: known}
    assert news == [waited, waited], "told when there is more to know"
    replica.handle(commit(2, 1))
    assert replica.log.waiting == {}
    news.clear()
    assert isinstance(replica.handle(Waiting(id=waited, count=9)), Noted)
    assert (replica.log.waiting, news) == ({}, [])
