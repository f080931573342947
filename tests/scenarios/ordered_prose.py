"""The ordered engine's values as words. `A.2` is the second command that A put forward; `..A.2` all up to it."""

from typing import assert_never

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.instances import (
    Command,
    Decided,
    Deps,
    Forgotten,
    Instance,
    InstanceId,
    Noted,
    OrderedAccept,
    OrderedCommit,
    OrderedReply,
    OrderedRequest,
    OrderedVote,
    Overloaded,
    Overtaken,
    PreAccept,
    PreAcceptOk,
    Recover,
    RecoverOk,
    Validate,
    ValidateOk,
    Voted,
    Waiting,
)
from epoxy.model.transactions import Add, Delete, Executed, Expire, Get, Operation, Put
from epoxy.protocol.txn.coordinator import Abandoned, CommandDecided, TooMuch
from epoxy.protocol.txn.effects import Begin, FinishFast, Join, Look, TxnOp
from tests.scenarios import prose
from tests.scenarios.table import ScenarioError


def iid(instance_id: InstanceId) -> str:
    return f"{prose.name(instance_id.replica_id)}.{instance_id.slot}"


def parse_iid(word: str) -> InstanceId:
    who, slot = word.split(".")
    return InstanceId(ord(who) - ord("A") + 1, int(slot))


def deps(found: Deps) -> str:
    named = [*(f"..{iid(end)}" for end in found.upto), *map(iid, found.also)]
    return f"after {' '.join(named)}" if named else "after nothing"


def ballot(b: Ballot) -> str:
    return "(0)" if b == NO_BALLOT else prose.ballot(b)


def operation(op: Operation) -> str:
    match op:
        case Get():
            return f"get {op.key.decode()}"
        case Put():
            return f"put {op.key.decode()} {op.value.decode()}"
        case Delete():
            return f"delete {op.key.decode()}"
        case Add():
            return f"add {op.key.decode()} {'-' if op.negative else ''}{op.amount}"
        case Expire():
            return f"expire {op.key.decode()} {op.version}"
        case _:
            assert_never(op)


def parse_operation(words: str) -> Operation:
    match words.split():
        case ["get", key]:
            return Get(key=key.encode())
        case ["put", key, value]:
            return Put(key=key.encode(), value=value.encode())
        case ["delete", key]:
            return Delete(key=key.encode())
        case ["add", key, amount]:
            return Add(key=key.encode(), amount=int(amount))
        case _:
            raise ScenarioError(f"no operation: {words}")


def command(c: Command | None) -> str:
    if c is None:
        return "nothing"
    return ", ".join(operation(op) for txn in c.txns for op in txn.then)


def results(found: list[Executed]) -> str:
    values = [done.value for each in found for done in each.done]
    return ", ".join("-" if value is None else value.decode() for value in values)


def request(r: OrderedRequest) -> str:
    match r:
        case PreAccept():
            return f"PreAccept {iid(r.id)} ({command(r.command)}) {deps(r.deps)}"
        case OrderedAccept():
            return f"Accept {iid(r.id)} at {ballot(r.ballot)}: {command(r.command)}, {deps(r.deps)}"
        case OrderedCommit():
            return f"Commit {iid(r.id)}: {command(r.command)}, {deps(r.deps)}"
        case Recover():
            return f"Recover {iid(r.id)} at {ballot(r.ballot)}"
        case Validate():
            return f"Validate {iid(r.id)} at {ballot(r.ballot)} {deps(r.deps)}"
        case Waiting():
            return f"Waiting for rivals of {iid(r.id)}, {r.count} took it as sent"
        case OrderedVote():
            return f"{prose.name(r.sender)} voted for {iid(r.id)} at {ballot(r.ballot)}"
        case _:
            raise AssertionError(r)


def reply(r: OrderedReply) -> str:
    match r:
        case PreAcceptOk():
            return f"PreAcceptOk{also(r.also)}"
        case RecoverOk():
            return f"RecoverOk, {held(r.held)}"
        case ValidateOk():
            return f"ValidateOk{', rivals ' + ' '.join(iid(each.id) for each in r.rivals) if r.rivals else ''}"
        case Decided():
            return f"Decided: {command(r.commit.command)}, {deps(r.commit.deps)}"
        case Overtaken():
            return f"Overtaken by {ballot(r.ballot)}"
        case Voted() | Noted() | Forgotten() | Overloaded():
            return type(r).__name__
        case _:
            raise AssertionError(r)


def also(found: tuple[InstanceId, ...]) -> str:
    return f", also {' '.join(map(iid, found))}" if found else ""


def held(instance: Instance) -> str:
    """What a replica holds, in the fewest words that tell cases apart."""
    what = f"{instance.phase.value}"
    if instance.phase.value == "accepted":
        what += f" {command(instance.chosen)} at {ballot(instance.accepted)}"
    elif instance.is_committed:
        what += f" {command(instance.chosen)}"
    return what if instance.deps is None else f"{what} {deps(instance.deps)}"


def at_home(op: TxnOp, result: object) -> str | None:
    """None: nothing to speak of."""
    match op:
        case Begin():
            assert isinstance(result, PreAccept)
            return f"puts {iid(op.id)} forward: {command(op.command)}, {deps(result.deps)}"
        case FinishFast():
            return f"concludes {iid(op.id)}: {'committed' if isinstance(result, OrderedCommit) else reply(result)}"  # type: ignore[arg-type]
        case Join():
            joined = result if isinstance(result, Decided) else result[1]  # type: ignore[index]
            return f"recovers {iid(op.id)}: {'it is decided' if isinstance(joined, Decided) else ballot(joined.ballot)}"
        case Look():
            return None
        case OrderedAccept() | Validate():
            return f"at home, {request(op)}: {reply(result)}"  # type: ignore[arg-type]
        case OrderedCommit():
            return f"learns {iid(op.id)}: {command(op.command)}, {deps(op.deps)}"
        case _:
            raise AssertionError(op)


def ending(e: object) -> str:
    match e:
        case CommandDecided():
            return f"decided ({e.path.value})"
        case Abandoned() | False:
            return "left to others"
        case True:
            return "recovered"
        case TooMuch():
            return "not begun"
        case _:
            raise AssertionError(e)
