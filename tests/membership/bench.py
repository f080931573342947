"""Drives one flow of a change by hand: a script of results, and the effects it must ask for in turn."""

from typing import TypeVar

from epoxy.membership.effects import Effect, Flow

T = TypeVar("T")


def play(flow: Flow[T], *script: tuple[Effect, object]) -> T:
    """To the end. Each effect must be the one expected."""
    resume: object = None
    for expected, result in script:
        effect = flow.send(resume)
        assert effect == expected
        resume = result
    try:
        more = flow.send(resume)
    except StopIteration as stop:
        result_: T = stop.value
        return result_
    raise AssertionError(f"the script ends here, the flow does not: {more}")
