"""Names and ids of actors."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.model.actors import MAX_NAME_BYTES, ActorEntry, ActorName, ActorState, label_of, make_id, parse_id
from epoxy.model.errors import InvalidRequest

U64 = st.integers(0, (1 << 64) - 1)
LOBBY = ActorName("n", "chat", "lobby")


@given(U64, U64, st.integers(0, 0xFFFF))
def test_an_id_is_a_random_uuid_with_the_label_of_its_owner(high: int, low: int, label: int) -> None:
    actor_id = make_id(high, low, label)
    inner = uuid.UUID(bytes=actor_id[1:17])
    assert (inner.version, inner.variant) == (4, uuid.RFC_4122)
    assert label_of(actor_id) == label
    assert parse_id(actor_id.hex()) == actor_id


@pytest.mark.parametrize("text", ["", "01", "xy", "00" * 19, "01" * 18, "01" * 20, "01" + "AB" * 18, " " + "01" * 19])
def test_what_is_no_id(text: str) -> None:
    with pytest.raises(InvalidRequest, match="38 lower-case hexadecimal digits"):
        parse_id(text)


@pytest.mark.parametrize("part", ["", "a\0b", "é" * (MAX_NAME_BYTES // 2 + 1), "\ud800"], ids=ascii)
def test_what_is_no_name(part: str) -> None:
    for parts in ((part, "a", "a"), ("a", part, "a"), ("a", "a", part)):
        with pytest.raises(InvalidRequest, match=r"^(namespace|name|key) "):
            ActorName(*parts)


def test_a_name_as_long_as_may_be() -> None:
    assert ActorName("a" * MAX_NAME_BYTES, "é" * 127, "k").namespace == "a" * 255


@pytest.mark.parametrize("state", ActorState)
def test_an_actor_is_on_an_envoy_exactly_while_one_may_run_it(state: ActorState) -> None:
    def entry(envoy_key: str | None) -> ActorEntry:
        return ActorEntry(id=b"", name=LOBBY, pool="p", state=state, generation=1, create_ts=0, envoy_key=envoy_key)

    placed = {ActorState.STARTING, ActorState.RUNNING, ActorState.MOVING}
    for envoy_key in (None, "e"):
        if state is ActorState.DESTROYED or (state in placed) == (envoy_key is not None):
            assert entry(envoy_key).is_alive == (state is not ActorState.DESTROYED)
        else:
            with pytest.raises(AssertionError):
                entry(envoy_key)
