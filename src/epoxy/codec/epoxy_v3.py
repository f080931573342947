"""Stored records of format 3, as far as format 4 has changed them. They are read for ever, and no longer written.

In schema/epoxy-v3.bare a proposal ends after its proposer: it has no expiry. Records that did not change are read by
the functions of format 4.
"""

from collections.abc import Callable

from epoxy.codec.bare import decode_data, decode_uint, wrong_flag
from epoxy.codec.epoxy_v4 import decode_ballot, decode_folded, decode_lineage, decode_proposal_id
from epoxy.model.errors import InvalidValue
from epoxy.model.records import (
    MAX_KEY_BYTES,
    MAX_VALUE_BYTES,
    ChangelogEntry,
    CommittedRecord,
    Proposal,
    ProposalId,
    Vote,
)

DecodeProposal = Callable[[bytes, int], tuple[Proposal, int]]


def decode_committed_record(buffer: bytes, position: int) -> tuple[CommittedRecord, int]:
    committed, position = decode_proposal(buffer, position)
    lineage, position = decode_lineage(buffer, position)
    return CommittedRecord(committed=committed, lineage=lineage), position


def decode_changelog_entry(buffer: bytes, position: int) -> tuple[ChangelogEntry, int]:
    return decode_entry_of(decode_proposal, buffer, position)


def decode_vote(buffer: bytes, position: int) -> tuple[Vote, int]:
    return decode_vote_for(decode_proposal, buffer, position)


def decode_proposal(buffer: bytes, position: int) -> tuple[Proposal, int]:
    value, version, mutable, proposal_id, position = decode_write(buffer, position)
    folded, position = decode_folded(buffer, position)
    proposer, position = decode_uint(buffer, position)
    if folded and version <= len(folded):
        raise InvalidValue("more writes than versions")
    proposal = Proposal(
        value=value, version=version, mutable=mutable, proposal_id=proposal_id, folded=folded, proposer=proposer
    )
    return proposal, position


# The same in format 2.


def decode_entry_of(decode: DecodeProposal, buffer: bytes, position: int) -> tuple[ChangelogEntry, int]:
    key, position = decode_data(buffer, position, 1, MAX_KEY_BYTES)
    committed, position = decode(buffer, position)
    return ChangelogEntry(key=key, committed=committed), position


def decode_vote_for(decode: DecodeProposal, buffer: bytes, position: int) -> tuple[Vote, int]:
    proposal, position = decode(buffer, position)
    ballot, position = decode_ballot(buffer, position)
    epoch, position = decode_uint(buffer, position)
    return Vote(proposal=proposal, ballot=ballot, epoch=epoch), position


def decode_write(buffer: bytes, position: int) -> tuple[bytes | None, int, bool, ProposalId, int]:
    """The fields of a proposal of one write: value, version, mutable and id."""
    value: bytes | None = None
    has_value, position = decode_bool(buffer, position)
    if has_value:
        value, position = decode_data(buffer, position, 0, MAX_VALUE_BYTES)
    version, position = decode_uint(buffer, position)
    mutable, position = decode_bool(buffer, position)
    proposal_id, position = decode_proposal_id(buffer, position)
    if value is None and not mutable:
        raise InvalidValue("an immutable key holds no tombstone")
    return value, version, mutable, proposal_id, position


def decode_bool(buffer: bytes, position: int) -> tuple[bool, int]:
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    return flag == 1, position + 1
