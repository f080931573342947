"""Traces for their readers: records in a few words (replicas are A, B, C, empty fields are left out), fewer lines."""

import enum
import re

from msgspec import Struct

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.cluster import ClusterConfig, ReplicaStatus
from epoxy.model.records import KeyState, Proposal, ProposalId, Settled, Vote
from epoxy_sim.simulation import Failure

NAMES = "?ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Replica ids begin with 1."""

KNOWN_ANYWAY = ("key",)
"""A trace has a few keys."""

EPOCH_1 = ("epoch", 1)
"""Most traces have no other."""

LONGEST_VALUE = 20

JUDGED_LATE = ("linearizability", "optimistic read")
BLAMED = re.compile(r"#(\d+) ")
SENT = re.compile(r"(?P<when> *[\d.]+ ms)  (?P<sender>\w) -> (?P<to>\w): (?P<what>.*)")
ANSWERED = re.compile(r" *[\d.]+ ms  (?P<to>\w) <- (?P<sender>\w): ")


def say(thing: object) -> str:
    match thing:
        case Ballot(counter, replica_id):
            return f"({counter},{NAMES[replica_id]})" if thing != NO_BALLOT else "none"
        case ProposalId(replica_id, nonce):
            return f"{NAMES[replica_id]}#{nonce & 0xFFFF:04x}"  # enough to tell the few writes of a trace apart
        case Proposal():
            proposer = f" by {NAMES[thing.proposer]}" if thing.proposer else ""
            return f"{say_value(thing.value)} {say_versions(thing)} of {say_ids(thing)}{proposer}"
        case Vote():
            return f"{say(thing.proposal)} at {say(thing.ballot)}"
        case Settled():
            return f"{say_versions(thing)} {say_ids(thing)}"
        case ClusterConfig():
            return say_config(thing)
        case tuple():
            return f"[{', '.join(map(say, thing))}]"
        case enum.Enum():
            return str(thing.value)
        case Struct():
            return say_struct(thing)
        case _:
            return str(thing)


def say_versions(decision: Proposal | Settled) -> str:
    """As `v4`; those of a fold as `v3-5`."""
    return f"v{decision.base + 1}-{decision.version}" if decision.folded else f"v{decision.version}"


def say_ids(decision: Proposal | Settled) -> str:
    return ", ".join(map(say, (*decision.folded, decision.proposal_id)))


def say_value(value: bytes | None) -> str:
    if value is None:
        return "tombstone"
    return repr(value.decode(errors="replace")) if len(value) <= LONGEST_VALUE else f"{len(value)} bytes"


def say_config(config: ClusterConfig) -> str:
    """As `epoch 4 of ABCDE, with ABC`: the members, and in a joint epoch the old ones beside them."""
    others = [f"{NAMES[r.id]} {r.status.value}" for r in config.replicas if r.status is not ReplicaStatus.ACTIVE]
    old = f", with {letters(config.previous)}" if config.previous is not None else ""
    return f"epoch {config.epoch} of {letters(config.active)}{old}{''.join(f', {other}' for other in others)}"


def letters(replicas: tuple[int, ...]) -> str:
    return "".join(NAMES[i] for i in replicas)


def say_struct(record: Struct) -> str:
    """Its name, and the fields that are not empty."""
    fields = ((name, getattr(record, name)) for name in record.__struct_fields__ if name not in KNOWN_ANYWAY)
    shown = (say_field(name, value) for name, value in fields if not is_empty(value) and (name, value) != EPOCH_1)
    kind = "" if isinstance(record, KeyState) else type(record).__name__
    return " ".join((kind, *shown)).strip() or "nothing"


def say_field(name: str, value: object) -> str:
    return name if value is True else f"{name} {say(value)}"


def is_empty(value: object) -> bool:
    return value is None or value is False or value == () or value == NO_BALLOT


def condense(trace: list[str]) -> list[str]:
    """One line for a message to several replicas, with the loss of a message noted beside it."""
    lines: list[str] = []
    for line in trace:
        joined = joined_with(lines[-1], line) if lines else None
        if joined is None:
            lines.append(line)
        else:
            lines[-1] = joined
    return lines


def until_blamed(trace: list[str], failure: Failure) -> list[str]:
    """The trace up to the last operation that a late verdict names: a history is judged after the run."""
    blamed = [f"operation {number}:" for number in BLAMED.findall(failure.detail)]
    ends = [at for at, line in enumerate(trace) if any(operation in line for operation in blamed)]
    return trace[: ends[-1] + 1] if ends and failure.rule in JUDGED_LATE else trace


def joined_with(before: str, line: str) -> str | None:
    """The two lines as one, if the second only adds a receiver or a loss to the first."""
    sent = SENT.fullmatch(line)
    if sent is None or not before.startswith(f"{sent['when']}  "):
        return None
    answered = ANSWERED.match(before)
    if sent["what"] == "lost" and answered and (answered["to"], answered["sender"]) == (sent["to"], sent["sender"]):
        return f"{before} (lost)"
    way, colon, what = before.partition(": ")
    if colon and f" {sent['sender']} -> " in way:
        if sent["what"] == "lost" and way.endswith(sent["to"]):
            return f"{way} (lost): {what}"
        if sent["what"] == what:
            return f"{way}, {sent['to']}: {what}"
    return None
