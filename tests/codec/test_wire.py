"""The public face: what goes in comes out, and what is not ours stays out."""

import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st

from epoxy.codec import bare, wire
from epoxy.model.ballot import Ballot
from epoxy.model.cluster import ReplicaStatus, first_epoch
from epoxy.model.errors import (
    CodecError,
    InvalidValue,
    NonCanonical,
    Oversized,
    TrailingBytes,
    Truncated,
    UnknownTag,
    UnknownVersion,
)
from epoxy.model.frames import PeerRequest, PeerResponse
from epoxy.model.messages import AcceptOk, Behind, Carry, Commit, Failed, Read, ReadOk
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
from epoxy.protocol.keys.carrying import unpacked
from tests.codec.earlier import STORED, spelled
from tests.codec.golden import FIRST, VOTE, read_golden
from tests.codec.strategies import FORMATS, Format, keys, lineages, peer_requests, proposals, uints

GOLDEN = {name: data for name, data in read_golden().items() if name.split()[0] in FORMATS}
every_format = pytest.mark.parametrize("form", FORMATS.values(), ids=FORMATS)
every_golden = pytest.mark.parametrize("name", GOLDEN)


def form_of(name: str) -> Format:
    return FORMATS[name.split()[0]]


@every_format
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])
def test_round_trip(form: Format, data: st.DataObject) -> None:
    value = data.draw(form.values)
    encoded = form.encode(value)
    assert encoded[:2] == (b"\x02\x00" if form.name == "config" else b"\x04\x00")
    assert form.decode(encoded) == value


def check_canonical(form: Format, data: bytes) -> bool:
    """Either a typed error, or the one spelling of a value."""
    try:
        value = form.decode(data)
    except CodecError:
        return False
    assert spelled(form, value, data) == data, data.hex()
    return True


@every_format
@given(body=st.binary(max_size=60))
def test_random_bytes_are_refused_or_canonical(form: Format, body: bytes) -> None:
    check_canonical(form, body)
    check_canonical(form, wire.HEADER + body)


@every_golden
def test_every_truncation_is_refused(name: str) -> None:
    data = GOLDEN[name]
    for end in range(len(data)):
        with pytest.raises(Truncated):
            form_of(name).decode(data[:end])


@every_golden
def test_a_trailing_byte_is_refused(name: str) -> None:
    for byte in range(256):
        with pytest.raises(TrailingBytes):
            form_of(name).decode(GOLDEN[name] + bytes([byte]))


@every_golden
def test_every_changed_byte_is_refused_or_canonical(name: str) -> None:
    data = GOLDEN[name]
    for position in range(len(data)):
        for byte in range(256):
            check_canonical(form_of(name), data[:position] + bytes([byte]) + data[position + 1 :])


def test_a_carried_write_that_decodes_is_a_write() -> None:
    """What a peer sends must not run into the asserts of `Write`."""
    data = GOLDEN["request carry-expiries"]
    for position in range(2, len(data)):
        for byte in range(256):
            try:
                request = wire.decode_request(data[:position] + bytes([byte]) + data[position + 1 :])
            except CodecError:
                continue
            for carried in request.writes if isinstance(request, Carry) else ():
                assert unpacked(b"k", carried).write.mutable == carried.mutable


def is_read(name: str, version: int) -> bool:
    kind = name.split()[0]
    return version == 2 if kind == "config" else version == 4 or (version in (2, 3) and kind in STORED)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        (name, version)
        for name in GOLDEN
        for version in (0, 1, 2, 3, 4, 5, 0x0400, 0xFFFF)
        if not is_read(name, version)
    ],
)
def test_other_versions_are_refused(name: str, version: int) -> None:
    with pytest.raises(UnknownVersion, match=str(version)):
        form_of(name).decode(version.to_bytes(2, "little") + GOLDEN[name][2:])


LIVES = "0807060504030201 0000000000000000"
PLAIN = "000000 0000"
"""A carried write on no condition and without an expiry."""
SESSION = "10" + "ab" * 16
LEASED = "010176 07 01 02 8877665544332211 0000"
"""A proposal, up to its expiry."""
CARRIED = f"0400 07 016b 05 {LIVES} 03 01 02 8877665544332211 00"
"""A Carry of one write, up to its value."""

# What is wrong with bytes that are nearly right, each with its own error.
REFUSED: dict[str, tuple[str, str, type[CodecError]]] = {
    "epoch 5 in two bytes": ("request", "0400 03 016b 8500", NonCanonical),
    "tag 3 in two bytes": ("request", "0400 8300 016b 05", NonCanonical),
    "key length in two bytes": ("request", "0400 03 81006b 05", NonCanonical),
    "count of replies in two bytes": ("peer_response", "0400 8100 01", NonCanonical),
    "a counter in ten bytes": ("ballot", "0400 80808080808080808000 01", NonCanonical),
    "a counter of 65 bits": ("ballot", "0400 80808080808080808002 01", Oversized),
    "a counter of eleven bytes": ("ballot", "0400 8080808080808080808001 01", Oversized),
    "a counter that never ends": ("ballot", "0400 80808080", Truncated),
    "a bool of 2": ("cached", "0400 010176 01 02 02 8877665544332211", NonCanonical),
    "an optional of 255": ("reply", "0400 00 ff", NonCanonical),
    "request 13": ("request", "0400 0d 016b 05", UnknownTag),
    "reply 28": ("reply", "0400 1c", UnknownTag),
    "reply 128": ("reply", "0400 8001", UnknownTag),
    "reply that never ends": ("reply", "0400 80", Truncated),
    "status 4": ("config", "0200 01 01 01 010400 000000000000000000 00 00 00 00 00", UnknownTag),
    "policy 2": ("config", "0200 01 01 01 010200 000000000000000000 00 02 00 00 00", UnknownTag),
    "an empty key": ("request", "0400 03 00 05", InvalidValue),
    "a key of 1025 bytes": ("request", "0400 03 8108" + "6b" * 1025 + "05", Oversized),
    "a value of 1 MiB and a byte": ("cached", "0400 01 818040", Oversized),
    "a value longer than the frame": ("cached", "0400 01 808040 76", Truncated),
    "nine settled versions": ("committed_record", "0400 010176 01 00 02 8877665544332211 000000 09", Oversized),
    "text that is not UTF-8": ("reply", "0400 0c 02c328", InvalidValue),
    "an overlong NUL": ("reply", "0400 0c 02c080", InvalidValue),
    "a lone surrogate": ("reply", "0400 0c 03eda080", InvalidValue),
    "a reason of 1025 bytes": ("reply", "0400 0c 8108" + "72" * 1025, Oversized),
    "an immutable tombstone": ("cached", "0400 00 01 00 02 8877665544332211 000000", InvalidValue),
    "a fold of more writes than versions": (
        "cached",
        "0400 010176 01 01 02 8877665544332211 01 03 8877665544332211 0000",
        InvalidValue,
    ),
    "a fold of 65 writes": ("cached", "0400 010176 41 01 02 8877665544332211 40", Oversized),
    "an earlier fold of more writes than versions": (
        "committed_record",
        "0400 010176 03 01 02 8877665544332211 000000 01 01 02 8877665544332211 01 03 8877665544332211",
        InvalidValue,
    ),
    "a Carry of nothing": ("request", f"0400 07 016b 05 {LIVES} 03 00", InvalidValue),
    "a Carry of 65 writes": ("request", f"0400 07 016b 05 {LIVES} 03 41", Oversized),
    "an amount of 64 bits": (
        "request",
        f"0400 07 016b 05 {LIVES} 03 01 02 8877665544332211 00 00 01 00 00 01 80808080808080808001 00 {PLAIN}",
        InvalidValue,
    ),
    "an amount beside a value": (
        "request",
        f"0400 07 016b 05 {LIVES} 03 01 02 8877665544332211 00 010176 01 00 00 01 05 00 {PLAIN}",
        InvalidValue,
    ),
    "a reservation that deletes": (
        "request",
        f"0400 07 016b 05 {LIVES} 03 01 02 8877665544332211 00 00 00 00 00 00 00 {PLAIN}",
        InvalidValue,
    ),
    "a reservation that compares": (
        "request",
        f"0400 07 016b 05 {LIVES} 03 01 02 8877665544332211 00 010176 00 01 04 00 00 00 {PLAIN}",
        InvalidValue,
    ),
    "a reservation that ends": ("request", f"{CARRIED} 010176 00 00 00 00 00 000000 0500", InvalidValue),
    "a touch with a value": ("request", f"{CARRIED} 010176 01 00 00 00 00 000100 0500", InvalidValue),
    "a write with two expiries": ("request", f"{CARRIED} 010176 01 00 00 00 00 000000 05 {SESSION}", InvalidValue),
    "an expiry kept and given": ("request", f"{CARRIED} 010176 01 00 00 00 00 000001 0500", InvalidValue),
    "a write for two thousand years": (
        "request",
        f"{CARRIED} 010176 01 00 00 00 00 000000 81808080808008 00",
        InvalidValue,
    ),
    "a write with half a session": ("request", f"{CARRIED} 010176 01 00 00 00 00 000000 00 0161", InvalidValue),
    "an expiry of a tombstone": ("cached", "0400 00 07 01 02 8877665544332211 0000 01 050100", InvalidValue),
    "an expiry of a reservation": ("cached", "0400 010176 01 00 02 8877665544332211 0000 01 050100", InvalidValue),
    "an expiry of neither kind": ("cached", f"0400 {LEASED} 01 00 05 00", InvalidValue),
    "an expiry of both kinds": ("cached", f"0400 {LEASED} 01 01 05 {SESSION}", InvalidValue),
    "an expiry in a thousand years and a millisecond": (
        "cached",
        f"0400 {LEASED} 01 81808080808008 05 00",
        InvalidValue,
    ),
    "a session of one byte": ("cached", f"0400 {LEASED} 01 00 05 0161", InvalidValue),
    "a session of 17 bytes": ("cached", f"0400 {LEASED} 01 00 05 11{'ab' * 17}", Oversized),
    "counter 0 with a name": ("ballot", "0400 00 01", InvalidValue),
    "a promise in the fast round": ("request", "0400 00 016b 05 0102 07", InvalidValue),
    "a vote without a ballot": (
        "request",
        "0400 01 016b 05 0000 010176 01 00 02 8877665544332211 000000",
        InvalidValue,
    ),
    "a vote for version 0": ("request", "0400 01 016b 05 0102 010176 00 00 02 8877665544332211 000000", InvalidValue),
    "epoch 0": ("config", "0200 00 01 01 010200 000000000000000000 00 00 00 00 00", InvalidValue),
    "no replicas": ("config", "0200 01 01 00 00 00 00 00 00", InvalidValue),
    "65 replicas": ("config", "0200 01 01 41" + ("010200" + "00" * 9) * 65 + "000000", Oversized),
    "replica 0": ("config", "0200 01 01 01 000200 000000000000000000 00 00 00 00 00", InvalidValue),
    "the same replica twice": (
        "config",
        "0200 01 01 02 010200 000000000000000000 010200 000000000000000000 00 00 00 00 00",
        InvalidValue,
    ),
    "replicas out of order": (
        "config",
        "0200 01 01 02 020200 000000000000000000 010200 000000000000000000 00 00 00 00 00",
        InvalidValue,
    ),
    "no active replica": ("config", "0200 01 01 01 010100 000000000000000000 00 00 00 00 00", InvalidValue),
    "sealed in its own time": ("config", "0200 01 01 01 010200 000000000000000000 00 00 01 00 00", InvalidValue),
    "as many terms as epochs": ("config", "0200 01 01 01 010200 000000000000000000 00 00 00 01 00", InvalidValue),
    "members of a later term": ("config", "0200 02 01 01 010200 000000000000000000 00 00 00 00 01", InvalidValue),
    "a request for no member": ("change_request", "0400 00", InvalidValue),
    "a request for replica 0": ("change_request", "0400 01 000000", InvalidValue),
    "the same member twice": ("change_request", "0400 02 010000 010000", InvalidValue),
    "65 voters": ("config", "0200 01 01 01 010200 000000000000000000 01 41" + "01" * 65 + "0000", Oversized),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_name(case: str) -> None:
    kind, text, error = REFUSED[case]
    with pytest.raises(CodecError) as caught:
        FORMATS[kind].decode(bytes.fromhex(text))
    assert type(caught.value) is error


@pytest.mark.parametrize("kind", ["peer_request", "peer_response", "request", "reply", "cached", "config"])
@pytest.mark.parametrize("length", [1 << 13, 1 << 24, 1 << 40, (1 << 64) - 1])
def test_a_huge_length_allocates_nothing(kind: str, length: int) -> None:
    """Every place a length can stand, tried with one that promises more than there is."""
    form = FORMATS[kind]
    samples = [data for name, data in GOLDEN.items() if name.split()[0] == kind]
    huge = bare.uint(length)
    tracemalloc.start()
    try:
        for data in samples:
            for position in range(2, len(data) + 1):
                check_canonical(form, data[:position] + huge)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def test_a_frame_above_its_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(Oversized, match="4194305 bytes"):
        wire.decode_peer_response(b"\x04\x00" + bytes(wire.MAX_ENCODED_BYTES - 1))


def test_a_frame_above_its_limit_is_not_made() -> None:
    proposal = Proposal(value=bytes(MAX_VALUE_BYTES), version=1, mutable=False, proposal_id=ProposalId(1, 1))
    largest = ReadOk(committed=proposal, vote=Vote(proposal=proposal, ballot=Ballot(1, 1), epoch=1))
    assert wire.decode_reply(wire.encode_reply(largest)) == largest
    with pytest.raises(Oversized, match="above the limit of 4194304"):
        wire.encode_peer_response(PeerResponse(replies=(largest, largest)))


def test_a_batch_has_a_limit() -> None:
    full = PeerResponse(replies=(AcceptOk(),) * wire.MAX_BATCH)
    assert wire.decode_peer_response(wire.encode_peer_response(full)) == full
    with pytest.raises(Oversized, match="limit of 4096"):
        wire.encode_peer_response(PeerResponse(replies=(AcceptOk(),) * (wire.MAX_BATCH + 1)))
    with pytest.raises(Oversized, match="limit of 4096"):
        wire.decode_peer_response(b"\x04\x00\x81\x20" + b"\x01" * (wire.MAX_BATCH + 1))


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        ("request", Read(key=b"", epoch=1), InvalidValue),
        ("request", Read(key=b"k" * (MAX_KEY_BYTES + 1), epoch=1), Oversized),
        ("request", Read(key=b"k", epoch=-1), InvalidValue),
        ("request", Read(key=b"k", epoch=1 << 64), InvalidValue),
        ("reply", Behind(version=-1), InvalidValue),
        ("reply", Failed(reason="\ud800"), InvalidValue),
        ("reply", Failed(reason="é" * 513), Oversized),
        ("ballot", Ballot(0, 1), InvalidValue),
        (
            "cached",
            Proposal(value=bytes(MAX_VALUE_BYTES + 1), version=1, mutable=False, proposal_id=ProposalId(1, 1)),
            Oversized,
        ),
        ("cached", Proposal(value=b"", version=1, mutable=False, proposal_id=ProposalId(1, 1 << 64)), InvalidValue),
        ("cached", Proposal(value=b"", version=1, mutable=False, proposal_id=ProposalId(1, -1)), InvalidValue),
    ],
)
def test_what_cannot_be_read_is_not_written(kind: str, value: Any, error: type[CodecError]) -> None:
    with pytest.raises(CodecError) as caught:
        FORMATS[kind].encode(value)
    assert type(caught.value) is error


def test_a_stored_record_is_no_other_record() -> None:
    """Records do not name themselves; these at least cannot be taken for each other."""
    with pytest.raises(CodecError):
        wire.decode_ballot(wire.encode_vote(VOTE))
    with pytest.raises(CodecError):
        wire.decode_vote(wire.encode_cached(FIRST))


def test_decoded_configs_are_usable() -> None:
    config = wire.decode_config(wire.encode_config(first_epoch((3, 1, 2))))
    assert config.quorums.fast == 2
    assert all(replica.status is ReplicaStatus.ACTIVE for replica in config.replicas)


@given(frame=peer_requests, sender=uints, recipient=uints)
@settings(suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])
def test_a_frame_is_the_same_joined_or_encoded(frame: PeerRequest, sender: int, recipient: int) -> None:
    frame = PeerRequest(sender=sender, recipient=recipient, requests=frame.requests)
    pieces = [wire.encode_requests(frame.requests[:2]), *(wire.encode_requests((one,)) for one in frame.requests[2:])]
    try:
        encoded = wire.encode_peer_request(frame)
    except Oversized:
        reject()
    assert wire.join_peer_request(sender, recipient, len(frame.requests), pieces) == encoded


def test_a_joined_frame_has_the_same_limits() -> None:
    with pytest.raises(Oversized, match="limit of 4096"):
        wire.join_peer_request(1, 2, wire.MAX_BATCH + 1, [b""])
    with pytest.raises(Oversized, match="above the limit of 4194304"):
        wire.join_peer_request(1, 2, 1, [bytes(wire.MAX_ENCODED_BYTES)])


def test_equal_values_have_equal_bytes() -> None:
    make = [Commit(key=b"k", epoch=1, proposal=FIRST) for _ in range(2)]
    assert wire.encode_request(make[0]) == wire.encode_request(make[1])


@given(keys, proposals(), lineages)
def test_a_decision_is_its_record_and_its_entry(key: bytes, committed: Proposal, lineage: tuple[Settled, ...]) -> None:
    record = CommittedRecord(committed=committed, lineage=lineage)
    entry = ChangelogEntry(key=key, committed=committed)
    expected = wire.encode_committed_record(record), wire.encode_changelog_entry(entry)
    assert wire.encode_decision(key, committed, lineage) == expected
