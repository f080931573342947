"""A small world whose every reachable state can be visited: one key, a few replicas, a few writers.

Every rule is production code: an acceptor's answer is `acceptor.step`, a proposer's transaction is `local.perform`, a
recovery's choice is `recovery.choose`, a quorum is the configuration's. Only the proposer's control flow, in production
a generator, is written again here as explicit phases.

Why so little has to be stored:

- A message once sent may arrive at any time, any number of times, or never. So the network is the set of requests ever
  sent, and loss, duplication and reordering need no steps of their own.
- Receiving a reply changes only its receiver. So each replica's answer to a proposer's open round is kept with
  that replica, and the proposer acts, when it acts, on any quorum of the answers given so far. It need not act: a
  crashed proposer is one that takes no further step, a hedge timer may ring whenever it likes.
- A refusal only tells how high the next ballot should be. A retry here may aim above any ballot ever reserved, which
  covers every refusal there can be.
- Deciding, learning at home and sending Commit is one step: to crash in between is to have one's Commits lost.
- Until `commits` asks for it, Commits of an immutable key are not delivered. A replica that has learned answers
  AlreadyCommitted for ever and its own proposer stops; to all others it looks as if it had crashed, and crashes are
  explored already.

A state is one integer: the number of a `Talk` (proposers and network) and for each replica the number of a `Column`
(its key state and its answers to open rounds). Transitions are computed once for each Talk and Column and then looked
up. Replicas without a proposer are interchangeable, since no ballot carries their id and no rule looks at an id that is
not in a ballot: their columns are sorted. Proposers are not interchangeable, because ballots are ordered by replica id.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from epoxy.model.ballot import NO_BALLOT, Ballot, fast_ballot
from epoxy.model.cluster import ClusterConfig, first_epoch
from epoxy.model.messages import Accept, AcceptOk, AlreadyCommitted, Commit, CommitConflict, Prepare, PrepareOk, Reply
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.records import FRESH, KeyState, Proposal, ProposalId
from epoxy.model.writes import Write
from epoxy.protocol.keys import acceptor, folding, operations, recovery
from epoxy.protocol.keys import local as home
from epoxy_sim.keys.exhaustive_trace import Chosen, Label, NothingToCarryOn, Promises, Restarted, name, proposal

KEY = b"k"
T = TypeVar("T")
Request = Prepare | Accept
Message = Request | Commit
Ok = AcceptOk | PrepareOk


class SmallWorld(Struct, frozen=True, kw_only=True):
    """What to explore. `readers` recover without a value of their own, as a linearizable read does. `recoveries` bounds
    the classic ballots of all together, `restarts` how often a proposer forgets what it was doing and begins a new
    write. With more than one of `versions` the key is mutable, and a writer that lost one version goes on with the
    next. `invariants` False: look for broken agreement alone."""

    n: int
    proposers: tuple[int, ...] = (1, 2)
    readers: tuple[int, ...] = ()
    recoveries: int = 1
    restarts: int = 0
    versions: int = 1
    policy: QuorumPolicy = QuorumPolicy.OPTIMAL
    commits: bool = False
    invariants: bool = True

    def __post_init__(self) -> None:
        assert self.proposers, self
        assert len(set(self.homes)) == len(self.homes), "one flow for each replica"
        assert set(self.homes) <= set(range(1, self.n + 1)), self
        assert self.versions in (1, 2), "two versions meet; a third would meet the second in the same way"
        assert self.versions == 1 or self.commits, "the next version begins where a Commit has arrived"

    @property
    def config(self) -> ClusterConfig:
        return first_epoch(tuple(range(1, self.n + 1)), self.policy)

    @property
    def homes(self) -> tuple[int, ...]:
        return self.proposers + self.readers

    @property
    def seats(self) -> tuple[int, ...]:
        """Replica ids in the order of their columns: flow f lives at seat f, bystanders come last."""
        return self.homes + tuple(i for i in range(1, self.n + 1) if i not in self.homes)

    def rules(self) -> "Rules":
        return Rules(self)


class Broken(Exception):
    """A rule of the protocol does not hold after this step."""

    def __init__(self, what: str, label: Label) -> None:
        super().__init__(what)
        self.what = what
        self.label = label


class Flow(Struct, frozen=True, kw_only=True):
    """A proposer or reader, and the round it has open. None: it is about to begin, or done. A restart gives it a new
    life, and with it a new client's write. `owed`: a reader that began after the decision."""

    home: int
    reads: bool = False
    life: int = 1
    request: Request | None = None
    owed: bool = False
    done: bool = False

    @property
    def proposal_id(self) -> ProposalId:
        return ProposalId(self.home, self.life)


class Talk(Struct, frozen=True, kw_only=True):
    """Everything that is not at a replica: the proposers, the network, and what was decided for version 1, 2, ..."""

    flows: tuple[Flow, ...]
    sent: frozenset[Message] = frozenset()
    decided: tuple[Proposal, ...] = ()

    @property
    def ballots(self) -> list[Ballot]:
        """The classic ballots reserved so far."""
        return sorted(message.ballot for message in self.sent if isinstance(message, Prepare))

    @property
    def restarts(self) -> int:
        return sum(flow.life - 1 for flow in self.flows)

    def after(self, f: int, flow: Flow, *sent: Message) -> "Talk":
        flows = (*self.flows[:f], flow, *self.flows[f + 1 :])
        return replace(self, flows=flows, sent=self.sent.union(sent))


class Column(Struct, frozen=True):
    """A replica: its state of the key, and its consent to the open round of each proposer."""

    state: KeyState
    oks: tuple[Ok | None, ...]

    def consenting(self, f: int, ok: Ok | None) -> "Column":
        return Column(self.state, (*self.oks[:f], ok, *self.oks[f + 1 :]))


Outcome = tuple[Talk, Column, Label]
"""What a proposer's step leads to. It closes the round, so the answers given to it so far are dropped everywhere; the
column is that of its home afterwards."""

Choice = tuple[Proposal | None, tuple[int, ...]]


class Rules:
    """The steps of a world, by production code. Nothing here is fast: `exhaustive` asks each question once."""

    def __init__(self, world: SmallWorld) -> None:
        self.world = world
        self.config = world.config
        self.epoch = self.config.epoch
        self.chosen: dict[object, list[Choice]] = {}

    def first(self) -> tuple[Talk, Column]:
        flows = tuple(Flow(home=i, reads=i in self.world.readers) for i in self.world.homes)
        return Talk(flows=flows), Column(FRESH, (None,) * len(flows))

    def menus(self, talk: Talk) -> list[list[tuple[Message, int | None]]]:
        """For each seat: what may arrive there, and which flow still waits for the answer. Sorted, because the order
        of a set differs from process to process, and with it the trace of a violation would."""
        waiting: dict[object, int] = {flow.request: f for f, flow in enumerate(talk.flows)}
        sent = [m for m in sorted(talk.sent, key=repr) if self.world.commits or not isinstance(m, Commit)]
        return [[(m, waiting.get(m)) for m in sent if not in_person(m, seat)] for seat in self.world.seats]

    def deliver(self, replica_id: int, column: Column, message: Message, waiting: int | None) -> tuple[Column, Reply]:
        asked = (replica_id, message, None)
        state, reply = lawful(asked, lambda: acceptor.step(column.state, message, self.config))
        self.check(column.state, state, (replica_id, message, reply))
        if isinstance(reply, CommitConflict):
            what = f"{name(replica_id)} has committed {proposal(reply.committed)} already"
            raise Broken(what, (replica_id, message, reply))
        after = Column(state, column.oks)
        if waiting is not None and isinstance(reply, Ok):
            after = after.consenting(waiting, reply)
        return after, reply

    def spontaneous(self, talk: Talk, f: int, column: Column) -> Iterator[Outcome]:
        """What a proposer may do without waiting for answers: begin, or give up the round and retry, or restart."""
        flow = talk.flows[f]
        if flow.done:
            return
        if flow.request is None and not flow.reads:
            yield from self.begin(talk, f, column)
            return
        yield from self.retry(talk, f, column, base_of(flow.request) if flow.request else column.state.version)
        if talk.restarts < self.world.restarts and not flow.reads:
            yield talk.after(f, Flow(home=flow.home, life=flow.life + 1)), column, (flow.home, None, Restarted())

    def asides(self, _talk: Talk, _f: int, _column: Column) -> Iterator[tuple[Talk, Label]]:
        """What may happen at a home beside its open round."""
        yield from ()

    def begin(self, talk: Talk, f: int, column: Column) -> Iterator[Outcome]:
        """Proposer, step 1."""
        flow = talk.flows[f]
        op = operations.Select(key=KEY, writes=(self.pending(flow),), me=flow.home, epoch=self.epoch, insists=True)
        state, result = self.at_home(flow, column, op)
        base = column.state.version
        match result:
            case operations.FastVote():
                if base < self.world.versions:
                    ballot = fast_ballot(flow.home)
                    request = Accept(key=KEY, epoch=self.epoch, ballot=ballot, proposal=result.fold.proposal)
                    voted = Column(state, column.oks).consenting(f, AcceptOk())
                    yield opened(talk, f, request), voted, (flow.home, op, result)
            case operations.Reserved():
                if base < self.world.versions and len(talk.ballots) < self.world.recoveries:
                    yield self.prepare(talk, f, Column(state, column.oks), op, result, base)
            case _:
                assert column.state.committed is not None, "nothing else is answered at once"
                decided = AlreadyCommitted(committed=column.state.committed)
                yield from self.settled(talk, f, column, decided, (flow.home, op, result))

    def pending(self, flow: Flow) -> operations.PendingWrite:
        """a, b, c; and a2 for what A writes after a restart."""
        value = name(flow.home).lower() + (str(flow.life) if flow.life > 1 else "")
        write = Write(key=KEY, value=value.encode(), mutable=self.world.versions > 1)
        return operations.PendingWrite(write=write, proposal_id=flow.proposal_id)

    def retry(self, talk: Talk, f: int, column: Column, base: int) -> Iterator[Outcome]:
        """Proposer, step 3, above nothing in particular or above a ballot some refusal may have told of."""
        flow = talk.flows[f]
        may_prepare = len(talk.ballots) < self.world.recoveries
        for above in (NO_BALLOT, *talk.ballots) if may_prepare else (NO_BALLOT,):
            op = operations.Reserve(key=KEY, base=base, above=above, me=flow.home, epoch=self.epoch, insists=True)
            state, result = self.at_home(flow, column, op)
            if isinstance(result, operations.Reserved) and may_prepare:
                yield self.prepare(talk, f, Column(state, column.oks), op, result, base)
            elif isinstance(result, AlreadyCommitted):
                yield from self.settled(talk, f, column, result, (flow.home, op, result))

    def prepare(
        self,
        talk: Talk,
        f: int,
        column: Column,
        op: operations.Select | operations.Reserve,
        reserved: operations.Reserved,
        base: int,
    ) -> Outcome:
        request = Prepare(key=KEY, epoch=self.epoch, ballot=reserved.ballot, base=base)
        promised = column.consenting(f, PrepareOk(vote=reserved.vote))
        before = talk.flows[f]
        owed = before.reads and any(decided.base == base for decided in talk.decided)
        flow = replace(before, request=request, owed=owed)
        return talk.after(f, flow, request), promised, (flow.home, op, reserved)

    def need(self, flow: Flow) -> int:
        """How many must consent before the round succeeds."""
        is_fast = isinstance(flow.request, Accept) and flow.request.ballot.is_fast
        return self.config.quorums.fast if is_fast else self.config.quorums.slow

    def succeed(self, talk: Talk, f: int, column: Column, oks: Mapping[int, Ok | None]) -> Iterator[Outcome]:
        """What a proposer may do once enough replicas have consented to its round."""
        request = talk.flows[f].request
        if isinstance(request, Prepare):
            yield from self.choose(talk, f, column, request, oks)
        elif request is not None and request.ballot.is_fast:
            yield from self.conclude(talk, f, column, request)
        elif request is not None:
            yield from self.decide(talk, f, column, request)

    def choose(
        self, talk: Talk, f: int, column: Column, request: Prepare, oks: Mapping[int, Ok | None]
    ) -> Iterator[Outcome]:
        """Proposer, step 4."""
        flow = talk.flows[f]
        for chosen, quorum in self.choices(flow.home, tuple(oks.items())):
            if chosen is None and flow.reads:
                yield self.free(talk, f, column, quorum)
                continue
            carried_on = (talk, chosen) if chosen is not None else self.own(talk, f, request.base)
            accept = Accept(key=KEY, epoch=self.epoch, ballot=request.ballot, proposal=carried_on[1])
            yield opened(carried_on[0], f, accept), column, (flow.home, Promises(quorum), Chosen(accept))

    def own(self, talk: Talk, f: int, base: int) -> tuple[Talk, Proposal]:
        """What a proposer puts forward if the choice is free."""
        flow = talk.flows[f]
        committed = next((decided for decided in talk.decided if decided.version == base), None)
        folded = folding.fold((self.pending(flow),), committed, flow.home)
        assert isinstance(folded, operations.Fold), "a put is never refused"
        return talk, folded.proposal

    def free(self, talk: Talk, f: int, column: Column, quorum: tuple[int, ...]) -> Outcome:
        """A reader ends with "nothing was chosen": wrong, if something was before it reserved its ballot."""
        flow = talk.flows[f]
        label = (flow.home, Promises(quorum), NothingToCarryOn())
        if flow.owed:
            raise Broken(f"{name(flow.home)} reads nothing after {proposal(talk.decided[-1])} was decided", label)
        return talk.after(f, replace(flow, request=None, done=True)), column, label

    def choices(self, home_id: int, oks: tuple[tuple[int, Ok | None], ...]) -> list[Choice]:
        """What may be chosen from any quorum of these promises, and one such quorum. Production stops counting at the
        smallest; the protocol allows more. Many talks ask the same, so the answer is kept."""
        known = self.chosen.get((home_id, oks))
        if known is None:
            promises = {i: ok.vote for i, ok in oks if isinstance(ok, PrepareOk)}
            found: dict[Proposal | None, tuple[int, ...]] = {}
            for quorum in quorums_with(home_id, sorted(promises), self.config.quorums.slow):
                found.setdefault(self.choice(home_id, {i: promises[i] for i in quorum}), quorum)
            known = self.chosen[home_id, oks] = list(found.items())
        return known

    def choice(self, home_id: int, promises: recovery.Promises) -> Proposal | None:
        asked = (home_id, Promises(tuple(promises)), None)
        return lawful(asked, lambda: recovery.choose(promises, self.config))

    def conclude(self, talk: Talk, f: int, column: Column, request: Accept) -> Iterator[Outcome]:
        """Proposer, step 5 after a fast round. A refusal leaves the round open: giving it up is a step of its own."""
        flow = talk.flows[f]
        op = operations.Conclude(key=KEY, proposal=request.proposal, epoch=self.epoch)
        state, result = self.at_home(flow, column, op)
        label = (flow.home, op, result)
        if isinstance(result, operations.Concluded):
            decided = AlreadyCommitted(committed=request.proposal)
            yield from self.settled(talk, f, Column(state, column.oks), decided, label)
        elif isinstance(result, AlreadyCommitted):
            yield from self.settled(talk, f, column, result, label)

    def decide(self, talk: Talk, f: int, column: Column, request: Accept) -> Iterator[Outcome]:
        """Proposer, step 5 after a classic round."""
        flow = talk.flows[f]
        op = Commit(key=KEY, epoch=self.epoch, proposal=request.proposal)
        state, result = self.at_home(flow, column, op)
        decided = AlreadyCommitted(committed=request.proposal)
        yield from self.settled(talk, f, Column(state, column.oks), decided, (flow.home, op, result))

    def settled(
        self, talk: Talk, f: int, column: Column, decision: AlreadyCommitted, label: Label
    ) -> Iterator[Outcome]:
        """This is what the client is told, so it must be the same for all clients. A writer that lost a version goes on
        with the next, if there is one."""
        committed = decision.committed
        for other in talk.decided:
            if other.version == committed.version and other != committed:
                raise Broken(f"two values decided: {proposal(other)} and {proposal(committed)}", label)
        flow = talk.flows[f]
        lost = committed.proposal_id != flow.proposal_id
        goes_on = lost and committed.version < self.world.versions
        commit = Commit(key=KEY, epoch=self.epoch, proposal=committed)
        decided = tuple(sorted({*talk.decided, committed}, key=lambda p: p.version))
        ended = talk.after(f, replace(flow, request=None, done=not goes_on), commit)
        yield replace(ended, decided=decided), column, label

    def at_home(self, flow: Flow, column: Column, op: operations.KeyOp) -> tuple[KeyState, object]:
        state, result = lawful((flow.home, op, None), lambda: home.perform(column.state, op, self.config))
        self.check(column.state, state, (flow.home, op, result))
        return state, result

    def check(self, before: KeyState, after: KeyState, label: Label) -> None:
        """What a replica must not do, whatever the others did."""
        if after is before or not self.world.invariants:
            return
        who = name(label[0])
        if after.committed != before.committed:
            if before.is_final or after.version <= before.version:
                raise Broken(f"{who} overwrites what it has committed", label)
            return
        if after.promised < before.promised:
            raise Broken(f"the promise of {who} falls", label)
        if before.vote is not None and after.vote not in (None, before.vote) and after.vote.ballot.is_fast:
            raise Broken(f"{who} votes twice in the fast round", label)


def lawful(asked: Label, rule: Callable[[], T]) -> T:
    """Production asserts its own invariants: one that fails is a violation."""
    try:
        return rule()
    except AssertionError as error:
        raise Broken(f"an assertion fails: {error}", asked) from error


def opened(talk: Talk, f: int, request: Request) -> Talk:
    return talk.after(f, replace(talk.flows[f], request=request), request)


def in_person(message: Message, replica_id: int) -> bool:
    """A proposer asks itself for its own promise and its fast vote without sending a message."""
    if isinstance(message, Commit) or message.ballot.replica_id != replica_id:
        return False
    return isinstance(message, Prepare) or message.ballot.is_fast


def base_of(request: Request) -> int:
    return request.base if isinstance(request, Prepare) else request.proposal.base


def quorums_with(home_id: int, replicas: Sequence[int], slow: int) -> Iterator[tuple[int, ...]]:
    """A proposer counts its own promise first, so it is in every quorum of its own."""
    for size in range(slow, len(replicas) + 1):
        yield from (quorum for quorum in combinations(replicas, size) if home_id in quorum)
