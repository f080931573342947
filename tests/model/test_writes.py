"""What clients may ask for."""

from typing import Any

import pytest

from epoxy.model.records import MAX_KEY_BYTES, MAX_TTL_MS, MAX_VALUE_BYTES, Proposal, ProposalId
from epoxy.model.strings import Steps
from epoxy.model.writes import ReadResult, Source, Write


@pytest.mark.parametrize(
    "write",
    [
        Write(key=b"k", value=b""),
        Write(key=b"k" * MAX_KEY_BYTES, value=b"v" * MAX_VALUE_BYTES),
        Write(key=b"k", value=b"v", mutable=True, if_version=0),
        Write(key=b"k", value=None, mutable=True, if_version=3),
    ],
    ids=["empty value", "as large as may be", "create only if never written", "compare and delete"],
)
def test_valid_writes(write: Write) -> None:
    assert write.is_delete == (write.value is None)


def test_keys_and_values_have_limits() -> None:
    for key in (b"", b"k" * (MAX_KEY_BYTES + 1)):
        with pytest.raises(AssertionError):
            Write(key=key, value=b"v")
    with pytest.raises(AssertionError):
        Write(key=b"k", value=b"v" * (MAX_VALUE_BYTES + 1))


def test_only_mutable_writes_delete_or_compare() -> None:
    with pytest.raises(AssertionError):
        Write(key=b"k", value=None)
    with pytest.raises(AssertionError):
        Write(key=b"k", value=b"v", if_version=1)


STEPS = Steps(commands=((b"APPEND", b"k", b"v"),), now_ms=1, seed=1)
SESSION = bytes(16)


@pytest.mark.parametrize(
    "fields",
    [
        {"value": b"v", "ttl_ms": MAX_TTL_MS},
        {"value": b"v", "session": SESSION},
        {"value": b"v", "keep_expiry": True},
        {"value": b"v", "if_absent": True, "ttl_ms": 1},
        {"value": None, "touch": True},
        {"value": None, "touch": True, "ttl_ms": 1},
        {"value": None, "amount": 1, "ttl_ms": 1},
        {"value": None, "steps": STEPS},
    ],
    ids=str,
)
def test_mutable_writes_expire_touch_and_have_steps(fields: dict[str, Any]) -> None:
    write = Write(key=b"k", mutable=True, **fields)
    assert not write.is_delete
    assert write.expires == bool(write.ttl_ms or write.session)


@pytest.mark.parametrize(
    "fields",
    [
        {"ttl_ms": -1},
        {"ttl_ms": MAX_TTL_MS + 1},
        {"session": b"short"},
        {"ttl_ms": 1, "session": SESSION},
        {"ttl_ms": 1, "keep_expiry": True},
        {"session": SESSION, "keep_expiry": True},
        {"touch": True},
        {"steps": STEPS},
        {"mutable": False, "ttl_ms": 1},
        {"mutable": False, "session": SESSION},
    ],
    ids=str,
)
def test_what_no_write_with_a_value_is(fields: dict[str, Any]) -> None:
    whole: dict[str, Any] = {"key": b"k", "value": b"v", "mutable": True} | fields
    with pytest.raises(AssertionError):
        Write(**whole)


def test_a_read_shows_a_tombstone_and_nothing_alike() -> None:
    tombstone = Proposal(value=None, version=2, mutable=True, proposal_id=ProposalId(1, 1))
    value = Proposal(value=b"v", version=1, mutable=True, proposal_id=ProposalId(1, 1))
    seen = [ReadResult(committed=p, source=Source.LOCAL).value for p in (None, tombstone, value)]
    assert seen == [None, None, b"v"]
