"""Which requests stay encoded, and that the pieces of one are what the codec writes."""

import pytest
from msgspec.structs import replace

from epoxy.codec import wire
from epoxy.codec.plain_requests import (
    PlainRequest,
    decoded,
    kind_of,
    read_peer_request,
    record_after,
    version_to_overwrite,
)
from epoxy.model.ballot import Ballot
from epoxy.model.errors import CodecError, TrailingBytes, Truncated, UnknownVersion
from epoxy.model.marks import OWNED
from epoxy.model.messages import Accept, Commit, Read, Request
from epoxy.model.records import ChangelogEntry, CommittedRecord, Expiry, Proposal, ProposalId, Settled, Vote

PROPOSAL = Proposal(value=b"v" * 200, version=300, mutable=True, proposal_id=ProposalId(200, 7))
ACCEPT = Accept(key=b"k" * 130, epoch=129, ballot=Ballot(1, 200), proposal=PROPOSAL)
COMMIT = Commit(key=b"k", epoch=1, proposal=replace(PROPOSAL, version=1, mutable=False))
EARLIER = CommittedRecord(
    committed=replace(PROPOSAL, version=299, folded=(ProposalId(1, 1), ProposalId(200, 2)), proposer=3),
    lineage=tuple([Settled(n, ProposalId(n, n), (ProposalId(1, n),) * (n % 2)) for n in range(290, 282, -1)]),
)


def frame(*requests: Request) -> bytes:
    return wire.join_peer_request(2, 200, len(requests), [wire.encode_requests(requests)])


def plain(request: Request) -> PlainRequest:
    (found,) = read_peer_request(frame(request))[2]
    assert isinstance(found, PlainRequest)
    return found


def test_plain_requests_stay_encoded_between_others() -> None:
    read = Read(key=b"k", epoch=1)
    sender, recipient, requests = read_peer_request(frame(ACCEPT, read, COMMIT))
    assert (sender, recipient) == (2, 200)
    assert [kind_of(each) for each in requests] == ["Accept", "Read", "Commit"]
    assert [isinstance(each, PlainRequest) for each in requests] == [True, False, True]
    assert [decoded(each) for each in requests] == [ACCEPT, read, COMMIT]


def test_its_fields_are_those_of_the_message() -> None:
    found = plain(ACCEPT)
    assert (found.key, found.epoch, found.version, found.mutable, found.home) == (b"k" * 130, 129, 300, True, 200)
    assert found.is_accept
    assert not plain(COMMIT).is_accept


def test_its_pieces_are_records() -> None:
    assert plain(ACCEPT).vote() == wire.encode_vote(Vote(proposal=PROPOSAL, ballot=Ballot(1, 200), epoch=129))
    assert plain(COMMIT).changelog_entry() == wire.encode_changelog_entry(
        ChangelogEntry(key=b"k", committed=COMMIT.proposal)
    )


def test_the_record_of_a_first_version_and_of_one_after_a_full_lineage() -> None:
    first = record_after(b"", plain(COMMIT).proposal)
    assert first == wire.encode_committed_record(CommittedRecord(committed=COMMIT.proposal))
    after = record_after(wire.encode_committed_record(EARLIER), plain(ACCEPT).proposal)
    newest = Settled(299, EARLIER.committed.proposal_id, EARLIER.committed.folded)
    expected = CommittedRecord(committed=PROPOSAL, lineage=(newest, *EARLIER.lineage[:7]))
    assert after == wire.encode_committed_record(expected)


def test_what_follows_a_tombstone() -> None:
    deleted = CommittedRecord(committed=replace(PROPOSAL, value=None, version=299))
    after = wire.decode_committed_record(record_after(wire.encode_committed_record(deleted), plain(ACCEPT).proposal))
    assert after.lineage == (Settled(299, PROPOSAL.proposal_id),)


@pytest.mark.parametrize(
    "request_",
    [
        Read(key=b"k", epoch=1),
        replace(ACCEPT, ballot=Ballot(2, 200)),
        replace(ACCEPT, key=b"\xff/system"),
        replace(COMMIT, proposal=replace(PROPOSAL, value=None)),
        replace(COMMIT, proposal=replace(PROPOSAL, folded=(ProposalId(1, 1),))),
        replace(COMMIT, proposal=replace(PROPOSAL, proposer=1)),
        replace(COMMIT, proposal=replace(PROPOSAL, expiry=Expiry(ttl_ms=1, since=1))),
        replace(COMMIT, proposal=replace(PROPOSAL, value=OWNED, mutable=False)),
        replace(COMMIT, proposal=replace(PROPOSAL, version=0)),
    ],
)
def test_all_others_are_decoded(request_: Request) -> None:
    assert read_peer_request(frame(request_))[2] == [request_]


def test_a_value_that_looks_like_a_mark_is_plain_in_a_mutable_key() -> None:
    assert plain(replace(COMMIT, proposal=replace(PROPOSAL, value=OWNED, version=1))).mutable


def test_what_may_be_overwritten() -> None:
    def version_of(committed: Proposal) -> int:
        return version_to_overwrite(wire.encode_committed_record(CommittedRecord(committed=committed)))

    assert version_of(PROPOSAL) == version_of(replace(PROPOSAL, value=None)) == 300
    assert version_of(EARLIER.committed) == 299
    assert version_of(replace(PROPOSAL, mutable=False)) == 0
    assert version_of(replace(PROPOSAL, expiry=Expiry(ttl_ms=1, since=1))) == 0
    assert version_to_overwrite(wire.HEADER_3 + wire.encode_committed_record(EARLIER)[2:]) == 0


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (frame(ACCEPT)[:-1], Truncated),
        (frame(ACCEPT) + b"\x00", TrailingBytes),
        (b"\x03" + frame(ACCEPT)[1:], UnknownVersion),
        (frame(ACCEPT).replace(b"\x81\x01\x01\xc8\x01", b"\x81\x00\x01\xc8\x01"), CodecError),
    ],
)
def test_a_malformed_frame_is_refused_as_by_the_decoder(data: bytes, error: type[CodecError]) -> None:
    for read in (read_peer_request, wire.decode_peer_request):
        with pytest.raises(error):
            read(data)


def test_every_shorter_frame_is_refused() -> None:
    whole = frame(COMMIT, ACCEPT)
    for size in range(len(whole)):
        with pytest.raises(CodecError):
            read_peer_request(whole[:size])
