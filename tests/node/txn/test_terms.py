"""Members change under the ordered engine: a term ends, and the next begins with others."""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random

import pytest
from msgspec.structs import replace

from epoxy.codec.wire import encode_term_end
from epoxy.model.cluster import ClusterConfig, ReplicaInfo, first_epoch
from epoxy.model.instances import InTerm, TermEnd
from epoxy.model.messages import Reply, Request
from epoxy.model.transactions import Add, Executed, Txn, TxnOutcome, TxnRefused, TxnUnknown
from epoxy.node.txn import catchup as ordered_catchup
from epoxy.node.txn.engine import OrderedEngine
from epoxy.protocol.members.changes import promote, undo
from epoxy.protocol.members.effects import Span
from epoxy.protocol.txn import catchup
from epoxy.protocol.txn.terms import Part
from epoxy.store.memory import MemoryStore
from epoxy.store.txn_pages import ValueSpace
from epoxy_sim.world import Event, World

EVERYTHING = Span(after=None, through=None)
ONE = Txn(then=(Add(key=b"k", amount=1),))


class Bench:
    """Engines in virtual time; a message takes a millisecond if nothing else is said. Configurations and ends come from
    a register that does not fail, and only those who are not `away` hear of anything."""

    def __init__(self, *members: int) -> None:
        self.world = World()
        self.config = first_epoch(members)
        self.ends: dict[int, bytes] = {}
        self.away: set[int] = set()
        self.way_us = 1000
        self.dice = Random(7)
        self.nodes = {i: Node(self, i) for i in members}
        self.run(10)

    def run(self, virtual_ms: float) -> None:
        end_us = self.world.now_us + int(virtual_ms * 1000)
        self.world.after(end_us - self.world.now_us, lambda: None)
        self.world.run_until(lambda: self.world.now_us >= end_us, end_us)

    def add(self, home: int) -> TxnOutcome | None:
        told: list[TxnOutcome] = []
        self.nodes[home].engine.txn(ONE, told.append)
        self.run(3000)
        return told[0] if told else None

    def publish(self, config: ClusterConfig) -> None:
        self.config = config
        for node in self.nodes.values():
            if node.me not in self.away:
                node.engine.adopt(config)

    def begin(self, *members: int) -> None:
        """The joint epoch."""
        for i in members:
            self.nodes.setdefault(i, Node(self, i))
        new = tuple(ReplicaInfo(id=i) for i in sorted(members))
        previous = self.config.active
        self.publish(replace(self.config, epoch=self.config.epoch + 1, replicas=new, previous=previous))

    def copy(self, source: int, *newcomers: int) -> None:
        """What the membership does for them."""
        giver, term = self.nodes[source].engine.terms, self.config.term
        assert giver.is_complete(term)
        values = tuple(ValueSpace(source).held(self.nodes[source].store.newest(), None, None))
        for i in newcomers:
            taker = self.nodes[i]
            assert taker.engine.terms.needs_copy(term)
            taker.store.transact(partial(ValueSpace(i).replace, spans=(EVERYTHING,), pairs=values))
            taker.engine.terms.keep(tuple(giver.kept(None, 1000)))
            taker.engine.terms.install(term)
            assert taker.engine.terms.is_complete(term)

    def restart(self, *where: int) -> None:
        """These, or all of them."""
        for i in where or tuple(self.nodes):
            self.nodes[i].engine.stop()
            self.nodes[i] = Node(self, i, self.nodes[i].store)

    def come_back(self, i: int) -> None:
        self.away.discard(i)
        self.nodes[i].engine.adopt(self.config)

    def value(self, *where: int) -> set[bytes | None]:
        return {self.nodes[i].engine.held(b"k").value for i in where or self.nodes}

    def parts(self, *where: int) -> set[tuple[int, Part]]:
        replicas = [self.nodes[i].engine.replica for i in where]
        return {(replica.number, replica.part) for replica in replicas}


class Node:
    def __init__(self, bench: Bench, me: int, store: MemoryStore | None = None) -> None:
        self._bench = bench
        self.me = me
        self.store = store if store is not None else MemoryStore()
        self.engine = OrderedEngine(me, self.store, bench.config, self, self, self, self.alarm)
        self.engine.terms.decided_end = bench.ends.get
        self.engine.terms.decide_end = lambda term, value, done: done(bench.ends.setdefault(term, value))
        self.engine.start()

    def alarm(self, text: str) -> None:
        raise AssertionError(text)

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        def arrive() -> None:
            if not {self.me, to} & self._bench.away:
                (request,) = requests
                assert isinstance(request, InTerm)
                reply = self._bench.nodes[to].engine.handle(request)
                if answered is not None:
                    self._bench.world.after(self._bench.way_us, lambda: heard(reply))

        def heard(reply: Reply) -> None:
            if answered is not None and not {self.me, to} & self._bench.away:
                answered(reply)

        self._bench.world.after(self._bench.way_us, arrive)

    def now_ms(self) -> float:
        return self._bench.world.now_us / 1000

    def call_later(self, delay_ms: float, then: Callable[[], None]) -> Event:
        return self._bench.world.after(int(delay_ms * 1000), then)

    def uniform(self) -> float:
        return self._bench.dice.random()

    def nonce(self) -> int:
        return self._bench.dice.getrandbits(64)


def test_from_three_to_five_and_the_newcomers_order() -> None:
    bench = Bench(1, 2, 3)
    assert isinstance(bench.add(1), Executed)
    bench.begin(1, 2, 3, 4, 5)
    assert isinstance(bench.add(4), TxnRefused)
    assert bench.add(1) is None, "nothing is begun until the next term"
    assert bench.parts(1, 2, 3) == {(1, Part.WAITING)}
    assert bench.parts(4, 5) == {(0, Part.OUT)}
    bench.copy(2, 4, 5)
    bench.publish(promote(bench.config, 1))
    assert isinstance(bench.add(5), Executed)
    assert bench.parts(1, 2, 3, 4, 5) == {(1, Part.OPEN)}
    bench.run(20_000)
    assert bench.value() == {b"3"}, "the one that waited was executed, too"
    assert all(node.engine.replica.is_idle for node in bench.nodes.values())


def test_a_term_begins_with_the_first_slot_of_each_member() -> None:
    """Slots that were left out would have to be recovered, one by one, before anything is forgotten."""
    bench = Bench(1, 2, 3)
    for _ in range(3):
        assert isinstance(bench.add(1), Executed)
    assert bench.nodes[2].engine.replica.log.highest == {1: 3}
    bench.begin(1, 2, 3, 4)
    bench.run(5_000)
    bench.copy(2, 4)
    bench.publish(promote(bench.config, 1))
    for home in (1, 4):
        assert isinstance(bench.add(home), Executed)
    assert bench.parts(1, 2, 3, 4) == {(1, Part.OPEN)}
    assert bench.nodes[2].engine.replica.log.highest == {1: 1, 4: 1}


def test_all_restart_while_a_term_ends_in_which_nothing_was_ever_asked_for() -> None:
    bench = Bench(1, 2, 3)
    bench.begin(1, 2)
    assert bench.parts(1, 2, 3) == {(0, Part.CLOSING)}
    bench.restart()
    bench.run(5000)
    assert bench.parts(1, 2, 3) == {(1, Part.WAITING)}


def test_a_term_ends_also_among_members_slower_than_the_time_out() -> None:
    bench = Bench(1, 2, 3)
    bench.way_us = int(bench.nodes[1].engine.round_timeout_ms * 1000)
    bench.begin(1, 2)
    bench.run(20_000)
    assert bench.parts(1, 2, 3) == {(1, Part.WAITING)}


def test_two_stay_away_and_one_of_three_is_left_of_the_old_members() -> None:
    bench = Bench(1, 2, 3)
    bench.away.add(3)
    for _ in range(3):
        bench.add(1)
    bench.begin(3, 4, 5)
    bench.run(5000)
    bench.copy(1, 4, 5)
    bench.publish(promote(bench.config, 1))
    bench.away |= {1, 2}
    assert isinstance(bench.add(4), Executed)
    assert bench.value(3) == {None}
    bench.come_back(3)
    bench.run(20_000)
    assert bench.value(3, 4, 5) == {b"4"}, "newcomers tell what they were given for those who were away"
    assert isinstance(bench.add(3), Executed)
    bench.run(20_000)
    assert not any(bench.nodes[i].engine.replica.keeps_more for i in (3, 4, 5)), "nobody needs it any more"


def test_an_undone_change_ends_a_term_also_for_one_who_never_heard_of_it() -> None:
    """And with one of the two who did hear of it dead for good."""
    bench = Bench(1, 2, 3)
    bench.add(1)
    bench.away.add(3)
    bench.begin(1, 2, 3, 4)
    joint = bench.config
    bench.publish(undo(joint, {1, 2, 3}, 1))
    bench.away.add(2)
    bench.come_back(3)
    assert isinstance(bench.add(3), Executed)
    assert bench.parts(1, 3) == {(1, Part.OPEN)}
    assert bench.value(1, 3) == {b"2"}


def test_who_missed_two_changes_comes_through_both() -> None:
    bench = Bench(1, 2, 3)
    bench.add(3)
    bench.away.add(3)
    for members, newcomer in (((1, 2, 3, 4), 4), ((1, 2, 3, 4, 5), 5)):
        bench.add(1)
        bench.begin(*members)
        bench.run(5000)
        bench.copy(1, newcomer)
        bench.publish(promote(bench.config, 1))
    assert isinstance(bench.add(5), Executed)
    bench.come_back(3)
    assert isinstance(bench.add(3), Executed)
    assert bench.parts(1, 2, 3, 4, 5) == {(2, Part.OPEN)}
    bench.run(20_000)
    assert bench.value() == {b"5"}


def test_who_left_says_so_and_comes_back_as_one_who_is_new() -> None:
    bench = Bench(1, 2, 3)
    bench.add(3)
    bench.begin(1, 2)
    bench.run(5000)
    bench.publish(promote(bench.config, 1))
    bench.run(5000)
    assert isinstance(bench.add(3), TxnRefused)
    assert isinstance(bench.add(1), Executed)
    bench.begin(1, 2, 3)
    bench.run(5000)
    assert bench.value(3) == {b"1"}
    bench.copy(1, 3)
    bench.publish(promote(bench.config, 1))
    assert isinstance(bench.add(3), Executed)
    bench.run(20_000)
    assert bench.value() == {b"3"}


def removed_with_one_under_way(*, restarts: bool) -> tuple[Bench, list[TxnOutcome]]:
    """Replica 3 is cut from the others while one of its transactions is on its way; they decide and execute it, and
    remove it. Then it comes back as a member."""
    bench = Bench(1, 2, 3)
    told: list[TxnOutcome] = []
    bench.nodes[3].engine.txn(ONE, told.append)
    bench.run(1.5)
    bench.away.add(3)
    bench.run(20_000)
    assert bench.value(1, 2) == {b"1"}, "the others have decided it without its coordinator"
    if restarts:
        bench.restart(3)
    for members in ((1, 2), (1, 2, 3)):
        bench.begin(*members)
        if 3 in members:
            bench.come_back(3)
        bench.run(5000)
        if 3 in members:
            bench.copy(1, 3)
        bench.publish(promote(bench.config, 1))
        bench.run(5000)
    assert bench.parts(1, 2, 3) == {(2, Part.OPEN)}
    return bench, told


def test_what_was_under_way_when_a_member_was_removed_is_not_called_refused() -> None:
    """It was executed by the others: that its outcome is not known here is all that can be said."""
    bench, told = removed_with_one_under_way(restarts=False)
    assert [type(outcome) for outcome in told] == [TxnUnknown]
    assert isinstance(bench.add(3), Executed)
    bench.run(20_000)
    assert bench.value() == {b"2"}, "and not executed again in the term it came back to"


def test_a_flight_of_an_earlier_term_keeps_no_key_from_those_of_this_one() -> None:
    bench, _ = removed_with_one_under_way(restarts=True)
    assert isinstance(bench.add(3), Executed), "the same key as the one that was under way"
    bench.run(20_000)
    assert bench.value() == {b"2"}


def test_who_was_far_behind_when_it_was_removed_orders_at_once_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it missed came with the copy; nothing else is asked for, so nothing else tells it."""
    for module in (catchup, ordered_catchup):
        monkeypatch.setattr(module, "MAX_PAGE", 1)
    monkeypatch.setattr(ordered_catchup, "FAR_BEHIND", 3)
    monkeypatch.setattr(ordered_catchup, "NEARLY_THERE", 0)
    bench = Bench(1, 2, 3)
    bench.away.add(3)
    for _ in range(4):
        bench.add(1)
    catching = bench.nodes[3].engine.catchup
    bench.away.discard(3)
    bench.nodes[1].engine.txn(ONE, lambda _: None)
    assert bench.world.run_until(lambda: catching.is_far_behind, bench.world.now_us + 5_000_000)
    bench.away.add(3)
    for members in ((1, 2), (1, 2, 3)):
        bench.begin(*members)
        if 3 in members:
            bench.come_back(3)
        bench.run(5000)
        assert catching.is_far_behind
        if 3 in members:
            bench.copy(1, 3)
        bench.publish(promote(bench.config, 1))
    assert isinstance(bench.add(3), Executed)


def test_an_end_before_what_was_decided_is_an_alarm_and_changes_nothing() -> None:
    bench = Bench(1, 2, 3)
    bench.nodes[1].engine.txn(ONE, lambda _: None)
    bench.run(50)
    bench.ends[0] = encode_term_end(TermEnd(ends=()))
    bench.begin(1, 2)
    with pytest.raises(AssertionError, match="decided in a term that ended before it"):
        bench.run(1000)
    assert (0, Part.CLOSING) in bench.parts(1, 2, 3)
