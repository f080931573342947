"""Which node is asked next. One call is one generator: it yields the next attempt, is sent its outcome, and returns the
result or raises. Both clients drive it.

1. Nodes are tried in the order given, nearest first; those that were out of reach a moment ago come last.
2. What never left whole was not acted upon: the next node is tried.
3. After an answer that means "not here, not done" (Unavailable) the next node is tried, too.
4. A write that was sent and got no answer may have happened. It raises, and is never sent again: only the caller knows
   whether a second one would do harm.
5. A read changes nothing, so the next node is always tried. So it is for a write that takes effect once, however often
   it is sent (an idempotency key); if none answers, the error says that it may have happened.
6. A refusal for want of rights, or of quota, is what every node would say: it raises. A second node would only count a
   wrong token again, or serve what the first one's quota withholds. If the file of the token has another one by then,
   the same node is asked again, once.
"""

from collections.abc import Generator, Iterable
from typing import TypeVar

from msgspec import Struct

from epoxy.client.calls import Call
from epoxy.client.http1 import HttpResponse, NodeAddress, parse_url
from epoxy.client.token import NO_TOKEN, BearerToken
from epoxy.model.errors import (
    AccessRefused,
    ConnectionLost,
    InvalidRequest,
    NotRunning,
    OutcomeUnknown,
    Timeout,
    Unavailable,
)

T = TypeVar("T")

COOLDOWN_S = 1.0
"""How long a node that could not be reached comes last. Long enough that a dead nearest node does not slow every call,
short enough that it is soon used again when it is back."""

MAX_NODES = 64
"""The nodes of four datacenters of the most nodes, or of 64 with one: a client needs those near it."""


class NotSent(Struct, frozen=True):
    """The request was not sent whole, so no node acted on it. `unreachable`: because of the node."""

    reason: str
    unreachable: bool = True


class Unanswered(Struct, frozen=True):
    """The request was sent; no answer came."""

    reason: str
    timed_out: bool = False


class Attempt(Struct, frozen=True):
    """Ask `node`, within `share` of the time that is left: a silent node must not use up what the others need. A write
    that was sent is not sent again, so it may take all."""

    node: NodeAddress
    share: float


Outcome = HttpResponse | NotSent | Unanswered


class Fleet:
    """The nodes a client knows, nearest first, and the token that it shows to all of them."""

    def __init__(self, nodes: tuple[NodeAddress, ...], token: BearerToken = NO_TOKEN) -> None:
        self.nodes = nodes
        self.token = token
        self._down_until = dict.fromkeys(nodes, 0.0)
        self._silent: set[NodeAddress] = set()

    def in_order(self, now: float) -> list[NodeAddress]:
        while self._silent:
            self._down_until[self._silent.pop()] = now + COOLDOWN_S
        return sorted(self.nodes, key=lambda node: self._down_until[node] > now)

    def out_of_reach(self, node: NodeAddress, now: float) -> None:
        self._down_until[node] = now + COOLDOWN_S

    def was_silent(self, node: NodeAddress) -> None:
        """It took a request and did not answer: the next call begins elsewhere."""
        self._silent.add(node)


def fleet_of(urls: Iterable[str | Iterable[str]], token: BearerToken = NO_TOKEN) -> Fleet:
    """A text may be the addresses of a member, as nodes tell them: of all its nodes, with commas between them."""
    flat = [url for given in urls for url in ([given] if isinstance(given, str) else given)]
    nodes = tuple(dict.fromkeys(parse_url(each) for url in flat for each in url.split(",")))
    if not 1 <= len(nodes) <= MAX_NODES:
        raise InvalidRequest(f"a client needs 1 to {MAX_NODES} addresses of nodes, not {len(nodes)}")
    return Fleet(nodes, token)


def conduct(call: Call[T], fleet: Fleet, now: float) -> Generator[Attempt, Outcome, T]:
    failures: list[str] = []
    may_have_changed = False
    nodes = fleet.in_order(now)
    for tried, node in enumerate(nodes):
        share = 1.0 if call.writes else 1.0 / (len(nodes) - tried)
        match (yield from ask(fleet.token, Attempt(node, share))):
            case NotSent(reason, unreachable):
                if unreachable:
                    fleet.out_of_reach(node, now)
                failures.append(f"{node.url}: {reason}")
            case Unanswered(reason, timed_out):
                fleet.was_silent(node)
                if call.writes:
                    kind = Timeout if timed_out else ConnectionLost
                    raise kind(f"{node.url}: {reason} after the write was sent")
                failures.append(f"{node.url}: {reason}")
                may_have_changed = call.repeatable
            case HttpResponse() as answer:
                try:
                    return call.read(answer)
                except (NotRunning, AccessRefused) as error:
                    error.args = (f"{node.url}: {error}",)
                    raise
                except Unavailable as error:
                    failures.append(f"{node.url}: {error}")
                except OutcomeUnknown as error:
                    if call.writes:
                        raise type(error)(f"{node.url}: {error}") from None
                    failures.append(f"{node.url}: {error}")
                    may_have_changed = call.repeatable
    raise (OutcomeUnknown if may_have_changed else Unavailable)("; ".join(failures))


def ask(token: BearerToken, attempt: Attempt) -> Generator[Attempt, Outcome, Outcome]:
    shown = token.value()
    outcome = yield attempt
    if is_unauthenticated(outcome) and token.differs_from(shown):
        return (yield attempt)
    return outcome


def is_unauthenticated(outcome: Outcome) -> bool:
    return isinstance(outcome, HttpResponse) and outcome.headers.get("epoxy-error") == "unauthenticated"
