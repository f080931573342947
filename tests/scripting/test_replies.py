"""Values of Lua as replies."""

from math import inf, nan

import pytest

from epoxy.model.strings import Fault, Reply, SimpleString
from epoxy.scripting.replies import ERROR, LIST, LIST_END, NULL, STATUS, VALUE, ReplyBuilder, reply_of

LEAST = -(2**63)


@pytest.mark.parametrize(
    ("kind", "value", "reply"),
    [
        (NULL, None, None),
        (VALUE, b"x", b"x"),
        (VALUE, 2.9, 2),
        (VALUE, -2.9, -2),
        (VALUE, inf, LEAST),
        (VALUE, nan, LEAST),
        (VALUE, 1e300, LEAST),
        (VALUE, 2.0**62, 2**62),
        (STATUS, b"a\r\nb", SimpleString("a  b")),
        (ERROR, b"a \xff", Fault("a �")),
    ],
)
def test_what_is_no_list(kind: int, value: bytes | float | None, reply: Reply) -> None:
    assert reply_of(kind, value) == reply


def test_lists_in_lists_and_one_that_was_not_finished() -> None:
    builder = ReplyBuilder()
    for kind in (LIST, LIST):
        builder.add(kind)
    assert builder.taken() is None
    builder.add(LIST)
    builder.add(VALUE, 1)
    builder.add(LIST)
    builder.add(LIST_END)
    builder.add(NULL)
    builder.add(LIST_END)
    assert builder.taken() == (1, (), None)
    assert builder.taken() is None
