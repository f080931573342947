"""Recovery of an instance: which decision an earlier ballot may have made, and if none, which one may be made.

The numbers are those of docs/protocol/ordered.md; the rules those of Ryabinin, Gotsman and Sutra (OPODIS 2025).
"""

from collections.abc import Mapping

from msgspec import Struct

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.instances import (
    NOTHING,
    Command,
    Decided,
    Deps,
    Instance,
    InstanceId,
    OrderedCommit,
    OrderedReply,
    Overtaken,
    Phase,
    Recover,
    RecoverOk,
    Rival,
    Validate,
    ValidateOk,
    Waiting,
)
from epoxy.model.quorum import Quorums
from epoxy.protocol.effects import Also, Answer, Context, Expired, Local, Next, Open, Pause, Tell
from epoxy.protocol.txn.acceptor import commit_of, is_settled_for
from epoxy.protocol.txn.coordinator import broadcast_commit, decide
from epoxy.protocol.txn.effects import Flow, Join, Look, Rescue, Seen


class Learn(Struct, frozen=True):
    """It is decided."""

    commit: OrderedCommit


class Propose(Struct, frozen=True):
    """This may be voted for. No command: a Nop."""

    command: Command | None
    deps: Deps


class FastPathCheck(Struct, frozen=True):
    """It may have been decided on the fast path: ask the quorum whether that is possible. `equal` replicas of it took
    the command as it was sent."""

    command: Command
    deps: Deps
    equal: int


NOP = Propose(None, NOTHING)

Choice = Learn | Propose | FastPathCheck


def choose(instance_id: InstanceId, held: Mapping[int, Instance], quorums: Quorums) -> Choice:
    """Rule 6: from what a slow quorum held when it joined the ballot."""
    for each in held.values():
        if each.is_committed:
            return Learn(commit_of(each))
    latest = max(each.accepted for each in held.values())
    for each in held.values():
        if each.phase is Phase.ACCEPTED and each.accepted == latest:
            assert each.deps is not None
            return Propose(each.chosen, each.deps)
    if coordinator_answered(instance_id, held):
        return NOP
    equal = [each for each in held.values() if took_as_sent(each)]
    if not equal or len(equal) < len(held) - quorums.e:
        return NOP
    command, deps = equal[0].command, equal[0].deps
    assert command is not None
    assert deps is not None
    return FastPathCheck(command, deps, len(equal))


def coordinator_answered(instance_id: InstanceId, held: Mapping[int, Instance]) -> bool:
    """It has joined this ballot, so it has not finished the fast path and will not."""
    return instance_id.replica_id in held


def took_as_sent(each: Instance) -> bool:
    return each.phase is Phase.PREACCEPTED and each.deps == each.initial


def rule_out(rivals: Mapping[InstanceId, Rival], choice: FastPathCheck, asked: set[int], quorums: Quorums) -> bool:
    """Rule 7: whether some rival proves that the fast path was not taken."""
    if any(rival.is_committed for rival in rivals.values()):
        return True
    return choice.equal == len(asked) - quorums.e and any(each.replica_id not in asked for each in rivals)


def recover(instance_id: InstanceId, ctx: Context) -> Flow[bool]:
    """Whether it is decided now. If not, a recovery at a higher ballot is under way, or too few answer."""
    above = NO_BALLOT
    for attempt in range(ctx.timing.retries):
        start: tuple[Instance, Recover] | Decided = yield Local(Join(id=instance_id, above=above))
        if isinstance(start, Decided):
            return True
        held, request = start
        result = yield from recover_at(request, held, ctx.patient(attempt))
        if result is True:
            return True
        if isinstance(result, Ballot):
            above = max(above, result)
        yield Pause(delay_ms=ctx.backoff_ms(attempt))
    return False


def recover_at(request: Recover, own: Instance, ctx: Context) -> Flow[bool | Ballot]:
    """One ballot. Decided or not, or the higher ballot that refused it."""
    held = yield from gather(request, own, ctx)
    if not isinstance(held, dict):
        return held if held is not None else False
    choice = choose(request.id, held, ctx.config.quorums)
    verdict = (
        (yield from check_fast_path(request, choice, set(held), ctx)) if isinstance(choice, FastPathCheck) else choice
    )
    if verdict is None:
        return False
    if isinstance(verdict, Learn):
        yield Local(verdict.commit)
        yield broadcast_commit(verdict.commit, ctx)
        return True
    return (yield from decide(request.id, request.ballot, verdict.command, verdict.deps, ctx))


def gather(request: Recover, own: Instance, ctx: Context) -> Flow[dict[int, Instance] | Ballot | None]:
    """What a slow quorum held, or one replica that knows the decision. None: too few answer."""
    held = {ctx.me: own}
    yield Open(envelopes=ctx.to_others(request), timer_ms=ctx.timing.round_timeout_ms)
    while len(held) < ctx.config.quorums.slow:
        event = yield Next()
        if isinstance(event, Expired):
            return None
        match event.reply:
            case RecoverOk(held=instance):
                held[event.sender] = instance
                if instance.is_committed:
                    return held
            case Overtaken(ballot=higher):
                return higher
            case _:
                pass
    return held


def check_fast_path(
    request: Recover, choice: FastPathCheck, asked: set[int], ctx: Context
) -> Flow[Propose | Learn | None]:
    """Rule 7. None: a replica has joined a higher ballot, or does not answer."""
    validate = Validate(id=request.id, ballot=request.ballot, command=choice.command, deps=choice.deps)
    own: OrderedReply = yield Local(validate)
    if isinstance(own, Decided):
        return Learn(own.commit)
    if not isinstance(own, ValidateOk):
        return None
    rivals = {rival.id: rival for rival in own.rivals}
    missing = asked - {ctx.me}
    yield Also(envelopes=dict.fromkeys(missing, validate), timer_ms=ctx.timing.round_timeout_ms)
    while missing:
        event = yield Next()
        if isinstance(event, Expired):
            return None
        match event.reply:
            case ValidateOk(rivals=found):
                missing.discard(event.sender)
                rivals.update({r.id: r for r in found if r.is_committed or r.id not in rivals})
            case _ if (late := late_answer(request, event, asked)) is not None:
                return late
            case Overtaken():
                return None
            case _:
                pass
    if not rivals:
        return Propose(choice.command, choice.deps)
    if rule_out(rivals, choice, asked, ctx.config.quorums):
        return NOP
    return (yield from wait_for_rivals(request, choice, tuple(sorted(rivals)), asked, ctx))


def late_answer(request: Recover, event: Answer, asked: set[int]) -> Propose | Learn | None:
    """The reply of a replica outside the quorum, which came after it was complete, may decide the recovery."""
    if isinstance(event.reply, Decided):
        return Learn(event.reply.commit)
    if not isinstance(event.reply, RecoverOk) or event.sender in asked:
        return None
    held = event.reply.held
    if held.is_committed:
        return Learn(commit_of(held))
    if held.phase is Phase.ACCEPTED:
        assert held.deps is not None
        return Propose(held.chosen, held.deps)
    return NOP if event.sender == request.id.replica_id else None


def wait_for_rivals(
    request: Recover, choice: FastPathCheck, rivals: tuple[InstanceId, ...], asked: set[int], ctx: Context
) -> Flow[Propose | Learn | None]:
    """Until the rivals are decided, or one of their recoveries gives way. Two recoveries may wait for each other: the
    one whose command more replicas took as it was sent goes on."""
    waiting = Waiting(id=request.id, count=choice.equal)
    yield Tell(envelopes=ctx.to_others(waiting))
    yield Also(envelopes={}, timer_ms=ctx.timing.round_timeout_ms)
    while True:
        seen: Seen = yield Local(Look(ids=(request.id, *rivals)))
        verdict = check_rivals(request, choice, seen, ctx.config.quorums)
        if verdict is not None:
            return verdict
        if seen.instances[0].ballot != request.ballot:
            return None
        event = yield Next(watching=rivals)
        if isinstance(event, Answer):
            late = late_answer(request, event, asked)
            if late is not None:
                return late
        elif isinstance(event, Expired):
            yield Rescue(ids=rivals)
            yield Tell(envelopes=ctx.to_others(waiting))
            yield Also(envelopes={}, timer_ms=ctx.timing.round_timeout_ms)


def check_rivals(request: Recover, choice: FastPathCheck, seen: Seen, quorums: Quorums) -> Propose | Learn | None:
    mine, *rivals = seen.instances
    if mine.is_committed:
        return Learn(commit_of(mine))
    if any(each.is_committed and not is_settled_for(request.id, each) for each in rivals):
        return NOP
    if all(is_settled_for(request.id, each) for each in rivals):
        return Propose(choice.command, choice.deps)
    if any(count > quorums.n - quorums.f - quorums.e for count in seen.waiting[1:]):
        return NOP
    return None
