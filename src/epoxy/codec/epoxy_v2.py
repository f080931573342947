"""Stored records of format 2, as far as format 3 has changed them. They are read for ever, and no longer written.

In schema/epoxy-v2.bare a proposal is one write: it has neither `folded` nor `proposer`, nor has an earlier decision
`folded`. Records that did not change are read by the functions of format 3.
"""

from epoxy.codec.bare import decode_data, decode_length, decode_uint, wrong_flag
from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.errors import InvalidValue
from epoxy.model.records import (
    MAX_KEY_BYTES,
    MAX_VALUE_BYTES,
    ChangelogEntry,
    CommittedRecord,
    Proposal,
    ProposalId,
    Settled,
    Vote,
)

LINEAGE = 8
NONCE_BYTES = 8


def decode_committed_record(buffer: bytes, position: int) -> tuple[CommittedRecord, int]:
    committed, position = decode_proposal(buffer, position)
    count, position = decode_length(buffer, position, 0, LINEAGE)
    lineage: list[Settled] = []
    for _ in range(count):
        version, position = decode_uint(buffer, position)
        proposal_id, position = decode_proposal_id(buffer, position)
        lineage.append(Settled(version, proposal_id))
    return CommittedRecord(committed=committed, lineage=tuple(lineage)), position


def decode_changelog_entry(buffer: bytes, position: int) -> tuple[ChangelogEntry, int]:
    key, position = decode_data(buffer, position, 1, MAX_KEY_BYTES)
    committed, position = decode_proposal(buffer, position)
    return ChangelogEntry(key=key, committed=committed), position


def decode_vote(buffer: bytes, position: int) -> tuple[Vote, int]:
    proposal, position = decode_proposal(buffer, position)
    counter, position = decode_uint(buffer, position)
    replica_id, position = decode_uint(buffer, position)
    ballot = Ballot(counter, replica_id)
    if counter == 0 and ballot != NO_BALLOT:
        raise InvalidValue("counter 0 belongs to the ballot (0,0) alone")
    epoch, position = decode_uint(buffer, position)
    return Vote(proposal=proposal, ballot=ballot, epoch=epoch), position


def decode_proposal(buffer: bytes, position: int) -> tuple[Proposal, int]:
    value: bytes | None = None
    has_value, position = decode_bool(buffer, position)
    if has_value:
        value, position = decode_data(buffer, position, 0, MAX_VALUE_BYTES)
    version, position = decode_uint(buffer, position)
    mutable, position = decode_bool(buffer, position)
    proposal_id, position = decode_proposal_id(buffer, position)
    if value is None and not mutable:
        raise InvalidValue("an immutable key holds no tombstone")
    return Proposal(value=value, version=version, mutable=mutable, proposal_id=proposal_id), position


def decode_proposal_id(buffer: bytes, position: int) -> tuple[ProposalId, int]:
    replica_id, position = decode_uint(buffer, position)
    end = position + NONCE_BYTES
    return ProposalId(replica_id, int.from_bytes(buffer[position:end], "little")), end


def decode_bool(buffer: bytes, position: int) -> tuple[bool, int]:
    flag = buffer[position]
    if flag > 1:
        raise wrong_flag(buffer, position)
    return flag == 1, position + 1
