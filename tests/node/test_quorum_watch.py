"""A node without a quorum says so at once, and never while a quorum answers."""

from collections.abc import Callable

import pytest

from epoxy.model.marks import OWNED
from epoxy.model.messages import Accept
from epoxy.model.transactions import Put, Txn, TxnOutcome, TxnRefused
from epoxy.model.writes import Committed, ConsensusFailed, Consistency, ReadFailed, Refused
from epoxy.node.quorum_watch import LOST_MS, NO_QUORUM, READ_WITHOUT_QUORUM, QuorumWatch
from epoxy.runtime.admission import Admission, Ticket
from epoxy_sim.patching import Patch, applied
from tests.node.bench import HandClock
from tests.node.service_bench import HandLinks, World
from tests.protocol.keys.harness import KEY, A, B, C, D, E, commit, config_of, prop

SILENT_MS = LOST_MS + 1


def watch_of(n: int = 5) -> tuple[QuorumWatch, HandLinks]:
    links = HandLinks()
    links.rtts = dict.fromkeys(range(2, n + 1), 1.0)
    return QuorumWatch(A, lambda: config_of(n), links), links


def cut_off(links: HandLinks, *peers: int) -> None:
    links.silences.update(dict.fromkeys(peers, SILENT_MS))
    links.silent.update(peers)


def healed(links: HandLinks) -> None:
    links.silences.clear()
    links.silent.clear()


def lost() -> World:
    world = World(3)
    world.links.rtts = {B: 1.0, C: 1.0}
    cut_off(world.links, B, C)
    world.links.ticked()
    return world


def test_a_quorum_is_lost_when_too_few_are_left() -> None:
    watch, links = watch_of()
    cut_off(links, B, C)
    assert not watch.look()
    cut_off(links, D)
    assert watch.look()
    assert watch.is_lost
    links.silences[C] = 0.0
    assert not watch.look(), "one answer is enough"
    assert not watch.is_lost


def test_a_link_that_has_just_broken_may_be_back_soon() -> None:
    watch, links = watch_of()
    cut_off(links, B, C, D, E)
    links.silences = dict.fromkeys((B, C, D, E), LOST_MS)
    assert not watch.look()


def test_a_peer_that_has_nothing_to_answer_is_not_silent() -> None:
    watch, links = watch_of()
    links.silences = dict.fromkeys((B, C, D, E), 10 * LOST_MS)
    assert not watch.look()
    links.waits = dict.fromkeys((B, C, D, E), SILENT_MS)
    assert watch.look(), "the connection stands, and no answer comes"
    links.waits[B] = links.waits[C] = 100.0
    assert not watch.look()


def test_in_a_joint_epoch_both_sides_count() -> None:
    links = HandLinks()
    links.rtts = dict.fromkeys((B, C, D, E), 1.0)
    watch = QuorumWatch(A, lambda: config_of(3, epoch=2, previous=(A, D, E)), links)
    assert not watch.look()
    cut_off(links, D)
    assert not watch.look()
    cut_off(links, E)
    assert watch.look()


def test_one_replica_alone_is_a_quorum() -> None:
    watch, _ = watch_of(1)
    assert not watch.look()


# The node


def test_what_was_not_put_forward_is_refused_definitely_and_at_once() -> None:
    world = lost()
    answers = list[TxnOutcome]()
    world.write()
    world.node.read(KEY, Consistency.LINEARIZABLE, world.reads.append)
    world.node.txn(Txn(then=(Put(key=b"t", value=b"1"),)), answers.append)
    assert world.outcomes == [NO_QUORUM]
    assert world.reads == [READ_WITHOUT_QUORUM]
    assert answers == [TxnRefused(reason=NO_QUORUM.reason, no_quorum=True)]
    assert world.links.sent == []
    assert world.node.refused["no_quorum"] == 3


def test_it_serves_at_once_when_links_return() -> None:
    world = lost()
    healed(world.links)
    world.write()
    world.disk.sync()
    world.accept(B)
    assert isinstance(world.outcomes[0], Committed)


def test_what_can_be_answered_here_is_answered() -> None:
    world = lost()
    world.learn(KEY)
    world.disk.sync()
    world.write()
    world.node.read(KEY, Consistency.LINEARIZABLE, world.reads.append)
    world.disk.sync()
    assert isinstance(world.outcomes[0], Committed)
    assert not world.outcomes[0].mine
    assert not isinstance(world.reads[0], ReadFailed | Refused)


def test_a_linearizable_read_of_a_key_of_transactions_is_refused_too() -> None:
    world = lost()
    world.node.replica.handle([commit(prop(OWNED, by=B))], lambda _: None)
    world.disk.sync()
    world.node.read(KEY, Consistency.LINEARIZABLE, world.reads.append)
    assert world.reads == [READ_WITHOUT_QUORUM]
    assert world.links.sent == []


def test_a_quorum_that_answers_is_never_taken_for_a_lost_one() -> None:
    world = World(5)
    world.links.rtts = dict.fromkeys((B, C, D, E), 1.0)
    cut_off(world.links, B, C)
    world.links.ticked()
    world.write()
    world.disk.sync()
    world.clock.advance(2 * LOST_MS)
    world.links.ticked()
    assert world.outcomes == []


def put_forward_then_lost() -> World:
    """One write was put forward, another one of the key waits behind it."""
    world = World(3)
    world.links.rtts = {B: 1.0, C: 1.0}
    world.write()
    world.write(value=b"another")
    world.node.read(b"r", Consistency.LINEARIZABLE, world.reads.append)
    world.disk.sync()
    assert any(isinstance(request, Accept) for each in world.links.sent for request in each.requests)
    world.clock.advance(LOST_MS - 1)
    cut_off(world.links, B, C)
    world.links.ticked()
    assert (world.outcomes, world.reads) == ([], []), "they have not waited long"
    world.clock.advance(1)
    world.links.ticked()
    return world


def judge(world: World) -> None:
    """Only what no replica can finish any more is refused for certain."""
    assert [type(outcome) for outcome in world.outcomes] == [ConsensusFailed, Refused]
    assert [type(outcome) for outcome in world.reads] == [ReadFailed]


def test_what_was_put_forward_is_answered_soon_and_stays_unknown() -> None:
    judge(put_forward_then_lost())


@pytest.mark.pure("plants a fault in the admission")
def test_a_refusal_of_what_was_put_forward_is_caught() -> None:
    answer_due: Callable[..., None] = Admission._answer_due

    def all_unbegun(admission: Admission[object], lane: dict[Ticket[object], float], now_ms: float) -> None:
        for ticket in lane:
            ticket.begun = False
        answer_due(admission, lane, now_ms)

    with applied((Patch(Admission, "_answer_due", all_unbegun),)):
        world = put_forward_then_lost()
    with pytest.raises(AssertionError):
        judge(world)


def test_those_that_are_given_up_are_told_once_and_count_until_they_end() -> None:
    clock, told = HandClock(), list[str]()
    pending = Admission(clock, 10, 10_000, "late")
    old = pending.begin(told.append)
    clock.advance(1000)
    pending.begin(told.append)
    pending.give_up(1000)
    assert (told, pending.count) == (["late"], 2)
    old("done")
    assert (told, pending.count) == (["late"], 1)
    clock.advance(10_000)
    assert told == ["late", "late"]
