"""Messages, states and outcomes in a few plain words, for a page that shows one step at a time."""

from collections.abc import Sequence

from msgspec import Struct

from epoxy.model.ballot import Ballot
from epoxy.model.messages import (
    Accept,
    AcceptOk,
    AlreadyCommitted,
    Behind,
    Carry,
    CarryAnswers,
    CarryOk,
    Commit,
    CommitOk,
    Failed,
    HigherBallot,
    Prepare,
    PrepareOk,
    Read,
    ReadOk,
    StaleCommit,
)
from epoxy.model.records import KeyState, Proposal, Vote
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NothingToDelete,
    Outcome,
    ReadFailed,
    ReadOutcome,
    VersionMismatch,
)
from epoxy_sim.trace_format import NAMES, say, say_value

NOTHING = "nothing"


class Card(Struct, frozen=True, kw_only=True):
    """A message as a page shows it. `kind`: its name in the protocol. `tone`: ask, yes, no or tell."""

    kind: str
    title: str
    detail: str
    tone: str


def card(freight: object) -> Card:
    """Of a reply, or of the last of several requests, which are sent together."""
    if isinstance(freight, Sequence) and not isinstance(freight, str):
        last = card_of_request(freight[-1])
        before = [card_of_request(request).title for request in freight[:-1]]
        detail = f"{last.detail}; before it: {', '.join(before)}" if before else last.detail
        return Card(kind=last.kind, title=last.title, detail=detail, tone=last.tone)
    return card_of_reply(freight)


def card_of_request(request: object) -> Card:
    kind = type(request).__name__
    match request:
        case Accept():
            title, tone = f"Vote for {value_of(request.proposal)}?", "ask"
            detail = f"{round_of(request.ballot)}, {version_of(request.proposal)}"
        case Prepare():
            title, tone = f"Promise ballot {say(request.ballot)}?", "ask"
            detail = f"and tell me your vote, on top of version {request.base}"
        case Commit():
            title, detail, tone = f"Decided: {value_of(request.proposal)}", version_of(request.proposal), "tell"
        case Read():
            title, detail, tone = "What do you have?", "the committed value, and the vote", "ask"
        case Carry():
            title, detail, tone = "Write this with yours", f"{len(request.writes)} carried to the owner", "ask"
        case CarryAnswers():
            title, detail, tone = "Your carried writes are done", f"{len(request.answers)} answered", "tell"
        case _:
            title, detail, tone = kind, say(request), "ask"
    return Card(kind=kind, title=title, detail=detail, tone=tone)


def card_of_reply(reply: object) -> Card:
    kind = type(reply).__name__
    match reply:
        case AcceptOk():
            title, detail, tone = "Yes: voted", "the vote is on disk", "yes"
        case PrepareOk():
            title, detail, tone = "Yes: promised", f"my vote: {vote_words(reply.vote)}", "yes"
        case CommitOk():
            title, detail, tone = "Learned", "the decision is on disk", "yes"
        case ReadOk():
            title, tone = f"Committed: {proposal_words(reply.committed)}", "yes"
            detail = f"my vote: {vote_words(reply.vote)}"
        case AlreadyCommitted():
            title, detail, tone = f"No: {value_of(reply.committed)} is decided", version_of(reply.committed), "no"
        case HigherBallot(ballot=ballot):
            why = "I voted for another one" if ballot.is_fast else f"I promised {say(ballot)}"
            title, detail, tone = f"No: {why}", round_of(ballot), "no"
        case Behind():
            title, tone = "No: I missed a version", "no"
            detail = f"I am at version {reply.version}; send me the decision first"
        case StaleCommit():
            title, detail, tone = "I know a newer one", f"version {reply.version}", "no"
        case CarryOk():
            title, detail, tone = "Taken", f"{len(reply.declined)} declined" if reply.declined else "", "yes"
        case Failed():
            title, detail, tone = "No answer", reply.reason, "no"
        case _:
            title, detail, tone = kind, say(reply), "tell"
    return Card(kind=kind, title=title, detail=detail, tone=tone)


def round_of(ballot: Ballot) -> str:
    return "fast round" if ballot.is_fast else f"ballot {say(ballot)}"


def value_of(proposal: Proposal) -> str:
    return say_value(proposal.value)


def version_of(proposal: Proposal) -> str:
    return f"version {proposal.version}"


def proposal_words(proposal: Proposal | None) -> str:
    return NOTHING if proposal is None else f"{value_of(proposal)}, {version_of(proposal)}"


def vote_words(vote: Vote | None) -> str:
    return "none" if vote is None else f"{value_of(vote.proposal)} ({round_of(vote.ballot)})"


def changes_in_words(name: str, before: KeyState, after: KeyState) -> list[str]:
    """What a replica did to its state of the key."""
    told: list[str] = []
    if after.promised != before.promised and after.promised.is_classic:
        told.append(f"{name} promises ballot {say(after.promised)}: it will answer no to every lower one.")
    if after.vote is not None and after.vote != before.vote:
        told.append(f"{name} votes for {value_of(after.vote.proposal)} ({round_of(after.vote.ballot)}).")
    if after.committed is not None and after.committed != before.committed:
        told.append(f"{name} commits {value_of(after.committed)} as {version_of(after.committed)}.")
    return told


def outcome_in_words(outcome: Outcome | ReadOutcome) -> str:
    """What a client is told."""
    match outcome:
        case Committed():
            made = f"{value_of(outcome.proposal)} is committed, {version_of(outcome.proposal)}"
            return f"{made}, by {'your write' if outcome.mine else 'an equal write'} ({outcome.path.value})"
        case ExpectedValueDoesNotMatch():
            return f"taken already, with {value_of(outcome.committed)}"
        case ImmutableKey():
            return f"{value_of(outcome.committed)} was reserved: it stays for ever"
        case VersionMismatch() | NothingToDelete():
            return f"nothing written; the key has {proposal_words(outcome.committed)}"
        case ConsensusFailed():
            return f"outcome unknown: {outcome.reason}"
        case ReadFailed():
            return f"no answer: {outcome.reason}"
        case _:
            committed: Proposal | None = getattr(outcome, "committed", None)
            return f"the key has {proposal_words(committed)}"


def names_of(replicas: Sequence[int]) -> str:
    return ", ".join(NAMES[replica] for replica in replicas)
