"""Asking the nodes of a cluster, all at once and within a limit of time.

Each question runs in a thread of its own that does not keep the process alive: a connection has a time limit, the
lookup of a host name has none. What has not answered when the time is over is unknown.
"""

import math
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Generic, TypeVar, cast

import click
from msgspec import Struct

from epoxy.cli import target
from epoxy.cli.findings import ClockReading, NodeVisit
from epoxy.client import Client, Status
from epoxy.client.auth_calls import GrantInfo
from epoxy.client.http1 import parse_url
from epoxy.model.api_actors import HomelessPage, PoolPage
from epoxy.model.errors import AccessRefused, EpoxyError, InvalidRequest
from epoxy.model.node_urls import same_url, split_urls

VISIT_S = 3.0
"""For the status of one node: ten times the longest round trip of our table."""

NAMED_S, PEERS_S, TOTAL_S = 2.0, 4.0, 5.0
"""Until when, from the beginning on, the nodes that are named, their peers, and what is asked of one node may answer.
Five round trips of 300 ms, the longest of our table, make a connection with TLS and ask three questions."""

CLOCK_SAMPLES = 3
"""The first also waits for the connection; of the others the shorter one counts."""

CLOCK_ROUNDED_S = 0.0005
"""A node says its time to a millisecond."""

MAX_VISITS = 256
"""Each is a thread. Four nodes in each of 64 datacenters, the most that a cluster may have."""

LATE = "no answer in time"
WRONG_LISTENER = "wrong_listener"

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class ParallelQuestions(Generic[K, T]):
    """Questions that are asked at once, each in a thread, and their answers as they come."""

    def __init__(self) -> None:
        self._answers: SimpleQueue[tuple[K, T]] = SimpleQueue()
        self._open: set[K] = set()

    def ask(self, key: K, question: Callable[[], T]) -> None:
        self._open.add(key)
        Thread(target=lambda: self._answers.put((key, question())), daemon=True).start()

    def answers(self, deadline: float) -> Iterator[tuple[K, T]]:
        """Until all have answered, or the time is over."""
        while self._open:
            try:
                key, answer = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except Empty:
                return
            self._open.discard(key)
            yield key, answer


class NodePlace(Struct, frozen=True, kw_only=True):
    """Where a node should be, and which one, as its peers say."""

    url: str
    datacenter: str = ""
    replica: int | None = None


def visit_all(urls: Sequence[str], began: float) -> list[NodeVisit]:
    """The named nodes, then the other nodes of their datacenters, and those of the peers they report. UsageError: the
    named nodes cannot be asked with these options."""
    client_of(urls[0], began + NAMED_S).close()
    visits = visit_places([NodePlace(url=url) for url in urls], began + NAMED_S)
    statuses = [seen.status for seen in visits if seen.status is not None]
    asked = {visit.url for visit in visits}
    places = list({place.url: place for place in places_beside(statuses) if place.url not in asked}.values())
    left_out = [unanswered(place, f"not asked: {MAX_VISITS} others were") for place in places[MAX_VISITS:]]
    return [*visits, *visit_places(places[:MAX_VISITS], began + PEERS_S), *left_out]


def places_beside(statuses: Sequence[Status]) -> Iterator[NodePlace]:
    """Other nodes of the datacenters of those that answered, and the nodes of their peers."""
    known = {status.id for status in statuses}
    for status in statuses:
        for url in others_of(status, statuses):
            yield NodePlace(url=url, datacenter=status.datacenter, replica=status.id)
    for peer in [peer for status in statuses for peer in status.peers if peer.id not in known]:
        for url in split_urls(peer.url or ""):
            yield NodePlace(url=url, datacenter=peer.datacenter, replica=peer.id)


def others_of(status: Status, visited: Sequence[Status]) -> list[str]:
    """The addresses of other nodes of its datacenter, without those that were visited, perhaps at another address."""
    there = [each.url for each in visited if each.id == status.id and each.url]
    return [url for url in status.addresses if not any(same_url(url, own) for own in there)] if there else []


def visit_places(places: Sequence[NodePlace], deadline: float) -> list[NodeVisit]:
    """In their order. Clients are made here: the options of the command are known to this thread alone."""
    visits = {place.url: unanswered(place, LATE) for place in places}
    questions: ParallelQuestions[str, NodeVisit] = ParallelQuestions()
    for place in places:
        try:
            client = client_of(place.url, deadline)
        except click.UsageError as error:
            visits[place.url] = unanswered(place, f"not asked: {error.message}")
        else:
            questions.ask(place.url, partial(visit_with, client, place))
    return list((visits | dict(questions.answers(deadline))).values())


def client_of(url: str, deadline: float) -> Client:
    limit = min(VISIT_S, max(0.1, deadline - time.monotonic()))
    return target.connect(url, timeout=limit, connect_timeout=limit)


def visit(url: str) -> NodeVisit:
    """One node."""
    (seen,) = visit_places([NodePlace(url=url)], time.monotonic() + VISIT_S)
    return seen


def visit_with(client: Client, place: NodePlace) -> NodeVisit:
    try:
        with client:
            return asked(client, place)
    except InvalidRequest as error:
        is_for_peers = str(error).endswith(f"({WRONG_LISTENER})")
        return unanswered(place, str(error), is_for_peers=is_for_peers)
    except EpoxyError as error:
        reason = str(error).removeprefix(f"{place.url}: ")
        return unanswered(place, reason, refused=isinstance(error, AccessRefused))


def asked(client: Client, place: NodePlace) -> NodeVisit:
    """Its status, and its clock by the shortest of several round trips (Cristian's algorithm)."""
    best = ClockReading(ahead_s=0.0, within_s=math.inf)
    first: Status | None = None
    for _ in range(CLOCK_SAMPLES):
        began_s, began = time.time(), time.monotonic()
        try:
            status = client.status()
        except EpoxyError:
            if first is None:
                raise
            break
        took = time.monotonic() - began
        first = first or status
        if status.clock_s is not None and took / 2 + CLOCK_ROUNDED_S < best.within_s:
            best = ClockReading(ahead_s=status.clock_s - (began_s + took / 2), within_s=took / 2 + CLOCK_ROUNDED_S)
    assert first is not None, "the first question has an answer, or raised"
    if flaw := flaw_in(first):
        return unanswered(place, f"answered what no Epoxy node says ({flaw}); is this the address of one?")
    clock = best if best.within_s < math.inf else None
    return NodeVisit(url=place.url, status=first, datacenter=place.datacenter, expected=place.replica, clock=clock)


MOST = 1 << 64
"""Larger than any figure of a node."""


def flaw_in(status: Status) -> str:
    """What only a server that is no node says, and what nothing can be concluded from; empty: nothing."""
    named = [status.url, *status.addresses, *(node.url for node in status.nodes)]
    named += [url for peer in status.peers for url in split_urls(peer.url or "")]
    try:
        for url in filter(None, named):
            parse_url(url)
    except InvalidRequest as error:
        return str(error)
    return "a figure without measure" if any(abs(each) >= MOST for each in figures_in(status.document)) else ""


def figures_in(value: object) -> Iterator[float]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for each in value:
            yield from figures_in(each)
    elif isinstance(value, int | float):
        yield value


def unanswered(place: NodePlace, reason: str, *, refused: bool = False, is_for_peers: bool = False) -> NodeVisit:
    return NodeVisit(
        url=place.url,
        status=None,
        reason=reason,
        datacenter=place.datacenter,
        expected=place.replica,
        refused=refused,
        is_for_peers=is_for_peers,
    )


class ClusterAnswers(Struct, frozen=True, kw_only=True):
    """What any one node knows of the whole cluster. None: it was not asked, or none of the nodes tells this client;
    `unseen` says why, by the name of the field."""

    grants: list[GrantInfo] | None = None
    homeless: HomelessPage | None = None
    pools: PoolPage | None = None
    unseen: dict[str, str] = {}


def ask_cluster(visits: Sequence[NodeVisit], began: float) -> ClusterAnswers:
    """The first node that tells, of those that are ready; of grants, of all that answered."""
    deadline = began + TOTAL_S
    present = [visit.url for visit in visits if visit.status is not None]
    ready = [visit.url for visit in visits if visit.status is not None and visit.status.ready]
    wanted: dict[str, tuple[list[str], Callable[[Client], object]]] = {
        "grants": (present, lambda client: client.auth.grants()),
        "homeless": (ready, lambda client: client.actors.homeless()),
        "pools": (ready, lambda client: client.actors.pools()),
    }
    questions: ParallelQuestions[str, object] = ParallelQuestions()
    found: dict[str, object] = {}
    for what, (urls, question) in wanted.items():
        if urls:
            found[what] = LATE
            questions.ask(what, partial(first_to_tell, [client_of(url, deadline) for url in urls], question))
    found |= dict(questions.answers(deadline))
    unseen = {what: told for what, told in found.items() if isinstance(told, str)}
    told = {what: answer for what, answer in found.items() if what not in unseen}
    return ClusterAnswers(
        grants=cast("list[GrantInfo] | None", told.get("grants")),
        homeless=cast("HomelessPage | None", told.get("homeless")),
        pools=cast("PoolPage | None", told.get("pools")),
        unseen=unseen,
    )


def first_to_tell(clients: Sequence[Client], question: Callable[[Client], object]) -> object:
    """The answer of the first client that gets one; otherwise why the last did not."""
    reason = LATE
    for client in clients:
        try:
            with client:
                return question(client)
        except EpoxyError as error:
            reason = str(error)
    return reason
