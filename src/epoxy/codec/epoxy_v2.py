"""Stored records of format 2, as far as later formats have changed them. They are read for ever, and no longer written.

In schema/epoxy-v2.bare a proposal is one write: it has neither `folded` nor `proposer`, nor has an earlier decision
`folded`. Around a proposal, and in all other records, it is as in format 3.
"""

from epoxy.codec.bare import decode_length, decode_uint
from epoxy.codec.epoxy_v3 import decode_entry_of, decode_vote_for, decode_write
from epoxy.codec.epoxy_v4 import decode_proposal_id
from epoxy.model.records import ChangelogEntry, CommittedRecord, Proposal, Settled, Vote

LINEAGE = 8


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
    return decode_entry_of(decode_proposal, buffer, position)


def decode_vote(buffer: bytes, position: int) -> tuple[Vote, int]:
    return decode_vote_for(decode_proposal, buffer, position)


def decode_proposal(buffer: bytes, position: int) -> tuple[Proposal, int]:
    value, version, mutable, proposal_id, position = decode_write(buffer, position)
    return Proposal(value=value, version=version, mutable=mutable, proposal_id=proposal_id), position
