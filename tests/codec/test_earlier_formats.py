"""Stored records of formats 2 and 3 are read for ever, and strictly."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from epoxy.codec import epoxy_v3, wire
from epoxy.model.errors import CodecError, TrailingBytes, Truncated, UnknownVersion
from epoxy.model.instances import Command
from epoxy.model.records import ChangelogEntry, CommittedRecord, Proposal, Vote
from epoxy.model.transactions import Add, Delete, Expire, Operation, Put, Txn
from tests.codec.earlier import CHANGED, EARLIER, STORED, spelled
from tests.codec.golden import VALUES, read_golden
from tests.codec.strategies import FORMATS, Format

GOLDEN = read_golden()
every_example = pytest.mark.parametrize(
    ("header", "name"), [(header, name) for header, examples in EARLIER.items() for name in examples]
)
every_header = pytest.mark.parametrize("header", EARLIER)


def form_of(name: str) -> Format:
    return FORMATS[name.split()[0]]


@every_example
def test_what_was_written_is_read_and_written_anew_in_format_4(header: bytes, name: str) -> None:
    form, value, data = form_of(name), VALUES[name], EARLIER[header][name]
    assert data.startswith(header)
    assert form.decode(data) == (replace(value, versioned=False) if isinstance(value, Command) else value)
    assert form.encode(value) == GOLDEN[name]
    assert spelled(form, value, data) == data, "the encoder of the tests is that of then"


@every_header
def test_every_stored_record_has_an_example(header: bytes) -> None:
    assert {name.split()[0] for name in EARLIER[header]} == set(STORED)


def test_a_configuration_is_spelled_as_ever() -> None:
    """Replicas compare the bytes of one epoch's: two spellings would be two values of one instance."""
    assert wire.encode_config(VALUES["config joint"]).startswith(wire.HEADER_2)
    for header in (wire.HEADER, wire.HEADER_3):
        with pytest.raises(UnknownVersion):
            wire.decode_config(header + GOLDEN["config joint"][2:])


@every_example
def test_every_truncation_is_refused(header: bytes, name: str) -> None:
    data = EARLIER[header][name]
    for end in range(len(data)):
        with pytest.raises(Truncated):
            form_of(name).decode(data[:end])


@every_example
def test_a_trailing_byte_is_refused(header: bytes, name: str) -> None:
    with pytest.raises(TrailingBytes):
        form_of(name).decode(EARLIER[header][name] + b"\x00")


@every_example
def test_every_changed_byte_is_refused_or_the_one_spelling_of_a_value(header: bytes, name: str) -> None:
    form, data = form_of(name), EARLIER[header][name]
    for position in range(len(wire.HEADER), len(data)):
        for byte in range(256):
            changed = data[:position] + bytes([byte]) + data[position + 1 :]
            try:
                value = form.decode(changed)
            except CodecError:
                continue
            assert spelled(form, value, changed) == changed


def as_then(value: Any, header: bytes) -> Any:
    """As that format could say it: without an expiry, in format 2 without folds."""
    folds = header != wire.HEADER_2
    match value:
        case Proposal():
            value = replace(value, expiry=None)
            return value if folds else replace(value, folded=(), proposer=0)
        case Vote():
            return replace(value, proposal=as_then(value.proposal, header))
        case ChangelogEntry():
            return replace(value, committed=as_then(value.committed, header))
        case CommittedRecord():
            lineage = tuple([each if folds else replace(each, folded=()) for each in value.lineage])
            return replace(value, committed=as_then(value.committed, header), lineage=lineage)
        case Command(txns=txns):
            return Command(txns=tuple(map(txn_then, txns)), versioned=False)
        case _:
            raise AssertionError(value)


def txn_then(txn: Txn) -> Txn:
    """Without what format 4 has added."""
    compares = tuple([each for each in txn.compares if each.version is None])
    then, otherwise = (tuple([operation_then(each) for each in branch]) for branch in (txn.then, txn.otherwise))
    return Txn(compares=compares, then=then, otherwise=otherwise, reads=txn.reads)


def operation_then(operation: Operation) -> Operation:
    match operation:
        case Put():
            return Put(key=operation.key, value=operation.value)
        case Add():
            return replace(operation, ttl_ms=0)
        case Expire():
            return Delete(key=operation.key)
        case _:
            return operation


@every_header
@pytest.mark.parametrize("kind", CHANGED)
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow], max_examples=50)
def test_round_trip(kind: str, header: bytes, data: st.DataObject) -> None:
    form = FORMATS[kind]
    value = as_then(data.draw(form.values), header)
    assert form.decode(spelled(form, value, header)) == value


@every_header
def test_a_record_is_renewed_once(header: bytes) -> None:
    for name in ("committed_record first", "committed_record lineage", "committed_record legacy"):
        assert wire.renewed(EARLIER[header][name]) == GOLDEN[name]
        assert wire.renewed(GOLDEN[name]) is GOLDEN[name]


@every_header
@pytest.mark.parametrize(
    "kind", ["request", "reply", "peer_request", "peer_response", "member_request", "member_reply"]
)
def test_between_peers_only_format_4_is_spoken(kind: str, header: bytes) -> None:
    name = next(name for name in GOLDEN if name.split()[0] == kind)
    with pytest.raises(UnknownVersion, match=f"format version {header[0]}: both nodes need the same release of Epoxy"):
        FORMATS[kind].decode(header + GOLDEN[name][2:])


def test_a_row_of_a_later_format_is_named() -> None:
    with pytest.raises(UnknownVersion, match="format version 5: another release of Epoxy wrote this"):
        wire.decode_committed_record(b"\x05\x00" + GOLDEN["committed_record first"][2:])


@pytest.mark.pure("plants a fault in the decoder")
@every_header
def test_a_decoder_that_believes_any_flag_is_seen(header: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoxy_v3, "decode_bool", lambda buffer, position: (buffer[position] > 0, position + 1))
    with pytest.raises(AssertionError):
        test_every_changed_byte_is_refused_or_the_one_spelling_of_a_value(header, "cached tombstone")
