"""Steps as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epoxy_sim.playground.actions import WITH_VALUE, Action, BadStep, Doing, Question, parse

VALUES = st.text("abcXYZ019_-", min_size=1, max_size=12)


@st.composite
def actions(draw: st.DrawFn) -> Action:
    doing = draw(st.sampled_from(Doing))
    if doing is Doing.PASS_TIME:
        return Action(doing=doing)
    if doing is not Doing.ASK:
        return Action(doing=doing, number=draw(st.integers(0, 9_999)))
    question = draw(st.sampled_from(Question))
    value = draw(VALUES) if question in WITH_VALUE else ""
    return Action(doing=doing, number=draw(st.integers(0, 9)), question=question, value=value)


@given(actions())
def test_a_step_is_read_as_it_was_written(action: Action) -> None:
    assert parse(action.text) == action


@pytest.mark.parametrize(
    "text",
    [
        "",
        "d",
        "d12345",
        "q1r",
        "q1r:",
        "q1g:x",
        "q1z",
        "q1r:a.b",
        "q1r:" + 13 * "a",
        "tt",
        "d1 ",
        "Q1r:a",
        "q1r:ä",
        "d٣",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(BadStep):
        parse(text)
