"""Records in as few words as a reader of a trace needs: replicas are A, B, C, and what is empty is left out."""

import enum

from msgspec import Struct

from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.cluster import ClusterConfig, ReplicaStatus
from epoxy.model.records import KeyState, Proposal, ProposalId, Settled, Vote

NAMES = "?ABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""Replica ids begin with 1."""

KNOWN_ANYWAY = ("key",)
"""A trace has a few keys."""

EPOCH_1 = ("epoch", 1)
"""Most traces have no other."""

LONGEST_VALUE = 20


def say(thing: object) -> str:
    match thing:
        case Ballot(counter, replica_id):
            return f"({counter},{NAMES[replica_id]})" if thing != NO_BALLOT else "none"
        case ProposalId(replica_id, nonce):
            return f"{NAMES[replica_id]}#{nonce & 0xFFFF:04x}"  # enough to tell the few writes of a trace apart
        case Proposal():
            return f"{say_value(thing.value)} v{thing.version} of {say(thing.proposal_id)}"
        case Vote():
            return f"{say(thing.proposal)} at {say(thing.ballot)}"
        case Settled(version, proposal_id):
            return f"v{version} {say(proposal_id)}"
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


def say_value(value: bytes | None) -> str:
    if value is None:
        return "tombstone"
    return repr(value.decode(errors="replace")) if len(value) <= LONGEST_VALUE else f"{len(value)} bytes"


def say_config(config: ClusterConfig) -> str:
    """As `epoch 4 of ABCDE, with ABC`: who votes, and beside whom."""
    others = [f"{NAMES[r.id]} {r.status.value}" for r in config.replicas if r.status is not ReplicaStatus.ACTIVE]
    old = f", with {letters(config.previous)}" if config.previous is not None else ""
    return f"epoch {config.epoch} of {letters(config.active)}{old}{''.join(f', {other}' for other in others)}"


def letters(replicas: tuple[int, ...]) -> str:
    return "".join(NAMES[i] for i in replicas)


def say_struct(record: Struct) -> str:
    """Its name, and the fields that say something."""
    fields = ((name, getattr(record, name)) for name in record.__struct_fields__ if name not in KNOWN_ANYWAY)
    told = (say_field(name, value) for name, value in fields if not is_empty(value) and (name, value) != EPOCH_1)
    kind = "" if isinstance(record, KeyState) else type(record).__name__
    return " ".join((kind, *told)).strip() or "nothing"


def say_field(name: str, value: object) -> str:
    return name if value is True else f"{name} {say(value)}"


def is_empty(value: object) -> bool:
    return value is None or value is False or value == () or value == NO_BALLOT
