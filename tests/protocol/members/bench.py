"""Drives one flow of a change by hand: a script of results, and the effects it must ask for in turn."""

from collections.abc import Mapping
from typing import Any, TypeVar

from epoxy.protocol.members.effects import Effect, Flow

T = TypeVar("T")


def play(flow: Flow[T], *script: tuple[Effect, object], asides: Mapping[type, object] | None = None) -> T:
    """To the end. Each effect must be the one expected; those among the asides are answered whenever they come."""
    resume: object = None
    for expected, result in script:
        effect = aside(flow, flow.send(resume), expected, asides or {})
        assert effect == expected
        resume = result
    try:
        more = aside(flow, flow.send(resume), None, asides or {})
    except StopIteration as stop:
        result_: T = stop.value
        return result_
    raise AssertionError(f"the script ends here, the flow does not: {more}")


def aside(flow: Flow[Any], effect: Effect, expected: Effect | None, asides: Mapping[type, object]) -> Effect:
    while effect != expected and type(effect) in asides:
        effect = flow.send(asides[type(effect)])
    return effect
