"""Stored records of formats 2 and 3: an encoder, which the package no longer has, and examples of the golden files of
then."""

from collections.abc import Iterable
from typing import Any

from epoxy.codec.bare import uint
from epoxy.codec.wire import HEADER, HEADER_2, HEADER_3
from epoxy.model.instances import Command
from epoxy.model.records import ChangelogEntry, CommittedRecord, Proposal, ProposalId, Settled, Vote
from epoxy.model.transactions import Add, Delete, Get, Operation, Put, Txn
from tests.codec.golden import read_golden
from tests.codec.strategies import Format

CHANGED = ("committed_record", "vote", "cached", "changelog_entry", "command")
UNCHANGED = ("ballot", "progress", "instance_state", "term", "term_end", "change_request")
STORED = (*CHANGED, *UNCHANGED)
"""Kinds that are read in all formats. A configuration is always in format 2."""

EARLIER = {HEADER_2: read_golden("golden_v2.txt"), HEADER_3: read_golden("golden_v3.txt")}


def spelled(form: Format, value: Any, like: bytes) -> bytes:
    """The one spelling of a value in the format of these bytes, which decode to it."""
    encoded, header = form.encode(value), like[: len(HEADER)]
    if encoded[: len(HEADER)] == header or form.name not in STORED:
        return encoded
    folds = header != HEADER_2
    return header + (encode(value, folds=folds) if form.name in CHANGED else encoded[len(HEADER) :])


def encode(value: object, *, folds: bool) -> bytes:
    """In format 3, or in format 2, which has no `folds`."""
    match value:
        case CommittedRecord(committed=committed, lineage=lineage):
            settled = [encode(each, folds=folds) for each in lineage]
            return encode(committed, folds=folds) + uint(len(lineage)) + b"".join(settled)
        case Settled(version=version, proposal_id=proposal_id, folded=folded):
            return uint(version) + name(proposal_id) + (names(folded) if folds else b"")
        case Vote(proposal=proposal, ballot=ballot, epoch=epoch):
            return encode(proposal, folds=folds) + uint(ballot.counter) + uint(ballot.replica_id) + uint(epoch)
        case ChangelogEntry(key=key, committed=committed):
            return uint(len(key)) + key + encode(committed, folds=folds)
        case Proposal(value=content, version=version, mutable=mutable, proposal_id=proposal_id):
            given = b"\x00" if content is None else b"\x01" + uint(len(content)) + content
            fold = names(value.folded) + uint(value.proposer) if folds else b""
            return given + uint(version) + bytes([mutable]) + name(proposal_id) + fold
        case Command(txns=txns):
            return uint(len(txns)) + b"".join(map(encode_txn, txns))
        case _:
            raise AssertionError(value)


def encode_txn(txn: Txn) -> bytes:
    compares = [sized(each.key) + listed(map(sized, each.values)) + bytes([each.absent]) for each in txn.compares]
    branches = [listed(map(encode_operation, branch)) for branch in (txn.then, txn.otherwise)]
    return listed(compares) + b"".join(branches) + listed(map(sized, txn.reads))


def encode_operation(operation: Operation) -> bytes:
    match operation:
        case Get():
            return b"\x00" + sized(operation.key)
        case Put():
            return b"\x01" + sized(operation.key) + sized(operation.value)
        case Delete():
            return b"\x02" + sized(operation.key)
        case Add():
            return b"\x03" + sized(operation.key) + uint(operation.amount) + bytes([operation.negative])
        case _:
            raise AssertionError(operation)


def sized(data: bytes) -> bytes:
    return uint(len(data)) + data


def listed(items: Iterable[bytes]) -> bytes:
    found = list(items)
    return uint(len(found)) + b"".join(found)


def name(proposal_id: ProposalId) -> bytes:
    return uint(proposal_id.replica_id) + proposal_id.nonce.to_bytes(8, "little")


def names(folded: tuple[ProposalId, ...]) -> bytes:
    return uint(len(folded)) + b"".join([name(each) for each in folded])
