"""Small worlds, completely visited; the same worlds with one rule broken, which must be found out; and production's own
flows, which must not reach a state that was not visited."""

import random
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from epoxy.model import quorum, records
from epoxy.model.ballot import FIRST_CLASSIC_COUNTER, Ballot
from epoxy.model.cluster import ClusterConfig
from epoxy.model.messages import Accept, HigherBallot, KeyRequest, Prepare, PrepareOk, Reply, Request
from epoxy.model.quorum import QuorumPolicy, Quorums
from epoxy.model.records import FRESH, KeyState, Proposal, Vote
from epoxy.model.writes import Outcome, Write
from epoxy.protocol.effects import Also, Answer, Context, Expired, Local, Next, Open, Pause, Tell, Timing
from epoxy.protocol.keys import acceptor, local, operations, recovery
from epoxy.protocol.keys.effects import Effect, Flow
from epoxy.protocol.keys.operations import LocalOp
from epoxy.protocol.keys.proposer import propose
from epoxy_sim.keys.exhaustive import COLUMN_MASK, SmallWorld, Tables, explore

THREE = (1, 2, 3)

COMPLETE = [
    (SmallWorld(n=3, recoveries=0), 20, 30, 4),
    (SmallWorld(n=3, recoveries=1), 488, 1_194, 10),
    (SmallWorld(n=3, recoveries=2), 10_715, 34_114, 16),
    (SmallWorld(n=3, recoveries=2, commits=True), 14_928, 51_251, 17),
    (SmallWorld(n=3, recoveries=2, restarts=1), 39_899, 143_237, 17),
    (SmallWorld(n=3, recoveries=2, readers=(3,)), 28_565, 85_244, 16),
    (SmallWorld(n=3, proposers=THREE, recoveries=2), 63_875, 195_216, 16),
    (SmallWorld(n=3, proposers=THREE, recoveries=2, restarts=1), 245_609, 880_530, 17),
    (SmallWorld(n=3, recoveries=2, versions=2, commits=True), 34_968, 126_238, 22),
    (SmallWorld(n=3, proposers=THREE, recoveries=1, versions=2, commits=True), 19_637, 54_864, 20),
    (SmallWorld(n=4, recoveries=2), 37_979, 146_345, 20),
    (SmallWorld(n=4, proposers=THREE, recoveries=1), 6_896, 21_171, 13),
    (SmallWorld(n=5, recoveries=1, restarts=1), 13_771, 69_344, 15),
    (SmallWorld(n=5, recoveries=2), 272_293, 1_634_106, 22),
    (SmallWorld(n=5, proposers=THREE, recoveries=1), 46_523, 205_227, 15),
]
"""World, states, transitions, depth. A change of a number is a change of the protocol, or of what is explored."""

COMPLETE_WITH_LARGER_FAST_QUORUMS = [
    (SmallWorld(n=3, proposers=THREE, recoveries=2, policy=QuorumPolicy.FAST_PAXOS), 49_580, 155_538, 16),
    (SmallWorld(n=4, recoveries=2, policy=QuorumPolicy.FAST_PAXOS), 37_979, 146_345, 20),
    (SmallWorld(n=5, recoveries=1, policy=QuorumPolicy.FAST_PAXOS), 3_987, 17_796, 15),
]


@pytest.mark.parametrize(("world", "states", "transitions", "depth"), COMPLETE + COMPLETE_WITH_LARGER_FAST_QUORUMS)
def test_every_state_keeps_the_promises(world: SmallWorld, states: int, transitions: int, depth: int) -> None:
    found = explore(world)
    assert found.violation is None, str(found.violation)
    assert found.complete
    assert (found.states, found.transitions, found.depth) == (states, transitions, depth)


def test_a_limit_cuts_off_without_claiming_completeness() -> None:
    found = explore(SmallWorld(n=3, recoveries=2), limit_states=1_000)
    assert not found.complete
    assert found.violation is None
    assert 1_000 <= found.states < 10_715
    assert str(found).startswith("cut off: ")


def test_sorting_the_bystanders_loses_nothing() -> None:
    world = SmallWorld(n=5, recoveries=1)
    unsorted_tables, sorted_tables = Tables(world), Tables(world)
    everything = {canonical_columns(world, columns) for columns in visited(unsorted_tables, lambda state: state)}
    assert everything == {canonical_columns(world, c) for c in visited(sorted_tables, sorted_tables.canonical)}


def visited(tables: Tables, canonical: Callable[[int], int]) -> list[tuple[KeyState, ...]]:
    """The replicas' states in every reachable state of a world."""
    frontier = [tables.first()]
    seen = set(frontier)
    while frontier:
        after = {canonical(after) for state in frontier for after, _ in tables.steps(state)}
        frontier = list(after - seen)
        seen |= after
    return [tuple(tables.by_number[(s >> shift) & COLUMN_MASK].state for shift in tables.shifts) for s in seen]


def canonical_columns(world: SmallWorld, columns: tuple[KeyState, ...]) -> tuple[KeyState, ...]:
    flows = len(world.homes)
    return columns[:flows] + tuple(sorted(columns[flows:], key=str))


# Planted faults


def unassert(patch: pytest.MonkeyPatch) -> None:
    """Production asserts much of this itself; the faults below must be found without that help."""
    patch.setattr(records, "assert_well_formed", lambda *_: None)
    patch.setattr(quorum, "assert_quorums_meet", lambda *_: None)


def no_commit_guard(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(local, "promised_since", lambda *_: False)


def proposer_not_excluded(patch: pytest.MonkeyPatch) -> None:
    def candidates(fast: list[Vote], _: recovery.Promises) -> list[int]:
        return sorted(recovery.proposers(fast))

    patch.setattr(recovery, "candidates", candidates)


def rivals_not_subtracted(patch: pytest.MonkeyPatch) -> None:
    def potential(proposer: int, fast: list[Vote], promises: recovery.Promises, config: ClusterConfig) -> int:
        return sum(v.ballot.replica_id == proposer for v in fast) + len(config.active) - len(promises)

    patch.setattr(recovery, "potential", potential)


def recover_highest_ballot(patch: pytest.MonkeyPatch) -> None:
    def choose(promises: recovery.Promises, _: ClusterConfig) -> Proposal | None:
        votes = [v for v in promises.values() if v is not None]
        return max(votes, key=lambda v: v.ballot).proposal if votes else None

    patch.setattr(recovery, "choose", choose)


def recover_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "choose", lambda *_: None)


def two_fast_votes(patch: pytest.MonkeyPatch) -> None:
    def refuse_fast(state: KeyState, _: Accept) -> HigherBallot | None:
        return HigherBallot(ballot=state.promised) if state.promised.is_classic else None

    patch.setattr(acceptor, "refuse_fast", refuse_fast)


def fast_vote_after_promise(patch: pytest.MonkeyPatch) -> None:
    def refuse_fast(state: KeyState, message: Accept) -> HigherBallot | None:
        other = state.vote is not None and state.vote != acceptor.vote_for(message)
        return HigherBallot(ballot=state.promised) if other else None

    patch.setattr(acceptor, "refuse_fast", refuse_fast)


def promise_falls(patch: pytest.MonkeyPatch) -> None:
    def prepare(state: KeyState, message: Prepare) -> acceptor.Step:
        return acceptor.promise(state, message), PrepareOk(vote=state.vote)

    patch.setattr(acceptor, "prepare", prepare)


def promise_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(acceptor, "refuse_classic", lambda *_: None)


def fast_quorum_too_small(patch: pytest.MonkeyPatch) -> None:
    def quorums(config: ClusterConfig) -> Quorums:
        right = quorum.quorums(len(config.active), config.quorum_policy)
        return replace(right, fast=right.fast - 1)

    patch.setattr(ClusterConfig, "quorums", property(quorums))


def vote_after_send(patch: pytest.MonkeyPatch) -> None:
    """The Accepts leave, and the own vote never becomes durable."""
    right = local.select

    def select(state: KeyState, op: operations.Select, config: ClusterConfig) -> tuple[KeyState, operations.Selected]:
        after, result = right(state, op, config)
        return (state if isinstance(result, operations.FastVote) else after), result

    patch.setattr(local, "select", select)


def ballot_used_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(local, "next_classic", lambda me, *_, **__: Ballot(FIRST_CLASSIC_COUNTER, me))


def no_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(acceptor, "missed_a_commit", lambda *_: None)


def late_commit_clears_vote(patch: pytest.MonkeyPatch) -> None:
    right = acceptor.learn

    def learn(state: KeyState, proposal: Proposal) -> acceptor.Step:
        after, reply = right(state, proposal)
        return KeyState(committed=after.committed, lineage=after.lineage), reply

    patch.setattr(acceptor, "learn", learn)


AMBIGUOUS = "two proposals cannot both reach a fast quorum"
TWO_VALUES = "two values decided"

FAULTS = [
    (no_commit_guard, SmallWorld(n=3), TWO_VALUES, 9),
    (no_commit_guard, SmallWorld(n=5), TWO_VALUES, 12),
    (proposer_not_excluded, SmallWorld(n=3), AMBIGUOUS, 5),
    (proposer_not_excluded, SmallWorld(n=5), AMBIGUOUS, 6),
    (rivals_not_subtracted, SmallWorld(n=5, proposers=THREE), AMBIGUOUS, 8),
    (recover_highest_ballot, SmallWorld(n=3), TWO_VALUES, 10),
    (recover_nothing, SmallWorld(n=3), TWO_VALUES, 9),
    (recover_nothing, SmallWorld(n=3, proposers=(1,), readers=(2,)), "B reads nothing after a was decided", 6),
    (two_fast_votes, SmallWorld(n=3, recoveries=0), "A votes twice in the fast round", 3),
    (two_fast_votes, SmallWorld(n=3, recoveries=0, invariants=False), TWO_VALUES, 6),
    (fast_vote_after_promise, SmallWorld(n=3, proposers=THREE, recoveries=1), TWO_VALUES, 10),
    (promise_falls, SmallWorld(n=3, recoveries=2), "the promise of B falls", 5),
    (promise_falls, SmallWorld(n=3, recoveries=2, invariants=False), TWO_VALUES, 14),
    (promise_not_kept, SmallWorld(n=3, recoveries=2), "the promise of A falls", 6),
    (promise_not_kept, SmallWorld(n=3, recoveries=2, invariants=False), TWO_VALUES, 13),
    (fast_quorum_too_small, SmallWorld(n=4, recoveries=0), TWO_VALUES, 6),
    (vote_after_send, SmallWorld(n=3, recoveries=0), TWO_VALUES, 6),
    (vote_after_send, SmallWorld(n=3, proposers=(1,), readers=(2,), restarts=1), TWO_VALUES, 12),
    (ballot_used_twice, SmallWorld(n=3), "the promise of A falls", 4),
    (
        ballot_used_twice,
        SmallWorld(n=3, proposers=(1,), readers=(2,), recoveries=2, restarts=1, invariants=False),
        TWO_VALUES,
        18,
    ),
    (no_behind, SmallWorld(n=3, proposers=THREE, recoveries=1, versions=2, commits=True), TWO_VALUES, 11),
    (late_commit_clears_vote, SmallWorld(n=3, proposers=THREE, recoveries=0, versions=2, commits=True), TWO_VALUES, 12),
]
"""Fault, world, what is found, and in how many steps: the shortest way there."""


@pytest.mark.parametrize(("fault", "world", "what", "steps"), FAULTS)
def test_a_planted_fault_is_found(
    fault: Callable[[pytest.MonkeyPatch], None],
    world: SmallWorld,
    what: str,
    steps: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unassert(monkeypatch)
    fault(monkeypatch)
    found = explore(world)
    assert found.violation is not None, f"{fault.__name__} survived"
    assert not found.complete
    assert what in found.violation.what
    assert len(found.violation.trace) == steps


def test_a_trace_reads_as_a_story(monkeypatch: pytest.MonkeyPatch) -> None:
    no_commit_guard(monkeypatch)
    found = explore(SmallWorld(n=3))
    assert str(found.violation).splitlines() == [
        "  1. A votes a at (1,A) for itself and sends Accept",
        "  2. B votes a at (1,A)",
        "  3. B promises itself (2,B) with its vote a at (1,A) and sends Prepare",
        "  4. A promises (2,B) and tells its vote a at (1,A)",
        "  5. A has a fast quorum for a and commits",
        "  6. B has the promises of A, B and sends Accept (2,B) b",
        "  7. B votes b at (2,B)",
        "  8. C votes b at (2,B)",
        "  9. B commits b",
        "  => two values decided: a and b",
    ]


# Production's flows


PATIENCE = 0.9
"""How often a walk lets a proposer wait rather than give up. Less, and it runs out of ballots before much happens."""


class Walk:
    """Production's proposers on a random way through a world: any message at any time, again or never."""

    def __init__(self, world: SmallWorld, seed: int) -> None:
        self.world = world
        self.choice = random.Random(seed)
        self.states = dict.fromkeys(world.seats, FRESH)
        self.reserved: set[tuple[int, Ballot]] = set()
        self.begun: set[int] = set()
        self.wire: list[tuple[int, int, int, tuple[Request, ...]]] = []
        self.inbox: list[tuple[int, int, Answer]] = []
        self.rounds = dict.fromkeys(world.homes, 0)
        self.lives = dict.fromkeys(world.homes, 0)
        self.flows: dict[int, tuple[Flow[Outcome], Effect]] = {}
        for me in world.homes:
            self.start(me)

    @property
    def restarts(self) -> int:
        return sum(self.lives.values()) - len(self.lives)

    def start(self, me: int) -> None:
        self.lives[me] += 1
        self.rounds[me] += 1
        suffix = str(self.lives[me]) if self.lives[me] > 1 else ""
        write = Write(key=b"k", value=f"{'?abc'[me]}{suffix}".encode(), mutable=self.world.versions > 1)
        flow = propose(write, Context(me=me, config=self.world.config, dice=Dice(self.lives[me]), timing=Timing()))
        self.flows[me] = flow, next(flow)

    def step(self) -> bool:
        """False: the walk has left the world, or everybody is done."""
        if self.wire and self.choice.random() < 0.6:
            self.deliver(*self.choice.choice(self.wire))
            return True
        if not self.flows:
            return False
        me = self.choice.choice(sorted(self.flows))
        if me in self.begun and self.restarts < self.world.restarts and self.choice.random() < 0.1:
            self.start(me)
            return True
        self.proceed(me)
        return len(self.reserved) <= self.world.recoveries

    def deliver(self, sender: int, number: int, to: int, requests: tuple[Request, ...]) -> None:
        reply: Reply | None = None
        for request in requests:
            assert isinstance(request, KeyRequest)
            self.states[to], reply = acceptor.step(self.states[to], request, self.world.config)
        assert reply is not None
        self.inbox.append((sender, number, Answer(to, reply)))

    def proceed(self, me: int) -> None:
        flow, effect = self.flows[me]
        if isinstance(effect, Next) and not self.answers(me) and self.choice.random() < PATIENCE:
            return
        try:
            self.flows[me] = flow, flow.send(self.perform(me, effect))
        except StopIteration:
            del self.flows[me]

    def perform(self, me: int, effect: Effect) -> object:
        match effect:
            case Local():
                return self.at_home(me, effect.op)
            case Open() | Also() | Tell():
                self.rounds[me] += isinstance(effect, Open)
                self.wire += [(me, self.rounds[me], to, requests) for to, requests in effect.envelopes.items()]
                return None
            case Next():
                answers = self.answers(me)
                return self.choice.choice(answers) if answers and self.choice.random() < PATIENCE else Expired()
            case Pause():
                return None

    def answers(self, me: int) -> list[Answer]:
        return [answer for to, number, answer in self.inbox if (to, number) == (me, self.rounds[me])]

    def at_home(self, me: int, op: LocalOp) -> object:
        assert isinstance(op, operations.KeyOp)
        after, result = local.perform(self.states[me], op, self.world.config)
        if not isinstance(result, operations.Occupied):
            self.begun.add(me)
        if isinstance(result, operations.Reserved):
            self.reserved.add((self.states[me].version, result.ballot))
        if len(self.reserved) <= self.world.recoveries:
            self.states[me] = after
        return result


class Dice:
    def __init__(self, nonce: int) -> None:
        self.fixed = nonce

    def nonce(self) -> int:
        return self.fixed

    def uniform(self) -> float:
        return 0.5


def strays(world: SmallWorld, reachable: set[tuple[KeyState, ...]], seeds: range) -> tuple[int, str | None]:
    """How many states the walks met, and the first that should not exist."""
    met: set[tuple[KeyState, ...]] = set()
    for seed in seeds:
        walk = Walk(world, seed)
        for _ in range(80):
            if not walk.step():
                break
            now = tuple(walk.states[seat] for seat in world.seats)
            if now not in reachable:
                return len(met), f"seed {seed}: {now}"
            met.add(now)
    return len(met), None


@pytest.mark.parametrize(
    "world",
    [
        SmallWorld(n=3, recoveries=2, restarts=1, commits=True),
        SmallWorld(n=3, recoveries=2, versions=2, commits=True),
        SmallWorld(n=3, proposers=THREE, recoveries=1, commits=True),
    ],
)
def test_production_reaches_only_visited_states(world: SmallWorld) -> None:
    tables = Tables(world)
    reachable = set(visited(tables, tables.canonical))
    met, stray = strays(world, reachable, range(800))
    assert stray is None
    assert 10 * met > len(reachable), "the walks are too short to prove anything"


def test_a_state_that_was_not_visited_is_noticed() -> None:
    smaller, larger = SmallWorld(n=3, recoveries=1, commits=True), SmallWorld(n=3, recoveries=2, commits=True)
    tables = Tables(smaller)
    _, stray = strays(larger, set(visited(tables, tables.canonical)), range(100))
    assert stray is not None
