"""The text of a greeting: one spelling, and nothing else is read."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy.model.incarnation import Greeting, Incarnation, Sighting
from epoxy.transport.peers.signed_header import (
    GREETING_FIELDS,
    NO_GREETING,
    SignedHeader,
    greeting_text,
    read_greeting,
)

NUMBER = st.integers(0, (1 << 64) - 1)
STORE = st.integers(1, (1 << 64) - 1)
INCARNATION = st.builds(Incarnation, store=NUMBER, counter=NUMBER, nonce=NUMBER, base=NUMBER)
SIGHTING = st.builds(Sighting, store=STORE, counter=NUMBER, nonce=NUMBER, position=NUMBER)
GREETING = st.builds(Greeting, incarnation=INCARNATION, position=NUMBER, known=st.none() | SIGHTING)


@given(GREETING)
def test_a_greeting_comes_back(greeting: Greeting) -> None:
    text = greeting_text(greeting)
    assert read_greeting(text.split(b",")) == greeting
    assert len(text) < 256, "it stands in a header of an answer"


@given(st.lists(st.binary(max_size=24), min_size=GREETING_FIELDS - 1, max_size=GREETING_FIELDS + 1))
def test_whatever_is_read_is_a_greeting_or_a_value_error(fields: list[bytes]) -> None:
    with suppress(ValueError):
        read = read_greeting(fields)
        assert read_greeting(greeting_text(read).split(b",")) == read


@pytest.mark.parametrize("place", range(GREETING_FIELDS))
def test_a_number_that_is_missing_or_beyond_64_bits_is_none(place: int) -> None:
    fields = greeting_text(NO_GREETING).split(b",")
    for wrong in (b"", b"-1", b"x", b"1" + b"0" * 20):
        with pytest.raises(ValueError, match=r"beyond 64 bits|invalid literal"):
            read_greeting([*fields[:place], wrong, *fields[place + 1 :]])
    with pytest.raises(ValueError, match="another length"):
        read_greeting([*fields[:place], *fields[place + 1 :]])


def test_an_operator_has_no_store() -> None:
    assert SignedHeader(0, 2, 1, 4, 5).store == 0
    assert SignedHeader(0, 2, 1, 4, 5).text().endswith(b",0000000000000000,0,0000000000000000,0")
