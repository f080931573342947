"""The cluster as one node sees it, with the figures of all members.

Its own figures come from the node. The others are asked, on the connections of changes of members, at most once a
second however many clients look, and only because one does. A look is answered at once with what was heard so far: a
member that is silent costs the client nothing, and its figures are marked as old.
"""

import math
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from epoxy.codec import json_text
from epoxy.model.api_world import MeasuredLink, MemberFigures, MemberReport, World, WorldLink, WorldMember
from epoxy.model.cluster import ReplicaInfo, ReplicaStatus
from epoxy.model.errors import CodecError
from epoxy.model.members import Figures, FiguresRead, MemberReply, MemberRequest
from epoxy.model.regions import PLACES
from epoxy.model.writes import Path
from epoxy.node.commit_window import CommitWindow
from epoxy.node.report import rounded, tolerated_failures
from epoxy.node.timing import floor_ms

if TYPE_CHECKING:
    from epoxy.node.service import Node

ASK_EVERY_MS = 1_000.0
"""All members together, whatever the number of clients: a page shows a second."""

FRESH_MS = 200.0
"""A look is answered with what the one before found, for so long: many clients cost as much as five."""

OLD_MS = 3_000.0
"""Figures that were not renewed for so long: two questions, and a round trip around the world."""

WORDS = {
    ReplicaStatus.JOINING: "joins, and copies what the others hold",
    ReplicaStatus.LEARNING: "joins, and copies what the others hold",
    ReplicaStatus.ACTIVE: "serves clients",
    ReplicaStatus.LEAVING: "serves clients, and leaves",
}

Ask = Callable[[int, MemberRequest, Callable[[MemberReply], None]], None]
"""Of a member; answered once, at the latest when its time is over."""

decoder = msgspec.json.Decoder(MemberReport)
NO_FIGURES = MemberFigures()


class Heard(Struct, frozen=True):
    at_ms: float
    report: MemberReport


class WorldView:
    def __init__(self, node: "Node", ask: Ask) -> None:
        """`ask`: of another member."""
        self._node = node
        self._ask_member = ask
        self._clock = node.clock
        self._heard: dict[int, Heard] = {}
        self._asked: set[int] = set()
        """Members whose answer is awaited: one question at a time."""
        self._asked_ms = self._found_ms = -math.inf
        self._found: World | None = None
        self.window = CommitWindow(node.latency, node.clock, self._counts)

    def _counts(self) -> tuple[int, int]:
        paths = self._node.paths
        return sum(paths.values()), paths[Path.FAST]

    # As one that is asked

    def told(self) -> bytes:
        """The answer to FiguresRead: another member has a client that looks."""
        self.window.look()
        return msgspec.json.encode(self.report())

    def report(self) -> MemberReport:
        node, config = self._node, self._node.replica.config
        others = [replica for replica in config.replica_ids if replica != node.me]
        return MemberReport(figures=self._own(), links=[self._link(other) for other in others])

    def _own(self) -> MemberFigures:
        node, window = self._node, self.window
        took = window.percentiles()
        return MemberFigures(
            state=node.lifecycle.state.value,
            reason=node.lifecycle.reason,
            floor_ms=rounded(floor_ms(node.replica.config, node.me, node.links)),
            p50_ms=took.p50_ms,
            p99_ms=took.p99_ms,
            measured=took.measured,
            window_s=took.window_s,
            commits_per_s=window.commits_per_s(),
            fast_share=window.fast_share(),
            tolerated_failures=tolerated_failures(node),
            longest_sync_ms=rounded(node.longest_sync_ms()),
        )

    def _link(self, other: int) -> MeasuredLink:
        links = self._node.links
        return MeasuredLink(to=other, rtt_ms=rounded(links.rtt_ms(other)), reachable=links.reachable(other))

    # As one that asks

    def look(self) -> World:
        """At once, with what is known; and see to it that the next look knows more."""
        now_ms = self._clock.now_ms()
        if self._found is None or now_ms - self._found_ms >= FRESH_MS:
            self.window.look()
            self._ask()
            self._found, self._found_ms = self._world(now_ms), now_ms
        return self._found

    def _world(self, now_ms: float) -> World:
        node, config = self._node, self._node.replica.config
        own = self.report()
        tolerated = own.figures.tolerated_failures
        reports = {node.me: own} | {each: heard.report for each, heard in self._heard.items()}
        return World(
            id=node.me,
            datacenter=node.settings.node.datacenter,
            epoch=config.epoch,
            clock_s=round(time.time(), 3),
            available=tolerated >= 0,
            tolerated_failures=tolerated,
            replicas=config.quorums.n,
            slow_quorum=config.quorums.slow,
            fast_quorum=config.quorums.fast,
            members=[self._member(info, own, now_ms) for info in config.replicas],
            links=links_of([info.id for info in config.replicas], reports),
        )

    def _ask(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms - self._asked_ms < ASK_EVERY_MS:
            return
        self._asked_ms = now_ms
        others = [replica for replica in self._node.replica.config.replica_ids if replica != self._node.me]
        self._heard = {each: heard for each, heard in self._heard.items() if each in others}
        for other in others:
            if self._node.links.reachable(other) and other not in self._asked:
                self._asked.add(other)
                self._ask_member(other, FiguresRead(), partial(self._answered, other))

    def _answered(self, other: int, reply: MemberReply) -> None:
        """A refusal, and what cannot be read, is silence: a member of an older release knows no such question."""
        self._asked.discard(other)
        if not isinstance(reply, Figures):
            return
        try:
            self._heard[other] = Heard(self._clock.now_ms(), json_text.decode(decoder, reply.report))
        except CodecError:
            return

    def _member(self, info: ReplicaInfo, own: MemberReport, now_ms: float) -> WorldMember:
        node = self._node
        datacenter, is_me, heard = node.datacenter_of(info.id), info.id == node.me, self._heard.get(info.id)
        reachable = is_me or node.links.reachable(info.id)
        age_ms = 0.0 if is_me else now_ms - heard.at_ms if heard is not None else None
        figures = own.figures if is_me else heard.report.figures if heard is not None else NO_FIGURES
        is_old = age_ms is None or age_ms > OLD_MS
        return WorldMember(
            id=info.id,
            datacenter=datacenter,
            url=info.url,
            place=PLACES.get(datacenter),
            status=info.status.value,
            reachable=reachable,
            state=self._words(info, figures, is_reachable=reachable, is_old=is_old),
            age_s=None if age_ms is None else round(age_ms / 1000, 3),
            old=is_old,
            figures=figures,
        )

    def _words(self, info: ReplicaInfo, figures: MemberFigures, *, is_reachable: bool, is_old: bool) -> str:
        if not is_reachable:
            trouble = self._node.links.trouble(info.id)
            return f"not reachable from {self._node.settings.node.datacenter}" + (f": {trouble}" if trouble else "")
        if figures.reason and not is_old:
            return figures.reason
        return WORDS[info.status]


def links_of(ids: list[int], reports: dict[int, MemberReport]) -> list[WorldLink]:
    """Of every pair, as far as one of the two was heard."""
    ends = {(each, link.to): link for each, report in reports.items() for link in report.links}
    found = []
    for i, a in enumerate(ids):
        for b in ids[i + 1 :]:
            both = [ends[pair] for pair in ((a, b), (b, a)) if pair in ends]
            if both:
                found.append(link_between(a, b, both))
    return found


def link_between(a: int, b: int, ends: list[MeasuredLink]) -> WorldLink:
    measured = [end.rtt_ms for end in ends if end.rtt_ms is not None]
    mean = round(sum(measured) / len(measured), 3) if measured else None
    return WorldLink(a=a, b=b, rtt_ms=mean, reachable=all(end.reachable for end in ends))
