"""Headers as an actor's code sees and gives them."""

from typing import Any

import pytest

from epoxy.client.hosted.headers import HeaderMap, checked_headers
from epoxy.model.errors import InvalidRequest
from epoxy.model.exchanges import MAX_HEADERS_BYTES


def test_names_have_no_case_and_repeated_ones_are_joined() -> None:
    headers = HeaderMap((("Accept", "a"), ("X-Y", "1"), ("accept", "b")))
    assert (headers["ACCEPT"], headers.get("x-y"), headers.get("no"), len(headers)) == ("a, b", "1", None, 2)
    assert list(headers) == ["accept", "x-y"]
    assert headers.pairs[2] == ("accept", "b")


@pytest.mark.parametrize(
    "given",
    [{"a b": "x"}, {"": "x"}, {"a": "x\r\nset-cookie: y"}, {"a": "\0"}, {"a": 7}, [("é", "x")], {"a": "\x7f"}],
)
def test_what_http_cannot_carry_is_refused(given: Any) -> None:
    with pytest.raises(InvalidRequest):
        checked_headers(given)


def test_headers_have_a_limit() -> None:
    fits = {"a": "x" * (MAX_HEADERS_BYTES - 1)}
    assert checked_headers(fits) == tuple(fits.items())
    with pytest.raises(InvalidRequest, match=f"the limit is {MAX_HEADERS_BYTES:,}"):
        checked_headers({"a": "x" * MAX_HEADERS_BYTES})
    assert checked_headers(None) == ()
    assert checked_headers([("a", "\tü")]) == (("a", "\tü"),)
