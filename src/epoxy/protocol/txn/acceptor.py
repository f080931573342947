"""The acceptor of the ordered engine: an instance's state and a message in, a state and a reply out.

The numbers are those of docs/protocol/ordered.md. A reply leaves only when everything it rests on is durable.
"""

from typing import assert_never

from msgspec.structs import replace

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.errors import InvariantViolation
from epoxy.model.instances import (
    MAX_DEPENDENCIES,
    NOTHING,
    Command,
    Decided,
    Deps,
    Forgotten,
    Instance,
    InstanceId,
    InstanceReply,
    Noted,
    OrderedAccept,
    OrderedCommit,
    Overloaded,
    Overtaken,
    Phase,
    PreAccept,
    PreAcceptOk,
    Recover,
    RecoverOk,
    Rival,
    Validate,
    ValidateOk,
    Voted,
)
from epoxy.protocol.txn.log import InstanceLog, is_void

Step = tuple[Instance, InstanceReply]
InstanceRequest = PreAccept | OrderedAccept | OrderedCommit | Recover | Validate


def step(log: InstanceLog, message: InstanceRequest) -> Step:
    state = log.get(message.id)
    if log.is_forgotten(message.id):
        return state, Forgotten()
    if isinstance(message, OrderedCommit):
        return learn(state, message)
    if state.is_committed:
        return state, reply_decided(state, message)
    match message:
        case PreAccept():
            return pre_accept(log, state, message)
        case OrderedAccept():
            return accept(state, message)
        case Recover():
            return recover(state, message)
        case Validate():
            return validate(log, state, message)
        case _:
            assert_never(message)


def reply_decided(state: Instance, message: InstanceRequest) -> InstanceReply:
    """A decision is final, whatever the ballot of the request."""
    return RecoverOk(held=state) if isinstance(message, Recover) else Decided(commit=commit_of(state))


def commit_of(state: Instance) -> OrderedCommit:
    assert state.deps is not None
    return OrderedCommit(id=state.id, command=state.chosen, deps=state.deps)


def pre_accept(log: InstanceLog, state: Instance, message: PreAccept) -> Step:
    """Rule 2. Once for each instance, and only before its recovery begins. A resend gets the same reply."""
    if state.ballot != NO_BALLOT or state.phase is Phase.ACCEPTED:
        return state, Overtaken(ballot=state.ballot)
    if state.phase is Phase.PREACCEPTED:
        return state, PreAcceptOk(also=added_deps(state))
    if log.is_far_beyond(message.deps):
        return state, Overloaded()
    more = log.outside(message.id, message.command, message.deps)
    if len(more) > MAX_DEPENDENCIES:
        return state, Overloaded()
    after = pre_accepted(message, message.deps.plus(more))
    return after, PreAcceptOk(also=added_deps(after))


def pre_accepted(message: PreAccept, deps: Deps) -> Instance:
    return Instance(id=message.id, phase=Phase.PREACCEPTED, command=message.command, deps=deps, initial=message.deps)


def added_deps(state: Instance) -> tuple[InstanceId, ...]:
    """Dependencies this replica added to those that were sent."""
    assert state.deps is not None
    assert state.initial is not None
    return tuple([each for each in state.deps.also if each not in state.initial])


def accept(state: Instance, message: OrderedAccept) -> Step:
    """Rule 4."""
    if state.ballot > message.ballot:
        return state, Overtaken(ballot=state.ballot)
    return voted(state, message), Voted()


def voted(state: Instance, message: OrderedAccept) -> Instance:
    return replace(
        state,
        phase=Phase.ACCEPTED,
        ballot=message.ballot,
        accepted=message.ballot,
        nop=message.command is None,
        command=known(state, message.command),
        deps=message.deps,
    )


def learn(state: Instance, message: OrderedCommit) -> Step:
    """A decision is safe to learn in any ballot. A second one is a bug, and overwrites nothing."""
    if state.is_committed:
        if (state.chosen, state.deps) != (message.command, message.deps):
            raise InvariantViolation(f"two decisions for instance {state.id}: {commit_of(state)} and {message}")
        return state, Noted()
    return committed(state, message.command, message.deps), Noted()


def committed(state: Instance, command: Command | None, deps: Deps) -> Instance:
    return replace(state, phase=Phase.COMMITTED, nop=command is None, command=known(state, command), deps=deps)


def known(state: Instance, command: Command | None) -> Command | None:
    """An instance has one command, whatever is decided: once received, it is kept."""
    return command if command is not None else state.command


def recover(state: Instance, message: Recover) -> Step:
    """Rule 5. Joining a ballot leaves the last vote as it is."""
    if message.ballot <= state.ballot:
        return state, Overtaken(ballot=state.ballot)
    return joined(state, message.ballot), RecoverOk(held=state)


def joined(state: Instance, ballot: Ballot) -> Instance:
    return replace(state, ballot=ballot)


def validate(log: InstanceLog, state: Instance, message: Validate) -> Step:
    """Rule 7. From here on this replica includes the command in the dependencies of others that interfere with it, so
    that a later command cannot miss one that is about to be decided."""
    if state.ballot != message.ballot:
        return state, Overtaken(ballot=state.ballot)
    found = rivals(log, message)
    if len(found) > MAX_DEPENDENCIES:
        return state, Overloaded()
    return remember_command(state, message), ValidateOk(rivals=tuple(found))


def remember_command(state: Instance, message: Validate) -> Instance:
    return replace(state, command=message.command, initial=message.deps)


def rivals(log: InstanceLog, message: Validate) -> list[Rival]:
    """Commands that interfere, are not in its dependencies, and do not have it among theirs."""
    found: list[Rival] = []
    for instance_id in sorted(log.outside(message.id, message.command, message.deps)):
        other = log.get(instance_id)
        deps = other.deps if other.is_committed else other.initial
        if deps is not None and message.id not in deps:
            found.append(Rival(id=instance_id, is_committed=other.is_committed))
    return found


# Operations of a coordinator at its own replica


def begin(log: InstanceLog, instance_id: InstanceId, command: Command) -> tuple[Instance, PreAccept | Overloaded]:
    """Rule 1. The coordinator's own reply is what it sends."""
    state = Instance(id=instance_id, command=command)
    deps = log.initial(state)
    if len(deps.also) > MAX_DEPENDENCIES:
        return log.get(instance_id), Overloaded()
    message = PreAccept(id=instance_id, command=command, deps=deps)
    return pre_accepted(message, deps), message


def conclude(state: Instance) -> tuple[Instance, OrderedCommit | Decided | Overtaken]:
    """Rule 3, after a fast quorum. A recovery that has this replica's reply has ruled the fast path out, so a ballot
    joined since forbids the commit. Do not optimise this check away."""
    if state.is_committed:
        return state, Decided(commit=commit_of(state))
    if overtaken(state):
        return state, Overtaken(ballot=state.ballot)
    assert state.phase is Phase.PREACCEPTED
    assert state.initial is not None
    after = committed(state, state.command, state.initial)
    return after, commit_of(after)


def overtaken(state: Instance) -> bool:
    return state.ballot != NO_BALLOT


def join(state: Instance, me: int, above: Ballot) -> tuple[Instance, Recover | Decided]:
    """A ballot of this replica, above all it knows of. Durable before use, so that none is used twice."""
    if state.is_committed:
        return state, Decided(commit=commit_of(state))
    ballot = Ballot(max(state.ballot, above).counter + 1, me)
    return joined(state, ballot), Recover(id=state.id, ballot=ballot)


def is_settled_for(instance_id: InstanceId, rival: Instance) -> bool:
    """A rival that no longer matters to the command: it is a Nop, or depends on it."""
    return rival.is_committed and (is_void(rival) or instance_id in (rival.deps or NOTHING))
