"""`actor.state`: which values it keeps, what it encodes anew, and what an undo brings back."""

from collections import OrderedDict
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

import pytest

from epoxy.client.hosted import state as module
from epoxy.client.hosted.state import MAX_DEPTH, State, encode_field
from epoxy.model.errors import DocumentTooLarge, StateError
from epoxy.model.homes import MAX_DOCUMENT_BYTES


def reread(state: State) -> dict[str, Any]:
    """What the next activation starts with."""
    return dict(State(dict(state.encoded)))


def test_it_is_a_dict() -> None:
    state = State({"old": encode_field("old", [1])})
    state["new"] = {"a": b"\x00", "b": [None, True, 1.5, "é", -(2**63), 2**64 - 1]}
    assert (list(state), len(state), "old" in state, "no" in state) == (["old", "new"], 2, True, False)
    assert state.setdefault("n", 1) == 1
    assert state.pop("old") == [1]
    assert (list(state), len(state), state.get("old"), "old" in state) == (["new", "n"], 2, None, False)
    with pytest.raises(KeyError):
        del state["old"]
    state["old"] = 2
    assert (list(state), len(state)) == (["old", "new", "n"], 3)
    assert state.point()
    assert reread(state) == dict(state) == {"old": 2, "new": state["new"], "n": 1}
    state.clear()
    assert (len(state), state.point(), reread(state)) == (0, True, {})
    assert repr(state) == "State({})"


def test_what_was_changed_in_place_is_found_at_the_next_point() -> None:
    state = State({"list": encode_field("list", [1])})
    state["list"].append(2)
    assert state.is_touched
    assert (state.point(), state.is_touched, reread(state)) == (True, False, {"list": [1, 2]})
    assert state["list"] == [1, 2]
    assert not state.point(), "read, and not changed"


def test_only_touched_fields_are_encoded_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    state = State({name: encode_field(name, ["x"]) for name in ("a", "b", "c")})
    state["c"] = 1
    state.point()
    encoded: list[str] = []
    right = module._encoded

    def counting(name: str, value: Any) -> bytes:
        encoded.append(name)
        return right(name, value)

    monkeypatch.setattr(module, "_encoded", counting)
    assert state["a"] == ["x"]
    assert (state["c"], state.get("c")) == (1, 1), "a number cannot be changed in place"
    assert not state.point()
    assert encoded == ["a"]


def spoil(state: State) -> None:
    state["list"].append("more")
    state["number"] = 8
    state["new"] = 1
    del state["gone"]


def test_an_undo_brings_back_the_last_point() -> None:
    before = {"list": [1], "number": 7, "gone": {"a": 1}}
    state = State({name: encode_field(name, value) for name, value in before.items()})
    spoil(state)
    state.undo()
    assert (dict(state), list(state), len(state), state.point()) == (before, list(before), 3, False)
    assert reread(state) == before


def test_without_the_undo_a_failed_turn_would_be_saved_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(State, "undo", lambda _: None)
    state = State({name: encode_field(name, value) for name, value in {"list": [1], "number": 7, "gone": 1}.items()})
    spoil(state)
    state.undo()
    assert state.point()
    assert reread(state) != {"list": [1], "number": 7, "gone": 1}


class Colour(IntEnum):
    RED = 1


RECURSIVE: list[Any] = []
RECURSIVE.append(RECURSIVE)


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ((1, 2), "a tuple in it; .* use a list"),
        ({1}, "a set in it; .* use a list"),
        ({"a": [{1: 2}]}, "a dict with a key that is an int; keys are str"),
        (datetime(2026, 1, 1, tzinfo=UTC), "a datetime in it"),
        (Colour.RED, "a Colour in it"),
        (OrderedDict(a=1), "an OrderedDict in it"),
        (bytearray(b"x"), "a bytearray in it"),
        (2**64, "an int of more than 64 bits"),
        (RECURSIVE, f"more than {MAX_DEPTH} deep, or in themselves"),
        ("\ud800", "text that is not Unicode"),
        ({"\ud800": 1}, "text that is not Unicode"),
    ],
)
def test_what_would_not_come_back_as_it_is_cannot_be_set(value: Any, why: str) -> None:
    """Nor put in by a change in place, which is found at the next point."""
    state = State({"x": encode_field("x", [1])})
    with pytest.raises(StateError, match=rf"state\['x'\] .*{why}"):
        state["x"] = value
    assert dict(state) == {"x": [1]}
    state["x"].append(value)
    with pytest.raises(StateError, match=why):
        state.point()
    state.undo()
    assert reread(state) == dict(state) == {"x": [1]}


def test_a_name_is_text() -> None:
    state = State({})
    with pytest.raises(StateError, match="named by a str, not by int"):
        state[7] = 1  # type: ignore[index]
    with pytest.raises(StateError, match="not Unicode"):
        state["\ud800"] = 1


def test_all_fields_together_have_a_limit() -> None:
    state = State({})
    with pytest.raises(DocumentTooLarge, match=f"may have {MAX_DOCUMENT_BYTES:,}"):
        state["x"] = bytes(MAX_DOCUMENT_BYTES)
    state["x"] = bytes(MAX_DOCUMENT_BYTES // 2)
    state["y"] = b""
    assert state.point()
    state["y"] = bytes(MAX_DOCUMENT_BYTES // 2)
    with pytest.raises(DocumentTooLarge, match="the state would have"):
        state.point()
    state.undo()
    state["y"] = b"1"
    with pytest.raises(DocumentTooLarge, match="of them kept answers"):
        state.point(others=MAX_DOCUMENT_BYTES // 2)
    state["y"] = b"2"
    assert state.point()
    del state["x"]
    state["y"] = bytes(MAX_DOCUMENT_BYTES - 100)
    assert state.point(), "what was deleted does not count"
