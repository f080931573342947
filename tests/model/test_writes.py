"""What clients may ask for."""

import pytest

from epoxy.model.records import MAX_KEY_BYTES, MAX_VALUE_BYTES, Proposal, ProposalId
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


def test_a_read_shows_a_tombstone_and_nothing_alike() -> None:
    tombstone = Proposal(value=None, version=2, mutable=True, proposal_id=ProposalId(1, 1))
    value = Proposal(value=b"v", version=1, mutable=True, proposal_id=ProposalId(1, 1))
    seen = [ReadResult(committed=p, source=Source.LOCAL).value for p in (None, tombstone, value)]
    assert seen == [None, None, b"v"]
