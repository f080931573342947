"""Stored records of format 2 are read for ever, and strictly."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from epoxy.codec import epoxy_v2, wire
from epoxy.model.errors import CodecError, TrailingBytes, Truncated, UnknownVersion
from epoxy.model.records import ChangelogEntry, CommittedRecord, Proposal, Vote
from tests.codec.earlier import CHANGED, EARLIER, STORED, spelled
from tests.codec.golden import VALUES, read_golden
from tests.codec.strategies import FORMATS, Format

GOLDEN = read_golden()
every_example = pytest.mark.parametrize("name", EARLIER)


def form_of(name: str) -> Format:
    return FORMATS[name.split()[0]]


@every_example
def test_what_was_written_is_read_and_written_anew_in_format_3(name: str) -> None:
    form, value = form_of(name), VALUES[name]
    assert form.decode(EARLIER[name]) == value
    assert form.encode(value) == GOLDEN[name]
    assert spelled(form, value, EARLIER[name]) == EARLIER[name], "the encoder of the tests is that of format 2"


def test_every_stored_record_has_an_example() -> None:
    assert {name.split()[0] for name in EARLIER} == set(STORED)


def test_a_configuration_is_spelled_as_ever() -> None:
    """Replicas compare the bytes of one epoch's: two spellings would be two values of one instance."""
    assert wire.encode_config(VALUES["config joint"]).startswith(wire.EARLIER_HEADER)


@every_example
def test_every_truncation_is_refused(name: str) -> None:
    for end in range(len(EARLIER[name])):
        with pytest.raises(Truncated):
            form_of(name).decode(EARLIER[name][:end])


@every_example
def test_a_trailing_byte_is_refused(name: str) -> None:
    with pytest.raises(TrailingBytes):
        form_of(name).decode(EARLIER[name] + b"\x00")


@every_example
def test_every_changed_byte_is_refused_or_the_one_spelling_of_a_value(name: str) -> None:
    form, data = form_of(name), EARLIER[name]
    for position in range(len(wire.HEADER), len(data)):
        for byte in range(256):
            changed = data[:position] + bytes([byte]) + data[position + 1 :]
            try:
                value = form.decode(changed)
            except CodecError:
                continue
            assert spelled(form, value, changed) == changed


def without_folds(value: Any) -> Any:
    """As format 2 could say it."""
    match value:
        case Proposal():
            return replace(value, folded=(), proposer=0)
        case Vote():
            return replace(value, proposal=without_folds(value.proposal))
        case ChangelogEntry():
            return replace(value, committed=without_folds(value.committed))
        case CommittedRecord():
            lineage = tuple([replace(each, folded=()) for each in value.lineage])
            return replace(value, committed=without_folds(value.committed), lineage=lineage)
        case _:
            raise AssertionError(value)


@pytest.mark.parametrize("kind", CHANGED)
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow])
def test_round_trip(kind: str, data: st.DataObject) -> None:
    form = FORMATS[kind]
    value = without_folds(data.draw(form.values))
    assert form.decode(spelled(form, value, wire.EARLIER_HEADER)) == value


def test_a_record_is_renewed_once() -> None:
    for name in ("committed_record first", "committed_record lineage", "committed_record legacy"):
        assert wire.renewed(EARLIER[name]) == GOLDEN[name]
        assert wire.renewed(GOLDEN[name]) is GOLDEN[name]


@pytest.mark.parametrize(
    "kind", ["request", "reply", "peer_request", "peer_response", "member_request", "member_reply"]
)
def test_between_peers_only_format_3_is_spoken(kind: str) -> None:
    name = next(name for name in GOLDEN if name.split()[0] == kind)
    with pytest.raises(UnknownVersion, match="format version 2: both nodes need the same release of Epoxy"):
        FORMATS[kind].decode(wire.EARLIER_HEADER + GOLDEN[name][2:])


def test_a_row_of_a_later_format_is_named() -> None:
    with pytest.raises(UnknownVersion, match="format version 4: another release of Epoxy wrote this"):
        wire.decode_committed_record(b"\x04\x00" + GOLDEN["committed_record first"][2:])


@pytest.mark.pure("plants a fault in the decoder")
def test_a_decoder_that_believes_any_flag_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoxy_v2, "decode_bool", lambda buffer, position: (buffer[position] > 0, position + 1))
    with pytest.raises(AssertionError):
        test_every_changed_byte_is_refused_or_the_one_spelling_of_a_value("cached tombstone")
