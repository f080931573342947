"""Calls of an actor to others that wait for their answers. Without IO."""

from collections.abc import Callable

from epoxy.client.hosted.link import ActorLink, WorkerTimer
from epoxy.client.hosted.requests import Response
from epoxy.model.envoy_messages import AskAnswer
from epoxy.model.errors import ConnectionLost, EpoxyError, Forbidden, OutcomeUnknown, Timeout, Unavailable

MAX_CALLS = 1000
"""Calls of one actor that wait for an answer."""

Answered = Callable[[Response | EpoxyError], None]


class CallsUnderWay:
    def __init__(self, link: ActorLink) -> None:
        self._link = link
        self._waiting: dict[int, tuple[Answered, WorkerTimer]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def begin(self, call: int, timeout_s: float, answered: Answered) -> None:
        def late() -> None:
            self._end(call, Timeout(f"no answer within {timeout_s:g} s"))

        self._waiting[call] = answered, self._link.clock.call_later(1000 * timeout_s, late)

    def cancel(self, call: int) -> None:
        """Its caller does not wait any more."""
        waiting = self._waiting.pop(call, None)
        if waiting is not None:
            waiting[1].cancel()
            self._link.end_call(call)

    def heard(self, answer: AskAnswer) -> None:
        if answer.error:
            self._end(answer.call, error_of(answer))
        else:
            response = Response(answer.body, answer.status if 200 <= answer.status <= 599 else 500)
            response.pairs = answer.headers
            self._end(answer.call, response)

    def lose(self) -> None:
        """With the connection."""
        for call in list(self._waiting):
            self._end(call, ConnectionLost("the worker lost its connection before the answer came"))

    def _end(self, call: int, outcome: Response | EpoxyError) -> None:
        waiting = self._waiting.pop(call, None)
        if waiting is not None:
            answered, timer = waiting
            timer.cancel()
            self._link.end_call(call)
            answered(outcome)


def error_of(answer: AskAnswer) -> EpoxyError:
    told = f"{answer.body.decode(errors='replace')} ({answer.error})"
    if not answer.definite:
        return OutcomeUnknown(told)
    return Forbidden(told) if answer.error == "forbidden" else Unavailable(told)
