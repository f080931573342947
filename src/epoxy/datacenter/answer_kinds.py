"""The kinds of requests that are passed on to the owner of their key, and what each may be answered with."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from epoxy.datacenter.messages import NotOwner
from epoxy.datacenter.ports import AnswerLost, NeverSent
from epoxy.model.transactions import Executed, TxnRefused, TxnUnknown, WrongEngine
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    ExpectedValueDoesNotMatch,
    ImmutableKey,
    NotAnInteger,
    NothingToDelete,
    ReadFailed,
    ReadResult,
    Refused,
    Unchanged,
    VersionMismatch,
)


class AnswerKind(Struct, frozen=True):
    """What one kind of request may be answered with. `name`: for metrics."""

    name: str
    outcomes: frozenset[type[Any]]
    refused: Callable[[str], Any]
    unknown: Callable[[str], Any]
    repeats: bool = False
    """Whether it may be asked again when it may have been done already."""


WRITES = AnswerKind(
    "write",
    frozenset(
        [
            *(Committed, ExpectedValueDoesNotMatch, VersionMismatch, ImmutableKey, NothingToDelete, NotAnInteger),
            *(Unchanged, ConsensusFailed, Refused),
        ]
    ),
    lambda reason: Refused(reason=reason),
    lambda reason: ConsensusFailed(reason=f"{reason}; it may still take effect"),
)
READS = AnswerKind(
    "read",
    frozenset([ReadResult, ReadFailed, Refused]),
    lambda reason: Refused(reason=reason),
    lambda reason: ReadFailed(reason=reason),
    repeats=True,
)
"""A read changes nothing, so one without an answer has failed, definitely."""

TXNS = AnswerKind(
    "txn",
    frozenset([Executed, TxnRefused, WrongEngine, TxnUnknown]),
    lambda reason: TxnRefused(reason=reason),
    lambda reason: TxnUnknown(reason=f"{reason}; it may still take effect"),
)


def may_be_asked_again(answer: Any, kind: AnswerKind) -> bool:
    match answer:
        case NotOwner():
            return True
        case NeverSent(unreachable=unreachable):
            return unreachable
        case AnswerLost():
            return kind.repeats
        case _:
            return False
