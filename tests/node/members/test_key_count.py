"""Keys are counted a step at a time, and not again while the number is fresh; commits are added to it."""

from msgspec.structs import replace

from epoxy.model.cluster import CONFIG_KEY, first_epoch
from epoxy.model.messages import Commit
from epoxy.model.records import Proposal, ProposalId
from epoxy.node.keys.replica import Replica
from epoxy.node.members import config_record
from epoxy.node.members.key_count import FRESH_MS, STEP_MS, STEP_ROWS, KeyCount
from epoxy.store.memory import MemoryStore
from tests.node.bench import HandClock


class World:
    def __init__(self) -> None:
        self.clock, store = HandClock(), MemoryStore()
        self.replica = Replica(1, store, first_epoch((1,)), alarm=print)
        self.key_count = KeyCount(self.replica, store, self.clock)

    def hold(self, first: int, last: int, version: int = 1) -> None:
        for number in range(first, last):
            proposal = Proposal(value=b"v", version=version, mutable=True, proposal_id=ProposalId(1, number))
            self.replica.handle([Commit(key=b"%05d" % number, epoch=1, proposal=proposal)], lambda _: None)

    def step(self) -> None:
        self.clock.advance(STEP_MS)


def a_proposal() -> Proposal:
    config = config_record.to_proposal(first_epoch((1,)))
    return replace(config, version=2)


def test_a_few_keys_are_counted_at_once_and_many_in_steps() -> None:
    world = World()
    world.hold(0, STEP_ROWS + 5)
    world.key_count.renew()
    assert world.key_count.keys == 0, "a part of them is no number"
    world.clock.advance(STEP_MS)
    assert world.key_count.keys == STEP_ROWS + 5


def test_commits_are_added_to_a_number_that_is_known() -> None:
    world = World()
    world.hold(0, 3)
    assert not world.key_count.is_known
    world.key_count.begin()
    assert (world.key_count.is_known, world.key_count.keys) == (True, 3)
    world.hold(2, 5)
    world.hold(0, 5, version=2)
    assert world.key_count.keys == 5, "another version of a key is no other key"
    world.replica.handle([Commit(key=CONFIG_KEY, epoch=1, proposal=a_proposal())], lambda _: None)
    assert world.key_count.keys == 5, "the cluster's own keys are not counted"


def test_commits_during_a_count_are_counted_once() -> None:
    """Behind the step that was made they are added; before it they are found."""
    world = World()
    world.hold(1, 2 * STEP_ROWS + 1)
    world.key_count.begin()
    world.hold(0, 1)
    world.hold(2 * STEP_ROWS + 1, 2 * STEP_ROWS + 8)
    for _ in range(3):
        world.step()
    assert world.key_count.keys == 2 * STEP_ROWS + 8


def test_what_other_nodes_of_the_datacenter_commit_is_found_after_a_while() -> None:
    world = World()
    world.clock.advance(3 * FRESH_MS)
    world.key_count.renew()
    world.replica.short_watchers.remove((world.key_count._committed, world.key_count._committed_plain))
    world.hold(0, 3)
    world.key_count.renew()
    assert world.key_count.keys == 0
    world.clock.advance(FRESH_MS)
    world.key_count.begin()
    assert world.key_count.keys == 0, "a scrape of metrics counts once and no more"
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
