"""Questions about actors refuse what is outside the limits when they are made, and answers of older nodes are read."""

import msgspec
import pytest

from epoxy.actors.messages import AdoptActor, CallActor, Elsewhere, Ensure, MoveActor, Question, Verdict
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


def test_what_datacenters_say_to_each_other_about_homes_passes_through_json() -> None:
    for question in (MoveActor(target=NAME, to=3), MoveActor(target="01", to=3), AdoptActor(target=NAME)):
        assert msgspec.json.decode(msgspec.json.encode(question), type=Question) == question
    said = Elsewhere(label=2, epoch=5)
    assert msgspec.json.decode(msgspec.json.encode(said), type=Verdict) == said
