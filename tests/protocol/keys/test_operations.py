"""A pending write: when it may be in a decision."""

from epoxy.model.writes import Write
from epoxy.protocol.keys.operations import NOT_EXPOSED
from tests.protocol.keys.harness import KEY, waiting

PUT = Write(key=KEY, value=b"x", mutable=True)


def test_a_write_is_exposed_from_the_first_version_it_was_put_forward_on() -> None:
    """Rule F2: the floor of a write is that of the first time, whoever puts it forward later."""
    pending = waiting(PUT)
    assert (pending.is_exposed, pending.floor) == (False, NOT_EXPOSED)
    pending.expose(0)
    assert (pending.is_exposed, pending.floor) == (True, 0), "version 0 is a floor, too"
    pending.expose(7)
    assert pending.floor == 0
