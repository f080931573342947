"""The steps of a small world as text."""

from msgspec import Struct

from epoxy.model.ballot import Ballot
from epoxy.model.messages import (
    Accept,
    AcceptOk,
    AlreadyCommitted,
    CarryAnswer,
    Commit,
    CommitConflict,
    CommitOk,
    HigherBallot,
    Prepare,
    PrepareOk,
)
from epoxy.model.records import Proposal, ProposalId, Vote
from epoxy.protocol.keys import folding
from epoxy.protocol.keys.operations import Conclude, Concluded, FastVote, Reserve, Reserved, Select, Unfolded


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


class HandedOver(Struct, frozen=True):
    """A write leaves for another replica, which is to fold it."""

    write: ProposalId
    receiver: int


class TakenOver(Struct, frozen=True):
    """It is taken there, or found among the decisions, or declined."""

    write: ProposalId
    found: int


class Declined(Struct, frozen=True):
    """It was sent to another life of this replica."""

    write: ProposalId


class TakenBack(Struct, frozen=True):
    """Its home does not wait for it any longer, or hears that it was declined."""

    write: ProposalId
    is_declined: bool


class HeardAnswer(Struct, frozen=True):
    write: ProposalId
    answer: CarryAnswer


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
    if p.folded or p.proposer:
        ids = "+".join(write_id(each) for each in (*p.folded, p.proposal_id))
        return f"{value} of {ids} as version {f'{p.base + 1} to ' if p.folded else ''}{p.version}"
    return f"{value} as version {p.version}" if p.mutable else value


def write_id(i: ProposalId) -> str:
    return f"{name(i.replica_id)}{i.nonce}"


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
        case None, HandedOver() | TakenOver() | Declined() | TakenBack() | HeardAnswer():
            return carrying(who, result)
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


def carrying(who: str, result: HandedOver | TakenOver | Declined | TakenBack | HeardAnswer) -> str:
    write = write_id(result.write)
    match result:
        case HandedOver():
            return f"{who} hands {write} over to {name(result.receiver)}"
        case TakenOver(found=folding.ABSENT):
            return f"{who} takes {write} over"
        case TakenOver(found=folding.UNKNOWN):
            return f"{who} declines {write}: its lineage does not reach back to the floor"
        case TakenOver():
            return f"{who} finds {write}, which was carried here, decided as version {result.found}"
        case Declined():
            return f"{who} declines {write}: it is for another life of {who}"
        case TakenBack():
            why = "hears that it was declined" if result.is_declined else "waits no longer"
            return f"{who} {why}, and takes {write} back"
        case HeardAnswer():
            return f"{who} hears what became of {write}: {result.answer.result.name}"


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
            writes = "+".join(write_id(each.proposal_id) for each in asked.writes)
            return (
                "a new write" if len(asked.writes) == 1 and not asked.writes[0].is_exposed else f"the writes {writes}"
            )
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
        case Unfolded():
            return "what it knows"
        case AlreadyCommitted() | CommitConflict():
            return f"{type(result).__name__} {proposal(result.committed)}"
        case _:
            return type(result).__name__
