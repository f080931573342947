"""The steps of a small world, in words."""

from msgspec import Struct

from epoxy.consensus.home import Conclude, Concluded, FastVote, Reserve, Reserved, Select
from epoxy.model.ballot import Ballot
from epoxy.model.messages import (
    Accept,
    AcceptOk,
    AlreadyCommitted,
    Behind,
    Commit,
    CommitConflict,
    CommitOk,
    HigherBallot,
    Prepare,
    PrepareOk,
)
from epoxy.model.records import Proposal, Vote


class Promises(Struct, frozen=True):
    """What a recovery has to choose from."""

    quorum: tuple[int, ...]


class Chosen(Struct, frozen=True):
    """What it chose."""

    quorum: tuple[int, ...]
    request: Accept


class Restarted(Struct, frozen=True):
    pass


Label = tuple[int, object, object]
"""A step: the replica it happens at, what was asked of it, and what came of it. Told only when somebody reads it."""


def name(replica_id: int) -> str:
    return chr(ord("A") + replica_id - 1)


def ballot(b: Ballot) -> str:
    return f"({b.counter},{name(b.replica_id)})"


def proposal(p: Proposal) -> str:
    value = p.value.decode() if p.value is not None else "-"
    return f"{value} as version {p.version}" if p.mutable else value


def vote(v: Vote | None) -> str:
    return f"its vote {proposal(v.proposal)} at {ballot(v.ballot)}" if v is not None else "no vote"


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
            return f"the fast votes for {proposal(asked.proposal)}"
        case _:
            return str(asked)


def describe(label: Label) -> str:
    """One line of a trace."""
    replica_id, asked, result = label
    who = name(replica_id)
    match asked, result:
        case _, FastVote():
            return f"{who} votes {proposal(result.proposal)} at (1,{who}) for itself and sends Accept"
        case _, Reserved():
            return f"{who} promises itself {ballot(result.ballot)} with {vote(result.vote)} and sends Prepare"
        case Accept(), AcceptOk():
            return f"{who} votes {proposal(asked.proposal)} at {ballot(asked.ballot)}"
        case Prepare(), PrepareOk():
            return f"{who} promises {ballot(asked.ballot)} and tells {vote(result.vote)}"
        case Chosen(), _:
            quorum = ", ".join(map(name, asked.quorum))
            chosen = f"Accept {ballot(asked.request.ballot)} {proposal(asked.request.proposal)}"
            return f"{who} has the promises of {quorum} and sends {chosen}"
        case Conclude(), Concluded():
            return f"{who} has a fast quorum and commits {proposal(asked.proposal)}"
        case Commit(), CommitOk():
            return f"{who} commits {proposal(asked.proposal)}"
        case Promises(), _:
            return f"{who} has to choose from the promises of {', '.join(map(name, asked.quorum))}"
        case Restarted(), _:
            return f"{who} restarts and forgets what it was proposing"
        case _:
            return f"{who} answers {request(asked)} with {answer(result)}"


def answer(result: object) -> str:
    match result:
        case HigherBallot():
            return f"HigherBallot {ballot(result.ballot)}"
        case AlreadyCommitted() | CommitConflict():
            return f"{type(result).__name__} {proposal(result.committed)}"
        case Behind():
            return f"Behind {result.version}"
        case _:
            return type(result).__name__
