"""Transactions on their way into commands, and what becomes of a command whose flow ends."""

from functools import partial

import pytest

from epoxy.model.cluster import first_epoch
from epoxy.model.instances import Command, Deps, InstanceId, OrderedCommit, PreAccept
from epoxy.model.transactions import Add, Executed, Put, Txn, TxnOutcome, TxnRefused, TxnUnknown
from epoxy.model.writes import Path
from epoxy.node.txn.replica import OrderedReplica
from epoxy.node.txn.submission import FAILED, GATHER_MS, LEFT, Submissions
from epoxy.protocol.txn.coordinator import Abandoned, CommandDecided, TooMuch
from epoxy.protocol.txn.effects import Begin, FinishFast, TxnTiming
from epoxy.store.memory import MemoryStore
from tests.node.bench import HandClock

ADD = Txn(then=(Add(key=b"k", amount=1),))
DONE = Executed(succeeded=True, done=())


class Host:
    """An engine whose flows are ended by hand."""

    def __init__(self, me: int = 1) -> None:
        self.clock, self.timing, self.store = HandClock(), TxnTiming(), MemoryStore()
        self.replica = OrderedReplica(me, self.store, first_epoch((1, 2, 3)))
        self.is_open = True
        self.commands: dict[InstanceId, Command] = {}
        self.rescued: list[InstanceId] = []
        self.told: list[TxnOutcome] = []
        self.submissions = Submissions(self, self.store)
        self.replica.on_executed = lambda instance_id, results: self.submissions.executed(instance_id, results)

    def submit(self, instance_id: InstanceId, command: Command) -> None:
        self.commands[instance_id] = command

    def rescue(self, ids: tuple[InstanceId, ...]) -> None:
        self.rescued += ids

    def ask(self, txn: Txn = ADD) -> None:
        self.submissions.add(txn, self.told.append)
        self.clock.advance(0)

    def execute(self, instance_id: InstanceId) -> None:
        """As its flow does on the fast path."""
        self.replica.perform(FinishFast(id=instance_id))

    def hold(self, instance_id: InstanceId) -> None:
        """As its flow does first."""
        self.replica.perform(Begin(id=instance_id, command=self.commands[instance_id]))

    @property
    def slots(self) -> list[int]:
        return [each.slot for each in self.commands]


FIRST = InstanceId(1, 1)


def test_transactions_that_come_together_are_one_command() -> None:
    host = Host()
    for key in (b"a", b"b"):
        host.submissions.add(Txn(then=(Put(key=key, value=b"v"),)), host.told.append)
    assert host.commands == {}
    host.clock.advance(0)
    assert [len(command.txns) for command in host.commands.values()] == [2]


def test_nothing_is_proposed_while_the_replica_is_not_open() -> None:
    host = Host()
    host.is_open = False
    host.ask()
    assert host.commands == {}
    host.is_open = True
    host.submissions.pump_soon()
    host.clock.advance(0)
    assert host.slots == [1]


def test_an_executed_command_answers_when_it_is_durable_and_lets_the_next_go() -> None:
    synced: list[object] = []
    host = Host()
    host.submissions._store = MemoryStore(synced.append)
    host.ask()
    host.ask()
    assert host.slots == [1], "the second interferes with the first"
    host.submissions.ended(FIRST, CommandDecided(Path.FAST))
    assert host.told == []
    host.submissions.executed(FIRST, [DONE])
    host.clock.advance(0)
    assert host.slots == [1, 2]


def test_a_nop_is_proposed_again_under_another_id() -> None:
    host = Host()
    host.ask()
    host.submissions.executed(FIRST, None)
    host.clock.advance(host.timing.backoff_ms)
    host.clock.advance(0)
    assert host.slots == [1, 2]
    host.submissions.executed(InstanceId(1, 2), [DONE])
    assert host.told == [DONE]


def test_a_command_that_was_given_up_stays_in_flight() -> None:
    """It may still be decided."""
    host = Host()
    host.ask()
    host.submissions.ended(FIRST, Abandoned())
    host.clock.advance(10_000)
    assert (host.slots, host.told) == ([1], [])
    assert list(host.submissions.flights) == [FIRST]


def test_a_replica_that_is_too_far_behind_pauses_and_uses_the_slot_again() -> None:
    host = Host()
    host.ask()
    host.submissions.ended(FIRST, TooMuch())
    host.submissions.pump_soon()
    host.clock.advance(0)
    assert host.slots == [1]
    host.commands.clear()
    host.clock.advance(host.timing.backoff_ms)
    host.clock.advance(0)
    assert host.slots == [1]


def test_a_flow_that_raised_before_anything_was_held_refuses_its_transactions() -> None:
    host = Host()
    host.ask()
    host.submissions.ended(FIRST, None)
    assert host.told == [FAILED]
    host.ask()
    assert host.slots == [1, 2], "the key is free"


def test_a_flow_that_raised_later_is_recovered() -> None:
    host = Host()
    host.ask()
    host.hold(FIRST)
    host.submissions.ended(FIRST, None)
    host.clock.advance(0)
    assert (host.told, host.rescued) == ([], [FIRST])


def test_what_was_held_before_a_crash_counts_as_in_flight() -> None:
    host = Host()
    host.ask()
    host.hold(FIRST)
    again = Submissions(host, host.store)
    again.restore()
    assert again.next_slot == 2
    again.add(ADD, host.told.append)
    host.clock.advance(0)
    assert host.slots == [1], "it interferes with what is in flight"


def test_a_turn_queues_again_what_was_not_begun() -> None:
    host = Host()
    host.ask()
    host.submissions.turned(is_member=True)
    assert host.submissions.flights == {}
    assert len(host.submissions.queue) == 1


def test_a_replica_that_left_tells_what_it_knows() -> None:
    host = Host()
    host.ask()
    host.hold(FIRST)
    host.ask()
    host.submissions.turned(is_member=False)
    assert [type(outcome) for outcome in host.told] == [TxnUnknown, TxnRefused]
    assert host.told[0] == LEFT
    assert not host.submissions.flights


def test_a_flight_of_the_next_term_is_not_given_up_at_another_turn_in_it() -> None:
    host = Host()
    host.ask()
    host.hold(FIRST)
    host.replica.arrive(1)
    host.submissions.turned(is_member=True)
    assert host.told == [LEFT]
    host.ask()
    host.submissions.turned(is_member=True)
    assert host.told == [LEFT]
    assert len(host.submissions.queue) == 1, "it was not begun, so it is proposed again"


def test_a_client_that_withdraws_is_never_proposed() -> None:
    host = Host()
    ticket = host.submissions.add(ADD, host.told.append)
    assert host.submissions.queue.withdraw(ticket)
    partial(host.clock.advance, 0)()
    assert host.commands == {}


def sums(told: list[TxnOutcome]) -> list[bytes | None]:
    return [each.done[0].value for each in told if isinstance(each, Executed)]


def crowd_of(host: Host, count: int) -> None:
    """So many in one command, which is executed after 100 ms."""
    for _ in range(count):
        host.submissions.add(ADD, host.told.append)
    host.clock.advance(0)
    host.hold(FIRST)
    host.clock.advance(100)
    host.execute(FIRST)


def test_each_transaction_of_a_command_has_its_own_answer_in_the_order_of_execution() -> None:
    host = Host()
    crowd_of(host, 3)
    assert sums(host.told) == [b"1", b"2", b"3"]
    assert host.submissions.executed_total == 3


def test_all_that_were_answered_make_one_command_again() -> None:
    host = Host()
    crowd_of(host, 3)
    host.ask()
    host.ask()
    assert host.slots == [1]
    host.ask()
    assert [len(command.txns) for command in host.commands.values()] == [3, 3]


def test_clients_that_do_not_come_back_are_not_waited_for_long() -> None:
    host = Host()
    crowd_of(host, 3)
    host.ask()
    host.clock.advance(GATHER_MS - 1)
    assert host.slots == [1]
    host.clock.advance(1)
    host.clock.advance(0)
    assert host.slots == [1, 2]


def rival_of(host: Host) -> None:
    """Replica 2 has proposed a command for the same key before, which is still under way; this replica is the third."""
    command = Command(txns=(ADD,))
    host.replica.handle(PreAccept(id=InstanceId(2, 1), command=command, deps=Deps()))


@pytest.mark.parametrize(("turn_ms", "waits"), [(0.0, False), (25.0, True)])
def test_a_replica_waits_for_its_turn_only_among_near_ones(turn_ms: float, waits: bool) -> None:
    host = Host(me=3)
    host.timing = TxnTiming(turn_ms=turn_ms)
    rival_of(host)
    host.ask()
    mine = InstanceId(3, 1)
    host.hold(mine)
    host.clock.advance(100)
    host.execute(mine)
    host.replica.handle(OrderedCommit(id=InstanceId(2, 1), command=Command(txns=(ADD,)), deps=Deps()))
    host.ask()
    assert host.slots == ([1] if waits else [1, 2])
    host.clock.advance(turn_ms)
    host.clock.advance(0)
    assert host.slots == [1, 2], "not for ever"


def test_a_turn_comes_when_the_rival_has_proposed() -> None:
    host = Host(me=3)
    host.timing = TxnTiming(turn_ms=25.0)
    rival_of(host)
    host.ask()
    mine = InstanceId(3, 1)
    host.hold(mine)
    host.clock.advance(100)
    host.execute(mine)
    host.replica.handle(OrderedCommit(id=InstanceId(2, 1), command=Command(txns=(ADD,)), deps=Deps()))
    host.ask()
    following = PreAccept(id=InstanceId(2, 2), command=Command(txns=(ADD,)), deps=Deps(also=(mine,)))
    host.replica.handle(following)
    host.submissions.noticed(following.id)
    host.clock.advance(0)
    assert host.slots == [1, 2]


def test_all_transactions_of_a_nop_are_proposed_again() -> None:
    host = Host()
    host.submissions.add(ADD, host.told.append)
    host.submissions.add(ADD, host.told.append)
    host.clock.advance(0)
    host.submissions.executed(FIRST, None)
    host.clock.advance(host.timing.backoff_ms)
    host.clock.advance(0)
    assert [len(command.txns) for command in host.commands.values()] == [2, 2]
