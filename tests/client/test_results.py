"""Values that know their version."""

from epoxy.client.results import Reading
from epoxy.model.writes import Source


def test_a_value_is_bytes_with_its_version() -> None:
    read = Reading(key=b"k", value=b"v", version=3, mutable=True, source=Source.LOCAL, latency_ms=0.5)
    value = read.as_value()
    assert value == b"v"
    assert value is not None
    assert (value.version, value.mutable, value.source, value.latency_ms) == (3, True, Source.LOCAL, 0.5)
    assert type(value.value) is bytes


def test_an_absent_key_has_no_value_and_may_have_a_version() -> None:
    read = Reading(key=b"k", value=None, version=4, mutable=True, source=Source.QUORUM, latency_ms=0.5)
    assert (read.found, read.as_value(), read.version) == (False, None, 4)
