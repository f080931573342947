"""Counters of the hot paths."""

import pytest

from epoxy.api.counters import Counters
from epoxy.model.messages import Behind, Read, ReadOk
from epoxy.model.writes import Path


def test_writes_are_counted_by_outcome_and_by_path() -> None:
    counters = Counters()
    counters.proposal_done("Committed", Path.FAST, 0.1)
    counters.proposal_done("ImmutableKey", Path.FAST, 0.1, prepares=2, retries=1, bumps=3)
    counters.proposal_done("Refused", None, 0.1)
    assert counters.proposals == {("Committed", "fast"): 1, ("ImmutableKey", "fast"): 1, ("Refused", "none"): 1}
    assert (counters.took(Path.FAST), counters.took(Path.SLOW)) == (2, 0)
    assert (counters.prepares, counters.retries, counters.bumps) == (2, 1, 3)


def test_requests_of_a_frame_took_as_long_as_the_frame() -> None:
    counters = Counters()
    ok = ReadOk(committed=None, vote=None)
    counters.requests_handled([Read(key=b"k", epoch=1)] * 3, [ok, Behind(version=1), ok], 0.5)
    counters.request_handled("Read", "ReadOk", 1.0)
    assert counters.requests == {("Read", "ReadOk"): 3, ("Read", "Behind"): 1}
    assert counters.request_seconds["Read"].sum == pytest.approx(2.5)


def test_each_request_has_its_reply() -> None:
    with pytest.raises(ValueError, match="shorter"):
        Counters().requests_handled([Read(key=b"k", epoch=1)], [], 0.1)
