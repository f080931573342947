"""Stored records of format 2: an encoder, which the package no longer has, and examples of the golden file of then."""

from typing import Any

from epoxy.codec.bare import uint
from epoxy.codec.wire import EARLIER_HEADER, HEADER
from epoxy.model.records import ChangelogEntry, CommittedRecord, Proposal, ProposalId, Vote
from tests.codec.golden import read_golden
from tests.codec.strategies import Format

CHANGED = ("committed_record", "vote", "cached", "changelog_entry")
UNCHANGED = ("ballot", "progress", "command", "instance_state", "term", "term_end", "change_request")
STORED = (*CHANGED, *UNCHANGED)
"""Kinds that are read in both formats. A configuration is always in format 2."""

EARLIER = read_golden("golden_v2.txt")


def spelled(form: Format, value: Any, like: bytes) -> bytes:
    """The one spelling of a value in the format of these bytes, which decode to it."""
    encoded = form.encode(value)
    if encoded[:2] == like[:2] or form.name not in STORED:
        return encoded
    return EARLIER_HEADER + (encode(value) if form.name in CHANGED else encoded[len(HEADER) :])


def encode(value: object) -> bytes:
    match value:
        case CommittedRecord(committed=committed, lineage=lineage):
            settled = [uint(each.version) + encode(each.proposal_id) for each in lineage]
            return encode(committed) + uint(len(lineage)) + b"".join(settled)
        case Vote(proposal=proposal, ballot=ballot, epoch=epoch):
            return encode(proposal) + uint(ballot.counter) + uint(ballot.replica_id) + uint(epoch)
        case ChangelogEntry(key=key, committed=committed):
            return uint(len(key)) + key + encode(committed)
        case Proposal(value=content, version=version, mutable=mutable, proposal_id=proposal_id):
            given = b"\x00" if content is None else b"\x01" + uint(len(content)) + content
            return given + uint(version) + bytes([mutable]) + encode(proposal_id)
        case ProposalId(replica_id=replica_id, nonce=nonce):
            return uint(replica_id) + nonce.to_bytes(8, "little")
        case _:
            raise AssertionError(value)
