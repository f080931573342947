"""The engine's values as words.

`@1=ada/A1` is version 1, immutable, value ada, put forward by the first write of replica A; `@2:=bob/C3` is mutable.
`@1-2:=bob/A1+C3 by C` is a fold: A's first write became version 1, C's third version 2, and C folded them.
"""

from typing import assert_never

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.messages import (
    Accept,
    AcceptOk,
    AlreadyCommitted,
    Behind,
    Carry,
    CarryAnswer,
    CarryAnswers,
    CarryOk,
    Commit,
    CommitConflict,
    CommitOk,
    ConfigOk,
    EpochAhead,
    Failed,
    HigherBallot,
    Inspect,
    Inspected,
    Prepare,
    PrepareOk,
    Read,
    ReadOk,
    Reply,
    Request,
    StaleCommit,
    StaleEpoch,
    UpdateConfig,
)
from epoxy.model.records import KeyState, Proposal, ProposalId, Vote
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
    NothingToDelete,
    Outcome,
    ReadFailed,
    ReadOutcome,
    ReadResult,
    Refused,
    Unchanged,
    VersionMismatch,
)
from epoxy.protocol.effects import Adopt
from epoxy.protocol.keys.operations import (
    Cache,
    Conclude,
    Concluded,
    FastVote,
    LocalOp,
    Occupied,
    Peek,
    Reserve,
    Reserved,
    Select,
    Unfolded,
)


def name(replica_id: int) -> str:
    return chr(ord("A") + replica_id - 1)


def ballot(b: Ballot) -> str:
    return f"({b.counter},{name(b.replica_id)})"


def proposal(p: Proposal) -> str:
    value = "(deleted)" if p.value is None else p.value.decode()
    versions = f"{p.base + 1}-{p.version}" if p.folded else f"{p.version}"
    writers = "+".join(write_id(each) for each in (*p.folded, p.proposal_id))
    folder = f" by {name(p.proposer)}" if p.proposer else ""
    ends = f" for {p.expiry.ttl_ms} ms since @{p.expiry.since}" if p.expiry is not None else ""
    return f"@{versions}{':=' if p.mutable else '='}{value}/{writers}{folder}{ends}"


def write_id(i: ProposalId) -> str:
    return f"{name(i.replica_id)}{i.nonce}"


def vote(v: Vote | None) -> str:
    return "no vote" if v is None else f"vote {proposal(v.proposal)} at {ballot(v.ballot)}"


def committed(p: Proposal | None) -> str:
    return "nothing" if p is None else proposal(p)


def request(r: Request) -> str:
    match r:
        case Prepare():
            return f"Prepare on {r.base} at {ballot(r.ballot)}"
        case Accept():
            return f"Accept {proposal(r.proposal)} at {ballot(r.ballot)}"
        case Commit():
            return f"Commit {proposal(r.proposal)}"
        case Read():
            return "Read"
        case UpdateConfig():
            return f"UpdateConfig {r.config.epoch}"
        case Inspect():
            return "Inspect"
        case _:
            return type(r).__name__  # those of the ordered engine: `ordered_prose`


def requests(several: tuple[Request, ...]) -> str:
    return ", then ".join(request(r) for r in several)


def reply(r: Reply) -> str:
    match r:
        case PrepareOk():
            return f"PrepareOk, {vote(r.vote)}"
        case AcceptOk() | CommitOk():
            return type(r).__name__
        case ReadOk():
            return f"ReadOk, {committed(r.committed)}, {vote(r.vote)}"
        case AlreadyCommitted() | CommitConflict():
            return f"{type(r).__name__} {proposal(r.committed)}"
        case HigherBallot():
            return f"HigherBallot {ballot(r.ballot)}"
        case Behind() | StaleCommit():
            return f"{type(r).__name__}, I am at {r.version}"
        case StaleEpoch():
            return f"StaleEpoch {r.config.epoch}"
        case EpochAhead() | ConfigOk():
            return f"{type(r).__name__} {r.epoch}"
        case Failed():
            return f"Failed: {r.reason}"
        case Inspected():
            return f"Inspected, {committed(r.committed)}, {vote(r.vote)}, promised {ballot(r.promised)}"
        case _:
            return type(r).__name__


def carry(message: Carry | CarryAnswers | CarryOk) -> str:
    match message:
        case Carry():
            writes = ", ".join(f"{write_id(each.proposal_id)} (floor {each.floor})" for each in message.writes)
            return f"Carry {writes}"
        case CarryAnswers():
            return f"CarryAnswers {', '.join(carry_answer(answer) for answer in message.answers)}"
        case CarryOk():
            declined = ", ".join(map(write_id, message.declined))
            return f"CarryOk, declined {declined}" if declined else "CarryOk"


def carry_answer(answer: CarryAnswer) -> str:
    became = f" as @{answer.version}" if answer.version else ""
    return f"{write_id(answer.proposal_id)} {answer.result.name.lower()}{became}"


def at_home(op: LocalOp, result: object) -> str:
    match op:
        case Select():
            return f"selects: {home_result(result)}"
        case Reserve():
            return f"reserves on {op.base}: {home_result(result)}"
        case Conclude():
            return f"concludes {proposal(op.proposal)}: {home_result(result)}"
        case Commit():
            return f"learns {proposal(op.proposal)}: {home_result(result)}"
        case Peek():
            return "looks at home: nothing" if result is None else f"looks at home: {home_result(result)}"
        case Cache():
            return f"caches {proposal(op.proposal)}"
        case Adopt():
            return f"adopts epoch {op.config.epoch}"
        case _:
            assert_never(op)


def home_result(result: object) -> str:
    match result:
        case FastVote():
            mine = result.fold.proposal
            return f"votes for its own {proposal(mine)} at (1,{name(mine.home)})"
        case Reserved():
            return f"promises itself {ballot(result.ballot)}, {vote(result.vote)}"
        case Occupied():
            return "a rival's round is under way"
        case Concluded():
            return "committed"
        case Unfolded():
            return "must ask a quorum" if None in result.answers else "knows the answer"
        case ReadResult():
            return f"{committed(result.committed)} ({result.source.value})"
        case AlreadyCommitted() | HigherBallot() | CommitOk() | StaleCommit() | CommitConflict() | StaleEpoch():
            return reply(result)
        case _:
            raise AssertionError(result)


def outcome(o: Outcome | ReadOutcome) -> str:
    match o:
        case Committed():
            replaced = "" if o.previous is None else f", replacing {proposal(o.previous)}"
            return f"Committed {proposal(o.proposal)}{replaced}, {'mine' if o.mine else 'not mine'} ({o.path.value})"
        case ExpectedValueDoesNotMatch() | ImmutableKey() | VersionMismatch() | NothingToDelete() | NotAnInteger():
            return f"{type(o).__name__}, it holds {committed(o.committed)} ({o.path.value})"
        case Unchanged():
            return f"Unchanged, it holds {committed(o.committed)} ({o.path.value})"
        case ConsensusFailed() | ReadFailed():
            return f"{type(o).__name__}: {o.reason}"
        case ReadResult():
            return f"{committed(o.committed)} ({o.source.value})"
        case Refused():
            return f"Refused: {o.reason}"
        case _:
            assert_never(o)


def state(s: KeyState) -> str:
    parts = [f"committed {proposal(s.committed)}"] if s.committed is not None else []
    parts += [f"promised {ballot(s.promised)}"] if s.promised != NO_BALLOT else []
    parts += [vote(s.vote)] if s.vote is not None else []
    return ", ".join(parts) or "nothing"
