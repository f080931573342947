"""JSON that somebody else wrote: whatever is wrong with it has one name, and one line of words."""

import msgspec
import pytest

from epoxy.codec import json_text
from epoxy.model.errors import InvalidValue


class Word(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    more: object = None


words = msgspec.json.Decoder(Word)


def test_what_is_right_is_read() -> None:
    assert json_text.decode(words, b'{"text": "\xc3\xa4"}') == Word("ä")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "truncated"),
        (b"nonsense", "malformed"),
        (b'{"text": 1}', "Expected `str`"),
        (b'{"text": "\xff"}', "not UTF-8: invalid start byte"),
        (b'{"text": "\xc3"}', "not UTF-8"),
        (b'{"\xff": 1, "text": "a"}', "not UTF-8"),
        (b'{"text": "a", "more": ' + b"[" * 100_000, "nested too deep"),
        (b'{"text": "a", "more": ' + b'{"a":' * 100_000, "nested too deep"),
    ],
)
def test_what_is_wrong_has_one_name_and_one_line(data: bytes, told: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        json_text.decode(words, data)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
