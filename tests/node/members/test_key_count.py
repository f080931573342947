"""Keys are counted a step at a time, and not again while the number is fresh."""

from epoxy.model.cluster import first_epoch
from epoxy.model.messages import Commit
from epoxy.model.records import Proposal, ProposalId
from epoxy.node.keys.replica import Replica
from epoxy.node.members.key_count import FRESH_MS, STEP_MS, STEP_ROWS, KeyCount
from epoxy.store.memory import MemoryStore
from tests.node.bench import HandClock


class World:
    def __init__(self) -> None:
        self.clock, store = HandClock(), MemoryStore()
        self.replica = Replica(1, store, first_epoch((1,)), alarm=print)
        self.key_count = KeyCount(self.replica, store, self.clock)

    def hold(self, first: int, last: int) -> None:
        for number in range(first, last):
            proposal = Proposal(value=b"v", version=1, mutable=False, proposal_id=ProposalId(1, number))
            self.replica.handle([Commit(key=b"%05d" % number, epoch=1, proposal=proposal)], lambda _: None)


def test_a_few_keys_are_counted_at_once_and_many_in_steps() -> None:
    world = World()
    world.hold(0, STEP_ROWS + 5)
    world.key_count.renew()
    assert world.key_count.keys == 0, "a part of them is no number"
    world.clock.advance(STEP_MS)
    assert world.key_count.keys == STEP_ROWS + 5


def test_the_number_is_kept_for_a_while() -> None:
    world = World()
    world.clock.advance(3 * FRESH_MS)
    world.key_count.renew()
    world.hold(0, 3)
    world.key_count.renew()
    assert world.key_count.keys == 0
    world.clock.advance(FRESH_MS)
    world.key_count.renew()
    assert world.key_count.keys == 3


def test_one_count_at_a_time() -> None:
    world = World()
    world.hold(0, 2 * STEP_ROWS)
    world.key_count.renew()
    world.key_count.renew()
    for _ in range(3):
        world.clock.advance(STEP_MS)
    assert world.key_count.keys == 2 * STEP_ROWS
