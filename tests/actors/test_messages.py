"""Questions about actors refuse what is outside the limits when they are made."""

import pytest

from epoxy.actors.messages import CallActor, Ensure
from epoxy.model.actors import MAX_INPUT_BYTES, MAX_REQUEST_BYTES, ActorName
from epoxy.model.errors import InvalidRequest

NAME = ActorName("n", "room", "lobby")


def test_the_input_of_an_actor_has_a_limit() -> None:
    assert len(Ensure(name=NAME, pool="p", input=bytes(MAX_INPUT_BYTES)).input) == MAX_INPUT_BYTES
    with pytest.raises(InvalidRequest, match=f"the limit is {MAX_INPUT_BYTES}"):
        Ensure(name=NAME, pool="p", input=bytes(MAX_INPUT_BYTES + 1))


@pytest.mark.parametrize("pool", ["", "x" * 256, "a\0b"])
def test_a_pool_is_named_as_an_actor_is(pool: str) -> None:
    with pytest.raises(InvalidRequest, match="pool has 1 to 255 bytes"):
        Ensure(name=NAME, pool=pool)


def test_a_request_has_a_limit() -> None:
    assert len(CallActor(target=NAME, body=bytes(MAX_REQUEST_BYTES)).body) == MAX_REQUEST_BYTES
    with pytest.raises(InvalidRequest, match=f"the limit is {MAX_REQUEST_BYTES}"):
        CallActor(target=NAME, body=bytes(MAX_REQUEST_BYTES + 1))
