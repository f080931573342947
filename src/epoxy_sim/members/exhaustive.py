"""Every reachable state of a small world whose members change, once: one key, a few replicas, a few writers.

As in `exhaustive_world`, every rule is production code, the network is the set of requests ever sent, and only control
flow is written again. What is new: a replica adopts the next epoch at any time, once there is one; the joint epoch is
there from the beginning; and the last one follows as soon as enough new members could be synced. Copying is hearing a
Commit. Readers recover without a value of their own, and so settle what is in flight.

Nothing is symmetrical here, so worlds are smaller: two to five replicas, two writers, two or three ballots.
"""

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import chain, combinations
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from epoxy.model import cluster
from epoxy.model.ballot import NO_BALLOT, Ballot, fast_ballot
from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus, first_epoch
from epoxy.model.members import MemberStatus
from epoxy.model.messages import Accept, AcceptOk, Commit, Prepare, PrepareOk
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.records import FRESH, KeyState, Proposal, ProposalId
from epoxy.model.writes import Write
from epoxy.node.members import member
from epoxy.protocol.keys import acceptor, folding, operations, recovery
from epoxy.protocol.keys import local as home
from epoxy.protocol.members import changes, learner
from epoxy_sim.keys.exhaustive import BrokenPromise, Exploration
from epoxy_sim.keys.exhaustive_trace import (
    Adopted,
    Chosen,
    Label,
    NothingToCarryOn,
    Promises,
    Promoted,
    Renewed,
    describe,
    name,
    proposal,
)
from epoxy_sim.keys.exhaustive_world import KEY, Broken, Message, Ok, Request, in_person, lawful

T = TypeVar("T", bound=Hashable)

JOINT, LAST = 2, 3
LIMIT_STATES = 2_000_000


class MembersWorld(Struct, frozen=True, kw_only=True):
    """`recoveries` bounds the classic ballots of all together. `late` writers come when all is over, in the
    last epoch; `stragglers` hear of nothing before that one."""

    old: tuple[int, ...]
    new: tuple[int, ...]
    proposers: tuple[int, ...]
    readers: tuple[int, ...] = ()
    late: tuple[int, ...] = ()
    stragglers: tuple[int, ...] = ()
    recoveries: int = 1
    policy: QuorumPolicy = QuorumPolicy.OPTIMAL

    @property
    def replicas(self) -> tuple[int, ...]:
        return tuple(sorted({*self.old, *self.new}))

    def configs(self) -> dict[int, ClusterConfig]:
        """What a coordinator publishes, with everything before the joint epoch left out."""
        first = first_epoch(self.old, self.policy)
        status = {True: ReplicaStatus.ACTIVE, False: ReplicaStatus.LEAVING}
        members = tuple(ReplicaInfo(id=i, status=status[i in self.new]) for i in self.replicas)
        joint = replace(first, epoch=JOINT, replicas=members, previous=self.old)
        return {1: first, JOINT: joint, LAST: changes.promote(joint, first.coordinator_id)}


class MembersColumn(Struct, frozen=True):
    epoch: int
    state: KeyState


class MembersFlow(Struct, frozen=True, kw_only=True):
    """A writer or reader in one epoch, and the round it has open with the consents so far."""

    home: int
    reads: bool = False
    epoch: int = 1
    request: Request | None = None
    oks: tuple[tuple[int, Ok], ...] = ()
    owed: bool = False
    done: bool = False

    def hearing(self, replica: int, ok: Ok) -> "MembersFlow":
        return replace(self, oks=tuple(sorted({**dict(self.oks), replica: ok}.items())))


class Rest(Struct, frozen=True, kw_only=True):
    """Everything that is neither at a replica nor in a flow."""

    sent: frozenset[Message] = frozenset()
    decided: Proposal | None = None
    freed: bool = False
    promoted: bool = False

    @property
    def ballots(self) -> list[Ballot]:
        return sorted(message.ballot for message in self.sent if isinstance(message, Prepare))


class ValuePool(Generic[T]):
    """Numbers for values: comparing them is what a search does most."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self.values: list[T] = []

    def number(self, value: T) -> int:
        found = self._numbers.setdefault(value, len(self.values))
        if found == len(self.values):
            self.values.append(value)
        return found


State = tuple[int, ...]
"""Columns by replica, then flows, then the rest."""

Step = tuple[State, Label]


class MembersSearch:
    def __init__(self, world: MembersWorld) -> None:
        self.world = world
        self.configs = world.configs()
        self.ids = world.replicas
        self.columns: ValuePool[MembersColumn] = ValuePool()
        self.flows: ValuePool[MembersFlow] = ValuePool()
        self.rests: ValuePool[Rest] = ValuePool()
        self._delivered: dict[tuple[Message, int, int], tuple[int, Ok | None, Label] | None] = {}

    def first(self) -> State:
        flows = [
            MembersFlow(home=i, reads=i in self.world.readers) for i in (*self.world.proposers, *self.world.readers)
        ]
        fresh = self.columns.number(MembersColumn(1, FRESH))
        return (*[fresh] * len(self.ids), *map(self.flows.number, flows), self.rests.number(Rest()))

    def column(self, state: State, replica: int) -> MembersColumn:
        return self.columns.values[state[self.ids.index(replica)]]

    def flow(self, state: State, f: int) -> MembersFlow:
        return self.flows.values[state[len(self.ids) + f]]

    def rest(self, state: State) -> Rest:
        return self.rests.values[state[-1]]

    def with_column(self, state: State, replica: int, column: MembersColumn) -> State:
        at = self.ids.index(replica)
        return (*state[:at], self.columns.number(column), *state[at + 1 :])

    def with_flow(self, state: State, f: int, flow: MembersFlow, *sent: Message) -> State:
        at = len(self.ids) + f
        rest = self.rest(state)
        after = state[-1] if not sent else self.rests.number(replace(rest, sent=rest.sent.union(sent)))
        return (*state[:at], self.flows.number(flow), *state[at + 1 : -1], after)

    def steps(self, state: State) -> Iterator[Step]:
        yield from self.adoptions(state)
        yield from self.deliveries(state)
        for f in range(len(state) - len(self.ids) - 1):
            if not self.flow(state, f).done:
                yield from self.moves(state, f)
        if not self.rest(state).promoted and self.may_promote(state):
            promoted = replace(self.rest(state), promoted=True)
            yield (*state[:-1], self.rests.number(promoted)), (self.ids[0], None, Promoted())

    def adoptions(self, state: State) -> Iterator[Step]:
        newest = LAST if self.rest(state).promoted else JOINT
        for replica in self.ids:
            column = self.column(state, replica)
            first = LAST if replica in self.world.stragglers else JOINT
            for epoch in range(max(first, column.epoch + 1), newest + 1):
                yield (
                    self.with_column(state, replica, MembersColumn(epoch, column.state)),
                    (replica, None, Adopted(epoch)),
                )

    def deliveries(self, state: State) -> Iterator[Step]:
        count = len(state) - len(self.ids) - 1
        for message in sorted(self.rest(state).sent, key=repr):
            waiting = [f for f in range(count) if self.flow(state, f).request == message]
            for at, replica in enumerate(self.ids):
                if in_person(message, replica) or not self.is_sent_to(message, replica):
                    continue
                found = self.deliver(message, replica, state[at])
                if found is None:
                    continue
                number, ok, label = found
                after = (*state[:at], number, *state[at + 1 :])
                if ok is not None:
                    for f in waiting:
                        after = self.with_flow(after, f, self.flow(after, f).hearing(replica, ok))
                if after != state:
                    yield after, label

    def is_sent_to(self, message: Message, replica: int) -> bool:
        return isinstance(message, Commit) or replica in self.configs[message.epoch].voters

    def deliver(self, message: Message, replica: int, number: int) -> tuple[int, Ok | None, Label] | None:
        """The column afterwards, and a consent. None: no effect."""
        asked = (message, replica, number)
        if asked not in self._delivered:
            column = self.columns.values[number]
            config = self.configs[column.epoch]
            state, reply = lawful((replica, message, None), lambda: acceptor.step(column.state, message, config))
            ok = reply if isinstance(reply, Ok) else None
            label = (replica, message, reply)
            changed = self.columns.number(MembersColumn(column.epoch, state))
            self._delivered[asked] = (changed, ok, label) if ok is not None or changed != number else None
        return self._delivered[asked]

    # What a flow does

    def moves(self, state: State, f: int) -> Iterator[Step]:
        flow = self.flow(state, f)
        column = self.column(state, flow.home)
        if column.epoch > flow.epoch:
            renewed = replace(flow, epoch=column.epoch, request=None, oks=())
            yield self.with_flow(state, f, renewed), (flow.home, None, Renewed(column.epoch))
        elif flow.home in self.configs[flow.epoch].voters and (flow.epoch == LAST or flow.home not in self.world.late):
            yield from self.begin(state, f, flow, column)
        if flow.request is not None and self.reached(flow):
            yield from self.succeed(state, f, flow, column)

    def begin(self, state: State, f: int, flow: MembersFlow, column: MembersColumn) -> Iterator[Step]:
        """A first look at home, or another ballot."""
        config = self.configs[column.epoch]
        if flow.request is None and not flow.reads:
            select = operations.Select(key=KEY, writes=(pending(flow),), me=flow.home, epoch=flow.epoch, insists=True)
            after, result = home.perform(column.state, select, config)
            if isinstance(result, operations.FastVote):
                ballot = fast_ballot(flow.home)
                vote = Accept(key=KEY, epoch=flow.epoch, ballot=ballot, proposal=result.fold.proposal)
                voted = replace(flow, request=vote, oks=((flow.home, AcceptOk()),))
                at_home = self.with_column(state, flow.home, MembersColumn(column.epoch, after))
                yield self.with_flow(at_home, f, voted, vote), (flow.home, select, result)
                return
        if len(self.rest(state).ballots) < self.world.recoveries:
            yield from self.retry(state, f, flow, column)

    def retry(self, state: State, f: int, flow: MembersFlow, column: MembersColumn) -> Iterator[Step]:
        for above in (NO_BALLOT, *self.rest(state).ballots):
            reserve = operations.Reserve(key=KEY, base=0, above=above, me=flow.home, epoch=flow.epoch, insists=True)
            after, result = home.perform(column.state, reserve, self.configs[column.epoch])
            if isinstance(result, operations.Reserved):
                ask = Prepare(key=KEY, epoch=flow.epoch, ballot=result.ballot, base=0)
                owed = flow.reads and self.rest(state).decided is not None
                asked = replace(flow, request=ask, oks=((flow.home, PrepareOk(vote=result.vote)),), owed=owed)
                at_home = self.with_column(state, flow.home, MembersColumn(column.epoch, after))
                yield self.with_flow(at_home, f, asked, ask), (flow.home, reserve, result)

    def reached(self, flow: MembersFlow) -> bool:
        config = self.configs[flow.epoch]
        if config.sides is not None:
            return cluster.both_sides(config.sides, dict(flow.oks))
        is_fast = isinstance(flow.request, Accept) and flow.request.ballot.is_fast
        return len(flow.oks) >= (config.quorums.fast if is_fast else config.quorums.slow)

    def succeed(self, state: State, f: int, flow: MembersFlow, column: MembersColumn) -> Iterator[Step]:
        request = flow.request
        if isinstance(request, Prepare):
            yield from self.choose(state, f, flow, request)
        elif request is not None:
            is_fast, chosen = request.ballot.is_fast, request.proposal
            op = (
                operations.Conclude(key=KEY, proposal=chosen, epoch=flow.epoch)
                if is_fast
                else Commit(key=KEY, epoch=flow.epoch, proposal=chosen)
            )
            after, result = home.perform(column.state, op, self.configs[column.epoch])
            if not is_fast or isinstance(result, operations.Concluded):
                label: Label = (flow.home, op, result)
                yield self.decided(state, f, flow, chosen, MembersColumn(column.epoch, after), label), label

    def choose(self, state: State, f: int, flow: MembersFlow, request: Prepare) -> Iterator[Step]:
        """From any quorum of the promises at hand."""
        config = self.configs[flow.epoch]
        mine = folding.fold((pending(flow),), None, flow.home)
        assert isinstance(mine, operations.Fold), "the key is fresh"
        seen: set[Proposal | None] = set()
        for quorum in self.quorums(flow):
            promises = {i: ok.vote for i, ok in flow.oks if i in quorum and isinstance(ok, PrepareOk)}
            asked = (flow.home, Promises(quorum), None)
            chosen = lawful(asked, lambda promises=promises: recovery.choose(promises, config))  # type: ignore[misc]
            if chosen in seen:
                continue
            seen.add(chosen)
            if chosen is None and flow.reads:
                yield self.free(state, f, flow, quorum)
                continue
            accept = Accept(key=KEY, epoch=flow.epoch, ballot=request.ballot, proposal=chosen or mine.proposal)
            asking = replace(flow, request=accept, oks=())
            yield self.with_flow(state, f, asking, accept), (flow.home, Promises(quorum), Chosen(accept))

    def quorums(self, flow: MembersFlow) -> Iterator[tuple[int, ...]]:
        for quorum in subsets([i for i, _ in flow.oks]):
            if flow.home in quorum and self.reached(replace(flow, oks=tuple((i, AcceptOk()) for i in quorum))):
                yield quorum

    def free(self, state: State, f: int, flow: MembersFlow, quorum: tuple[int, ...]) -> Step:
        label = (flow.home, Promises(quorum), NothingToCarryOn())
        if flow.owed:
            raise Broken(f"{name(flow.home)} reads nothing after a decision", label)
        rest = replace(self.rest(state), freed=self.rest(state).freed or flow.epoch == JOINT)
        after = self.with_flow(state, f, replace(flow, request=None, oks=(), done=True))
        return (*after[:-1], self.rests.number(rest)), label

    def decided(
        self, state: State, f: int, flow: MembersFlow, chosen: Proposal, column: MembersColumn, label: Label
    ) -> State:
        rest = self.rest(state)
        if rest.decided is not None and rest.decided != chosen:
            what = f"two values decided: {proposal(rest.decided)} and {proposal(chosen)}"
            raise Broken(what, label)
        commit = Commit(key=KEY, epoch=flow.epoch, proposal=chosen)
        after = self.with_column(state, flow.home, column)
        after = self.with_flow(after, f, replace(flow, request=None, oks=(), done=True), commit)
        known = replace(self.rest(after), decided=chosen)
        return (*after[:-1], self.rests.number(known))

    # When the new members may take over

    def may_promote(self, state: State) -> bool:
        """Whether each of enough new members could have settled and copied what enough old ones held."""
        joint = self.configs[JOINT]
        adopted = [
            i for i in self.world.old if member.not_adopted(JOINT, self.configs[self.column(state, i).epoch]) is None
        ]
        return any(
            learner.is_enough(joint, set(sources)) and self.enough_are_synced(state, joint, sources)
            for sources in subsets(adopted)
        )

    def enough_are_synced(self, state: State, joint: ClusterConfig, sources: tuple[int, ...]) -> bool:
        freed = self.rest(state).freed
        wants = any(self.holds(self.column(state, i), joint, freed) for i in sources)
        synced = {i for i in self.world.new if not wants or self.column(state, i).state.committed is not None}
        heard = {i: MemberStatus(identity=0, epoch=JOINT, synced=i in synced) for i in self.world.new}
        done = {i for i, status in heard.items() if changes.is_synced(joint, status)}
        return changes.is_enough(set(self.world.new), set(self.world.new) - set(self.world.old), done)

    def holds(self, column: MembersColumn, joint: ClusterConfig, freed: bool) -> bool:
        """Whether there is something there that a member must hold before it is synced."""
        vote = column.state.vote
        unsettled = vote is not None and vote.epoch < JOINT and recovery.still_counts(vote, joint)
        return column.state.committed is not None or (unsettled and not freed)


def pending(flow: MembersFlow) -> operations.PendingWrite:
    write = Write(key=KEY, value=name(flow.home).lower().encode())
    return operations.PendingWrite(write=write, proposal_id=ProposalId(flow.home, 1))


def subsets(replicas: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All but the empty one, the smallest first."""
    return chain.from_iterable(combinations(replicas, size) for size in range(1, len(replicas) + 1))


def explore(world: MembersWorld, limit_states: int = LIMIT_STATES) -> Exploration:
    """Breadth first, remembering where each state came from: the first violation met is a nearest one."""
    started = time.perf_counter()
    search = MembersSearch(world)
    level, depth, transitions = [search.first()], 0, 0
    came: dict[State, tuple[State, Label] | None] = {level[0]: None}
    violation: BrokenPromise | None = None
    while level and violation is None and len(came) < limit_states:
        found: list[State] = []
        for state in level:
            try:
                for after, label in search.steps(state):
                    transitions += 1
                    if after not in came:
                        came[after] = (state, label)
                        found.append(after)
            except Broken as broken:
                violation = BrokenPromise(what=broken.what, trace=[*way_to(state, came), describe(broken.label)])
                break
        level = found
        depth += 1
    return Exploration(
        states=len(came),
        transitions=transitions,
        depth=depth - 1,
        seconds=time.perf_counter() - started,
        complete=violation is None and not level,
        violation=violation,
    )


def way_to(state: State, came: Mapping[State, tuple[State, Label] | None]) -> list[str]:
    told: list[str] = []
    before = came[state]
    while before is not None:
        state, label = before
        told.append(describe(label))
        before = came[state]
    return told[::-1]
