"""Accepts that leave before the own vote is durable, and what the next start asks for."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from epoxy.model.ballot import NO_BALLOT, Ballot, fast_ballot
from epoxy.model.cluster import CONFIG_KEY, ClusterConfig
from epoxy.model.members import FastVotesRead, MemberReply, Unsettled, UnsettledPage
from epoxy.model.messages import Accept, AcceptOk, Commit, Failed, Prepare, Read, ReadOk
from epoxy.node.members import config_record
from epoxy.node.members.early_accepts import AGAIN_MS, LONGEST_MS, EarlyAccepts, may_be_early
from epoxy.node.members.member import fast_votes
from epoxy.store.member_rows import MemberSpace
from tests.node.bench import Node
from tests.node.keys.driver_bench import kinds
from tests.protocol.keys.harness import KEY, A, B, C, config_of, prop

NOTHING = UnsettledPage(keys=(), more=False)
OTHER = b"other"


class Mark:
    def __init__(self, *, is_marked: bool = False, refuses: bool = False) -> None:
        self.is_marked = is_marked
        self.refuses = refuses

    def mark(self) -> bool:
        self.is_marked = not self.refuses
        return self.is_marked

    def unmark(self) -> None:
        if self.refuses:
            raise OSError
        self.is_marked = False


class World:
    """A node whose peers answer when a test says so."""

    def __init__(self, mark: Mark, config: ClusterConfig | None = None) -> None:
        self.node = Node(config=config)
        self.mark = mark
        self.asked: list[tuple[int, FastVotesRead, Callable[[MemberReply], None]]] = []
        self.early = EarlyAccepts(self.node.driver, self.node.store, mark, self._ask)
        self.early.start()

    def _ask(self, to: int, request: FastVotesRead, answered: Callable[[MemberReply], None]) -> None:
        assert request.proposer == A
        self.asked.append((to, request, answered))

    def answer(self, reply: MemberReply = NOTHING, *peers: int) -> None:
        """Of these peers, or of all."""
        asked, self.asked = self.asked, []
        for to, request, answered in asked:
            if not peers or to in peers:
                answered(reply)
            else:
                self.asked.append((to, request, answered))

    @property
    def peers(self) -> list[int]:
        return [to for to, _, _ in self.asked]

    def adopt(self, config: ClusterConfig) -> None:
        self.node.handle(Commit(key=CONFIG_KEY, epoch=1, proposal=config_record.to_proposal(config)))

    def promised(self, key: bytes) -> Ballot:
        return self.node.replica.state(key).promised


def sure() -> World:
    world = World(Mark())
    world.answer()
    world.node.disk.sync()
    return world


def test_accepts_leave_before_the_vote_is_durable_and_the_commit_waits() -> None:
    world = sure()
    node = world.node
    assert world.mark.is_marked
    node.write()
    accepts = node.transport.take()
    assert kinds(accepts) == {B: [Accept], C: [Accept]}
    assert not node.disk.flushes, "the vote begins no sync"
    accepts[C].answer(AcceptOk())
    assert (node.outcomes, node.transport.sent) == ([], [])
    node.disk.sync_once()
    assert len(node.outcomes) == 1, "one sync for both"
    assert kinds(node.transport.take()) == {B: [Commit], C: [Commit]}


def test_a_vote_that_nothing_follows_is_synced_after_a_while() -> None:
    node = sure().node
    node.write()
    assert node.store.pending == 1
    node.disk.sync()
    assert node.store.pending == 0


@pytest.mark.parametrize("silent", [B, C])
def test_nothing_leaves_early_before_both_others_have_answered(silent: int) -> None:
    world = World(Mark())
    world.answer(NOTHING, B + C - silent)
    world.node.disk.sync()
    assert not world.mark.is_marked
    world.node.write()
    assert world.node.transport.sent == [], "not before the vote is durable"
    world.node.disk.sync()
    assert kinds(world.node.transport.take()) == {B: [Accept], C: [Accept]}, "the fast round is open all the same"


def test_a_disk_that_refuses_the_mark_keeps_accepts_back() -> None:
    told: list[str] = []
    world = World(Mark(refuses=True))
    world.early.notice = told.append
    world.answer()
    world.node.disk.sync()
    assert not world.node.replica.early
    world.node.clock.advance(LONGEST_MS)
    world.node.disk.sync()
    assert ["cannot be marked" in words for words in told] == [True], "once"
    world.mark.refuses = False
    world.node.clock.advance(LONGEST_MS)
    world.node.disk.sync()
    assert world.node.replica.early


@pytest.mark.parametrize(
    ("config", "expected"),
    [(config_of(3), True), (config_of(4), False), (config_of(5), False), (config_of(3, previous=(1, 2, 3)), False)],
)
def test_only_three_voters_may_be_early(config: ClusterConfig, expected: bool) -> None:
    assert may_be_early(config, A) is expected
    assert not may_be_early(config, 9), "a replica that does not vote"


def test_a_start_with_more_voters_asks_nobody_unless_it_is_forgetful() -> None:
    assert World(Mark(), config_of(5)).peers == []
    world = World(Mark(is_marked=True), config_of(5))
    assert world.peers == [2, 3, 4, 5]
    assert world.early.waits_for == [2, 3, 4, 5]


def test_a_forgetful_start_goes_by_classic_rounds() -> None:
    world = World(Mark(is_marked=True))
    world.answer(NOTHING, B)
    assert world.early.waits_for == [C]
    world.node.write()
    world.node.disk.sync()
    assert kinds(world.node.transport.take()) == {B: [Prepare], C: [Prepare]}
    world.answer()
    world.node.disk.sync()
    assert world.early.waits_for == []
    world.node.write(key=OTHER)
    assert kinds(world.node.transport.take()) == {B: [Accept], C: [Accept]}


def test_a_forgetful_start_promises_a_ballot_where_others_hold_votes_for_its_proposals() -> None:
    world = World(Mark(is_marked=True))
    world.answer(UnsettledPage(keys=(Unsettled(key=KEY, version=1),), more=True), B)
    assert [(to, request.after) for to, request, _ in world.asked] == [(B, KEY), (C, None)], "the next page"
    assert world.promised(KEY) == Ballot(2, A)
    assert world.promised(OTHER) == NO_BALLOT


def test_what_is_known_here_is_left_as_it_is() -> None:
    world = World(Mark(is_marked=True))
    decided, voted = prop(b"v", mutable=True), prop(b"w", by=A)
    world.node.handle(Commit(key=KEY, epoch=1, proposal=decided))
    world.node.handle(Accept(key=OTHER, epoch=1, ballot=fast_ballot(B), proposal=voted))
    keys = (Unsettled(key=KEY, version=1), Unsettled(key=OTHER, version=1))
    world.answer(UnsettledPage(keys=keys, more=False))
    assert (world.promised(KEY), world.promised(OTHER)) == (NO_BALLOT, NO_BALLOT)


def test_a_base_that_is_not_known_here_is_learned_first() -> None:
    world = World(Mark(is_marked=True))
    base = prop(b"v", mutable=True, by=C)
    world.answer(UnsettledPage(keys=(Unsettled(key=KEY, version=2),), more=False), B)
    assert B in world.peers or world.promised(KEY) == NO_BALLOT
    reads = world.node.transport.take()
    assert kinds(reads) == {B: [Read], C: [Read]}
    world.node.disk.sync()
    reads[C].answer(ReadOk(committed=base, vote=None))
    world.node.disk.sync()
    assert world.node.replica.version(KEY) == 1
    assert world.promised(KEY) == Ballot(2, A)


def test_a_peer_that_does_not_answer_is_asked_again_ever_less_often() -> None:
    world = World(Mark())
    world.answer(Failed(reason="unreachable"))
    assert world.peers == []
    pauses_ms = []
    for _ in range(10):
        before_ms = world.node.clock.now
        while not world.asked:
            world.node.clock.advance(AGAIN_MS)
        pauses_ms.append(world.node.clock.now - before_ms)
        world.answer(Failed(reason="unreachable"))
    assert pauses_ms[0] == AGAIN_MS
    assert pauses_ms[-1] == LONGEST_MS
    assert pauses_ms == sorted(pauses_ms)


def test_a_new_epoch_is_durable_before_accepts_leave_early_in_it() -> None:
    world = sure()
    world.adopt(replace(world.node.replica.config, epoch=2))
    assert not world.node.replica.early
    world.node.clock.advance(0)
    assert not world.node.replica.early
    world.node.disk.sync()
    assert world.node.replica.early
    assert world.asked == [], "the others have answered this start"


def test_accepts_wait_again_in_a_joint_epoch() -> None:
    world = sure()
    world.adopt(replace(world.node.replica.config, epoch=2, previous=(1, 2, 3)))
    world.node.clock.advance(0)
    world.node.disk.sync()
    assert not world.node.replica.early


@pytest.mark.parametrize("refuses", [False, True])
def test_a_peer_of_another_release_is_asked_again_and_a_crash_meanwhile_forgets_nothing(refuses: bool) -> None:
    world = sure()
    world.mark.refuses = refuses
    world.node.write()
    world.early.other_release(B)
    assert not world.node.replica.early
    assert world.mark.is_marked, "a vote that left early is not durable yet"
    world.node.disk.sync()
    assert world.mark.is_marked is refuses
    world.node.clock.advance(0)
    assert world.peers == [B]
    world.mark.refuses = False
    world.answer()
    world.node.disk.sync()
    assert (world.node.replica.early, world.mark.is_marked) == (True, True)


def test_an_answer_that_comes_before_the_votes_are_durable_keeps_the_mark() -> None:
    world = sure()
    world.node.write()
    world.early.other_release(B)
    world.node.clock.advance(0)
    world.answer()
    world.node.disk.sync()
    assert (world.node.replica.early, world.mark.is_marked) == (True, True)


def test_an_end_in_order_is_clean_once_all_votes_are_durable() -> None:
    world = sure()
    world.node.write()
    world.early.end()
    assert not world.early.is_clean
    world.node.write(key=OTHER)
    accepts = [each for each in world.node.transport.sent if each.requests[0].key == OTHER]  # type: ignore[union-attr]
    assert accepts == [], "from here on Accepts wait"
    world.node.disk.sync()
    assert world.early.is_clean


def test_a_forgetful_start_does_not_end_clean() -> None:
    world = World(Mark(is_marked=True))
    world.early.end()
    world.node.disk.sync()
    assert not world.early.is_clean


def test_several_processes_of_one_replica_do_not_answer() -> None:
    node = Node()
    space = MemberSpace(node.replica.keyspace, A)
    request = FastVotesRead(proposer=B, after=None)
    assert fast_votes(node.store, space, request) == NOTHING
    node.store.loads_ahead = True
    assert isinstance(fast_votes(node.store, space, request), Failed)
