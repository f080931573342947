"""The steps of a small world as text."""

from msgspec import Struct

from epoxy.model.ballot import Ballot
from epoxy.model.messages import (
    Accept,
    AcceptOk,
    AlreadyCommitted,
    Commit,
    CommitConflict,
    CommitOk,
    HigherBallot,
    Prepare,
    PrepareOk,
)
from epoxy.model.records import Proposal, Vote
from epoxy.protocol.keys.operations import Conclude, Concluded, FastVote, Reserve, Reserved, Select


class Promises(Struct, frozen=True):
    """What a recovery chooses from."""

    quorum: tuple[int, ...]


class Chosen(Struct, frozen=True):
    """It carries this on."""

    request: Accept


class NothingToCarryOn(Struct, frozen=True):
    """It is a reader, and there is nothing to carry on."""


class Restarted(Struct, frozen=True):
    """It is forgotten."""


class Adopted(Struct, frozen=True):
    """It moves to a newer configuration."""

    epoch: int


class Renewed(Struct, frozen=True):
    """What it was doing begins again in the epoch it has adopted."""

    epoch: int


class Promoted(Struct, frozen=True):
    """The new members take over."""


Label = tuple[int, object, object]
"""A step: the replica it happens at, the request, and the result. It becomes text only in a trace that is shown."""


def name(replica_id: int) -> str:
    return chr(ord("A") + replica_id - 1)


def ballot(b: Ballot) -> str:
    return f"({b.counter},{name(b.replica_id)})"


def proposal(p: Proposal) -> str:
    value = p.value.decode() if p.value is not None else "-"
    return f"{value} as version {p.version}" if p.mutable else value


def vote(v: Vote | None) -> str:
    return f"its vote {proposal(v.proposal)} at {ballot(v.ballot)}" if v is not None else "no vote"


def describe(label: Label) -> str:
    """One line of a trace."""
    replica_id, asked, result = label
    who = name(replica_id)
    match asked, result:
        case None, Adopted():
            return f"{who} adopts epoch {result.epoch}"
        case None, Renewed():
            return f"{who} begins again in epoch {result.epoch}"
        case None, Promoted():
            return "the new members are synced: epoch 3 is published"
        case _, None:
            return f"{who} stumbles over {request(asked)}"
        case Accept(), AcceptOk():
            return f"{who} votes {proposal(asked.proposal)} at {ballot(asked.ballot)}"
        case Prepare(), PrepareOk():
            return f"{who} promises {ballot(asked.ballot)} and tells {vote(result.vote)}"
        case Commit(), CommitOk():
            return f"{who} commits {proposal(asked.proposal)}"
        case _:
            return proposer(who, asked, result) or f"{who} answers {request(asked)} with {answer(result)}"


def proposer(who: str, asked: object, result: object) -> str | None:
    match result:
        case FastVote():
            return f"{who} votes {proposal(result.fold.proposal)} at (1,{who}) for itself and sends Accept"
        case Reserved():
            return f"{who} promises itself {ballot(result.ballot)} with {vote(result.vote)} and sends Prepare"
        case Chosen():
            return f"{who} has {request(asked)} and sends {request(result.request)}"
        case NothingToCarryOn():
            return f"{who} has {request(asked)} and finds that nothing was chosen"
        case Concluded():
            return f"{who} has {request(asked)} and commits"
        case Restarted():
            return f"{who} restarts and forgets what it was proposing"
        case _:
            return None


def request(asked: object) -> str:
    match asked:
        case Prepare():
            return f"Prepare {ballot(asked.ballot)}"
        case Accept():
            return f"Accept {ballot(asked.ballot)} {proposal(asked.proposal)}"
        case Commit():
            return f"Commit {proposal(asked.proposal)}"
        case Select():
            return "a new write"
        case Reserve():
            return "a retry"
        case Conclude():
            return f"a fast quorum for {proposal(asked.proposal)}"
        case Promises():
            return f"the promises of {', '.join(map(name, asked.quorum))}"
        case _:
            return str(asked)


def answer(result: object) -> str:
    match result:
        case HigherBallot():
            return f"HigherBallot {ballot(result.ballot)}"
        case AlreadyCommitted() | CommitConflict():
            return f"{type(result).__name__} {proposal(result.committed)}"
        case _:
            return type(result).__name__
