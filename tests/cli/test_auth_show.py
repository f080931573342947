"""Grants in words."""

import time
from pathlib import Path
from typing import Any

import pytest

from epoxy.cli.auth_show import end_words, is_over, made_words, scope
from epoxy.client.auth_calls import TokenMade
from epoxy.model.access import AccessRole
from tests.client.fake_auth import grant


@pytest.mark.parametrize(
    ("roles", "more", "expected"),
    [
        ([AccessRole.OPERATOR], {}, "-"),
        ([AccessRole.OPERATOR], {"prefixes": ["a"]}, "-"),
        ([AccessRole.READER], {}, "any key"),
        ([AccessRole.CALLER], {"prefixes": ["a%20b/", "%FF"]}, "a b/, \\xff"),
        ([AccessRole.WORKER], {}, "any pool"),
        ([AccessRole.WORKER, AccessRole.WRITER], {"pools": ["p", "q"], "prefixes": ["k"]}, "k; pools p, q"),
    ],
)
def test_what_a_grant_is_limited_to(roles: list[AccessRole], more: dict[str, Any], expected: str) -> None:
    assert scope(grant("x", *roles, **more)) == expected


def test_when_a_grant_is_over() -> None:
    now = time.time()
    assert not is_over(grant("x", AccessRole.READER), now)
    assert is_over(grant("x", AccessRole.READER, expires_s=int(now)), now)
    assert is_over(grant("x", AccessRole.READER, token_ends=[int(now) - 1]), now)
    assert not is_over(grant("x", AccessRole.READER, token_ends=[int(now) - 1], san="y"), now)
    assert not is_over(grant("x", AccessRole.READER, token_ends=[0, int(now) - 1]), now)


def test_the_end_of_a_token_that_is_being_replaced() -> None:
    assert end_words(grant("x", AccessRole.READER)) == "never"
    soon = int(time.time()) + 60
    assert end_words(grant("x", AccessRole.READER, token_ends=[0, soon])).startswith("never (the token before: 2")


def test_the_words_about_a_new_token_do_not_have_it() -> None:
    made = TokenMade(token="epx_hidden", grant=grant("x", AccessRole.READER))
    for file in (None, Path("f")):
        assert "epx_hidden" not in made_words(made, file)
