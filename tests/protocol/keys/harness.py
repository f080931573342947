"""Drives one flow by hand: its home is a real key state, its peers are a script.

A test gives the events the flow will see, in order, and compares the exact list of effects it yielded. `Next` is not
recorded: every scripted event is one, and a script that is not used up is an error.
"""

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from epoxy.model.ballot import Ballot
from epoxy.model.cluster import ClusterConfig, first_epoch
from epoxy.model.messages import (
    Accept,
    Commit,
    KeyRequest,
    Prepare,
    Read,
    Reply,
    Request,
)
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.records import FRESH, KeyState, Proposal, ProposalId, Vote
from epoxy.model.writes import Committed, Path, ReadResult, Source, Write
from epoxy.protocol.effects import Adopt, Also, Answer, Context, Event, Expired, Local, Next, Open, Timing
from epoxy.protocol.keys import acceptor, local
from epoxy.protocol.keys.effects import Effect, Flow, Requests
from epoxy.protocol.keys.operations import NOT_EXPOSED, Cache, Fold, LocalOp, Peek, PendingWrite, Select

T = TypeVar("T")

A, B, C, D, E = 1, 2, 3, 4, 5
KEY = b"k"
TIMING = Timing()


def config_of(
    n: int = 3,
    *,
    epoch: int = 1,
    sealed: int = 0,
    previous: tuple[int, ...] | None = None,
    policy: QuorumPolicy = QuorumPolicy.OPTIMAL,
) -> ClusterConfig:
    first = first_epoch(tuple(range(1, n + 1)), policy)
    return ClusterConfig(
        epoch=epoch,
        coordinator_id=1,
        replicas=first.replicas,
        previous=previous,
        quorum_policy=policy,
        sealed=sealed,
    )


def prop(value: bytes | None, version: int = 1, *, by: int = A, nonce: int = 1, mutable: bool = False) -> Proposal:
    return Proposal(value=value, version=version, mutable=mutable, proposal_id=ProposalId(by, nonce))


def vote_at(proposal: Proposal, ballot: Ballot, epoch: int = 1) -> Vote:
    return Vote(proposal=proposal, ballot=ballot, epoch=epoch)


def fast_vote(proposal: Proposal, epoch: int = 1) -> Vote:
    return vote_at(proposal, Ballot(1, proposal.proposal_id.replica_id), epoch)


def prepare(ballot: Ballot, base: int = 0, epoch: int = 1) -> Prepare:
    return Prepare(key=KEY, epoch=epoch, ballot=ballot, base=base)


def waiting(
    write: Write, *, by: int = A, nonce: int = 1, floor: int = NOT_EXPOSED, lost: Path | None = None
) -> PendingWrite:
    """`lost`: the path of a round that it did not win."""
    return PendingWrite(
        write=write,
        proposal_id=ProposalId(by, nonce),
        floor=floor,
        lost=0 if lost is None else 1,
        travelled=lost or Path.LOCAL,
    )


def fold_of(proposal: Proposal, base: Proposal | None = None) -> Fold:
    """Of one write."""
    won = Committed(proposal=proposal, mine=True, path=Path.FAST, previous=base)
    return Fold(proposal=proposal, answers=(won,), base=base)


def accept(proposal: Proposal, ballot: Ballot, epoch: int = 1) -> Accept:
    return Accept(key=KEY, epoch=epoch, ballot=ballot, proposal=proposal)


def commit(proposal: Proposal, epoch: int = 1) -> Commit:
    return Commit(key=KEY, epoch=epoch, proposal=proposal)


def read(epoch: int = 1) -> Read:
    return Read(key=KEY, epoch=epoch)


def asking(requests: dict[int, tuple[Request, ...]] | Request, *to: int, timer_ms: float = 1000.0) -> Open[Requests]:
    """The round that asks each of `to` the same."""
    envelopes = requests if isinstance(requests, dict) else dict.fromkeys(to, (requests,))
    return Open(envelopes=envelopes, timer_ms=timer_ms)


def asking_fast(request: Accept, *to: int) -> Open[Requests]:
    return asking(request, *to, timer_ms=TIMING.hedge_ms)


def again(to: int, *requests: Request) -> Also[Requests]:
    return Also(envelopes={to: requests})


class FixedDice:
    """No chance at all: every draw is known, every nonce the next number."""

    def __init__(self, uniform: float = 0.0, first_nonce: int = 1) -> None:
        self._uniform = uniform
        self._nonce = first_nonce - 1

    def uniform(self) -> float:
        return self._uniform

    def nonce(self) -> int:
        self._nonce += 1
        return self._nonce


class Bench:
    """A home replica, and the record of what a flow asked for."""

    def __init__(self, state: KeyState = FRESH, *, config: ClusterConfig | None = None, me: int = A) -> None:
        self.me = me
        self.state = state
        self.config = config or config_of()
        self.cached: Proposal | None = None
        self.effects: list[Effect] = []
        self._asked: dict[int, tuple[Request, ...]] = {}

    def context(self, *, timing: Timing = TIMING, uniform: float = 0.0) -> Context:
        return Context(me=self.me, config=self.config, dice=FixedDice(uniform), timing=timing)

    def run(self, flow: Flow[T], *script: "Scripted") -> T:
        """To the end. The script must last exactly as long as the flow does."""
        events = list(script)
        resume: object = None
        while True:
            try:
                effect = flow.send(resume)
            except StopIteration as stop:
                assert events == [], f"never reached: {events}"
                result: T = stop.value
                return result
            resume = self._answer(effect, events)

    def _answer(self, effect: Effect, events: list["Scripted"]) -> object:
        if isinstance(effect, Next):
            assert events, f"the script ends here, the flow does not: {self.effects}"
            event = events.pop(0)
            return event(self) if callable(event) else event
        self.effects.append(as_yielded(effect))
        if isinstance(effect, Open):
            self._asked = dict(effect.envelopes)
        return self._perform(effect) if isinstance(effect, Local) else None

    def _perform(self, effect: Local[LocalOp]) -> object:
        match effect.op:
            case Peek():
                return self._peek(effect.op)
            case Cache():
                self.cached = effect.op.proposal
                return None
            case Adopt():
                self.adopt(effect.op.config)
                return self.config
            case op:
                self.state, result = local.perform(self.state, op, self.config)
                return result

    def _peek(self, op: Peek) -> ReadResult | None:
        if self.state.committed is not None:
            return ReadResult(committed=self.state.committed, source=Source.LOCAL)
        if op.use_cache and self.cached is not None:
            return ReadResult(committed=self.cached, source=Source.CACHE)
        return None

    def adopt(self, config: ClusterConfig) -> None:
        if config.epoch > self.config.epoch:
            self.config = config

    def receive(self, message: KeyRequest) -> Reply:
        """A message from somebody else reaches the home replica."""
        self.state, reply = acceptor.step(self.state, message, self.config)
        return reply

    def own_answer(self) -> Answer:
        """The home replica's answer to what the open round asked it."""
        (request,) = self._asked[self.me]
        assert isinstance(request, KeyRequest)
        return Answer(self.me, self.receive(request))


def as_yielded(effect: Effect) -> Effect:
    """A copy that what happens to the pending writes later does not change."""
    if isinstance(effect, Local) and isinstance(effect.op, Select):
        return Local(replace(effect.op, writes=tuple(replace(pending) for pending in effect.op.writes)))
    return effect


Scripted = Event | Callable[[Bench], Event]


def own(bench: Bench) -> Event:
    return bench.own_answer()


def after(message: KeyRequest, event: Event) -> Scripted:
    """`message` reaches the home replica just before the flow sees `event`."""

    def happen(bench: Bench) -> Event:
        bench.receive(message)
        return event

    return happen


EXPIRED = Expired()
