"""Records of homes, leases and states: round trips, what older clusters wrote, and damage."""

import pytest

from epoxy.codec import home_records
from epoxy.model.actors import ActorName, make_id
from epoxy.model.errors import CodecError
from epoxy.model.homes import MAX_DOCUMENT_BYTES, DatacenterLease, HomeRecord, StateRecord
from epoxy.model.records import MAX_KEY_BYTES, MAX_VALUE_BYTES

ID = make_id(3, 4, 7)


def test_round_trips() -> None:
    home = HomeRecord(actor_id=ID, label=7, lease=b"l" * 16, epoch=2, pool="p", create_ts=5, input=b"in", alive=False)
    lease = DatacenterLease(incarnation=b"i" * 16, pools=(("a", "b"),))
    state = StateRecord(generation=2**40, number=9, alarm_ms=1, document=b"d")
    assert home_records.decode_home(home_records.encode(home)) == home
    assert home_records.decode_lease(home_records.encode(lease)) == lease
    assert home_records.decode_state(home_records.encode(state)) == state


def test_a_reservation_of_an_older_cluster_is_an_id() -> None:
    assert home_records.decode_home(ID) == HomeRecord(actor_id=ID, label=7)


@pytest.mark.parametrize("value", [b"", b"\x02", b"\x02\xc1", b"\x03" + b"x" * 18, b"\x02\x91\xa1x"])
def test_damage_is_told(value: bytes) -> None:
    with pytest.raises(CodecError):
        home_records.decode_home(value)


def test_the_largest_document_fits_into_a_value() -> None:
    state = StateRecord(generation=2**63 - 1, number=2**63 - 1, alarm_ms=2**63 - 1, document=b"d" * MAX_DOCUMENT_BYTES)
    assert len(home_records.encode(state)) <= MAX_VALUE_BYTES


def test_the_longest_names_fit_into_a_key() -> None:
    name = ActorName("n" * 255, "n" * 255, "n" * 255)
    assert len(home_records.home_key(name)) <= MAX_KEY_BYTES
    assert home_records.home_key(name) != home_records.reservation_key(name)
