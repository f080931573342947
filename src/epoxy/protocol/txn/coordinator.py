"""The flow of one command, from its coordinator to a decision. The numbers are those of docs/protocol/ordered.md."""

from typing import Literal

from msgspec import Struct

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.instances import (
    Command,
    Decided,
    Deps,
    InstanceId,
    OrderedAccept,
    OrderedCommit,
    OrderedReply,
    OrderedRequest,
    Overloaded,
    Overtaken,
    PreAccept,
    PreAcceptOk,
    Voted,
)
from epoxy.model.writes import Path
from epoxy.protocol.effects import Also, Answer, Context, Expired, Local, Next, Open, Tell
from epoxy.protocol.txn.effects import Begin, FinishFast, Flow

SENDS = 3
"""How often a command is sent to replicas that do not answer before it is left to recovery."""


class CommandDecided(Struct, frozen=True):
    """Decided, on this path."""

    path: Path


class Abandoned(Struct, frozen=True):
    """Another replica recovers it, or too few answer. It may still be decided."""


class TooMuch(Struct, frozen=True):
    """Never begun: this replica is too far behind."""


Ending = CommandDecided | Abandoned | TooMuch


def submit(instance_id: InstanceId, command: Command, ctx: Context) -> Flow[Ending]:
    begun: PreAccept | Overloaded = yield Local(Begin(id=instance_id, command=command))
    if isinstance(begun, Overloaded):
        return TooMuch()
    poll = Poll(begun.deps, ctx)
    yield from collect_answers(poll, begun, ctx)
    if poll.decided is not None:
        return (yield from adopt_decision(poll.decided, ctx))
    if poll.is_fast:
        return (yield from finish_fast(instance_id, ctx))
    if poll.overtaken or not poll.is_enough:
        return Abandoned()
    decided = yield from decide(instance_id, NO_BALLOT, command, poll.union, ctx)
    return CommandDecided(Path.SLOW) if decided is True else Abandoned()


class Poll:
    """The answers to one PreAccept. The coordinator's own is what it sent, so it counts from the start."""

    def __init__(self, sent: Deps, ctx: Context) -> None:
        self.union = sent
        self.answered = {ctx.me}
        self.refused: set[int] = set()
        self.unequal = False
        self.overtaken = False
        self.decided: OrderedCommit | None = None
        self._quorums = ctx.config.quorums

    @property
    def is_fast(self) -> bool:
        """Rule 3: a fast quorum added no dependencies. Merging answers that differ is not fast."""
        return not self.unequal and len(self.answered) >= self._quorums.fast

    @property
    def is_enough(self) -> bool:
        return len(self.answered) >= self._quorums.slow

    @property
    def may_be_fast(self) -> bool:
        return not self.unequal and self._quorums.n - len(self.refused) >= self._quorums.fast

    @property
    def settled(self) -> bool:
        if self.decided is not None or self.overtaken or self.is_fast:
            return True
        return self.is_enough and not self.may_be_fast

    def count(self, sender: int, reply: object) -> None:
        match reply:
            case PreAcceptOk():
                self.answered.add(sender)
                self.unequal = self.unequal or bool(reply.also)
                self.union = self.union.plus(frozenset(reply.also))
            case Decided():
                self.decided = reply.commit
            case Overtaken():
                self.overtaken = True
            case _:
                self.refused.add(sender)


def collect_answers(poll: Poll, request: PreAccept, ctx: Context) -> Flow[None]:
    """Until the answers decide what to do. When the timer rings, a slow quorum is enough."""
    if poll.settled:
        return
    yield Open(envelopes=ctx.to_others(request), timer_ms=ctx.timing.hedge_ms)
    sends = 1
    while not poll.settled:
        event = yield Next()
        if isinstance(event, Answer):
            poll.count(event.sender, event.reply)
        elif isinstance(event, Expired):
            if poll.is_enough or sends == SENDS:
                return
            poll.refused.clear()
            yield Also(
                envelopes=ctx.to_rest(request, poll.answered), timer_ms=ctx.patient(sends - 1).timing.round_timeout_ms
            )
            sends += 1


def finish_fast(instance_id: InstanceId, ctx: Context) -> Flow[Ending]:
    """Committed locally before the Commit is sent: a coordinator that lost it in a crash could decide otherwise."""
    result: OrderedCommit | Decided | Overtaken = yield Local(FinishFast(id=instance_id))
    if isinstance(result, Overtaken):
        return Abandoned()
    commit = result.commit if isinstance(result, Decided) else result
    yield broadcast_commit(commit, ctx)
    return CommandDecided(Path.FAST)


def adopt_decision(commit: OrderedCommit, ctx: Context) -> Flow[Ending]:
    yield Local(commit)
    yield broadcast_commit(commit, ctx)
    return CommandDecided(Path.SLOW)


def broadcast_commit(commit: OrderedCommit, ctx: Context) -> Tell[OrderedRequest]:
    return Tell(envelopes=ctx.to_others(commit))


def decide(
    instance_id: InstanceId, ballot: Ballot, command: Command | None, deps: Deps, ctx: Context
) -> Flow[bool | Ballot]:
    """Rule 4, of a coordinator or a recovery: ask the others for votes, vote locally meanwhile, and broadcast the
    decision. A ballot as the result: refused because of it."""
    vote = OrderedAccept(id=instance_id, ballot=ballot, command=command, deps=deps)
    yield Open(envelopes=ctx.to_others(vote), timer_ms=ctx.timing.round_timeout_ms)
    own: OrderedReply = yield Local(vote)
    if isinstance(own, Decided):
        return True
    if not isinstance(own, Voted):
        return own.ballot if isinstance(own, Overtaken) else False
    result = yield from count_votes(vote, ctx)
    if not isinstance(result, OrderedCommit):
        return result
    # A quorum has it on disk, so it may be sent before it is durable here, unlike in `finish_fast`.
    yield broadcast_commit(result, ctx)
    yield Local(result)
    return True


def count_votes(vote: OrderedAccept, ctx: Context) -> Flow[OrderedCommit | Ballot | Literal[False]]:
    """Replicas that do not answer are asked again; a reply to any of these requests counts. False: too few answer."""
    voted, refused, sends, quorums = {ctx.me}, set[int](), 1, ctx.config.quorums
    while len(voted) < quorums.slow:
        event = yield Next()
        if isinstance(event, Expired):
            if sends == SENDS:
                return False
            refused.clear()
            yield Also(envelopes=ctx.to_rest(vote, voted), timer_ms=ctx.patient(sends).timing.round_timeout_ms)
            sends += 1
            continue
        match event.reply:
            case Voted():
                voted.add(event.sender)
            case Decided(commit=commit):
                return commit
            case Overtaken(ballot=higher):
                return higher
            case _:
                refused.add(event.sender)
                if quorums.n - len(refused) < quorums.slow:
                    return False
    return OrderedCommit(id=vote.id, command=vote.command, deps=vote.deps)
