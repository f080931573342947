"""The host of a flow in tests: a function that performs its effects."""

from collections.abc import Callable
from typing import Any, TypeVar

from epoxy.model.messages import Reply
from epoxy.runtime.flow import Done, FlowFailures, FlowRunner
from tests.node.bench import HandClock

T = TypeVar("T")


class HandHost:
    def __init__(self, perform: Callable[[Any, Done], None], failures: FlowFailures | None = None) -> None:
        self.clock = HandClock()
        self.failures = failures or FlowFailures(print)
        self.perform = perform
        self.sent: list[tuple[int, object, Callable[[Reply], None] | None]] = []

    def send(self, to: int, message: object, answered: Callable[[Reply], None] | None) -> None:
        self.sent.append((to, message, answered))


def run_learner(perform: Callable[[Any, Done], None], flow: Any, finished: Callable[[bool], None]) -> None:
    FlowRunner(HandHost(perform), "learner", flow, lambda _: False, finished).start()
