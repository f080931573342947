"""The running demo: its regions, the orders that were carried out on them, and the consequences."""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import click

from epoxy.cli.demo import race, tokens
from epoxy.cli.demo.control import GATEWAY, DemoOrder, DemoReply
from epoxy.cli.demo.plan import SECRET, DemoPlan, Link
from epoxy.cli.demo.postgres_region import has_no_silent_node, is_spread
from epoxy.cli.demo.race import Race
from epoxy.cli.demo.region import RegionNode
from epoxy.cli.groups import refuse
from epoxy.client import Status
from epoxy.client.token import read_token
from epoxy.model.api import Newcomer
from epoxy.model.errors import EpoxyError, InvalidRequest, Unavailable
from epoxy.model.node_urls import join_urls
from epoxy.testing import change_members, is_settled, reached
from epoxy.transport.wan import aws
from epoxy.transport.wan.emulation import MAX_ADDED_MS

NEWCOMERS = ("new", "removed")

TEND_S = 1.0
"""Between two looks for gateways that took over while links are cut or slowed."""

WAITING = ("confirming", "unconfirmed")
"""States of a node that waits for others."""


class DemoCluster:
    def __init__(self, plan: DemoPlan) -> None:
        self.plan = plan
        self.nodes = plan.lay_out()
        self.by_name = {node.datacenter: node for node in self.nodes}
        self.cuts: set[Link] = set()
        self.slowed_ms: dict[Link, float] = {}
        """What is added to the round trips of links that were slowed."""
        self._last_race: Race | None = None
        self._expected_down: set[str] = set()
        self._told: dict[str, int] = {}
        """Which gateway of a region was told of cut and slowed links last, by its session."""
        self._tend_at = 0.0
        self._secret = (plan.folder / SECRET).read_bytes().strip()

    # From start to end.

    def start(
        self, tell: Callable[[RegionNode], None], tell_database: Callable[[RegionNode], None] = lambda _: None
    ) -> None:
        """Returns when every region is ready and connected to every other, and its nodes have their parts of the keys.
        `tell` is called for each that is ready,
        `tell_database` for each whose database takes connections."""
        check_ports(self.nodes)
        for node in self.nodes:
            if node.open_database():
                tell_database(node)
        for node in self.nodes:
            node.start(wait=False)
        if self.plan.auth:
            self._give_tokens()
        for node in self.nodes:
            node.wait_until(lambda _: True, "ready")  # fails early if one ends: the others would wait for it
        for node in self.nodes:
            node.wait_until(lambda status: status.ready, "ready")
            tell(node)
        all_ids = {node.id for node in self.nodes}
        for node in self.nodes:
            node.wait_until(lambda status: all_ids <= reached(status), "in touch with the others")
            node.wait_until(is_settled, "in the first epoch that knows all stores")
            node.wait_until(partial(is_spread, nodes=len(node.nodes)), "in possession of its part of the keys")

    def _give_tokens(self) -> None:
        token = tokens.made(self.plan.folder, self.nodes)
        for node in self.nodes:
            node.give_token(token)

    def stop(self) -> None:
        """All at once, so that none waits for one that has ended."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            list(pool.map(lambda node: node.stop(), self.nodes))

    def kill(self) -> None:
        for node in self.nodes:
            node.kill()

    def fallen(self) -> list[RegionNode]:
        """Nodes that ended without an order; each is reported once."""
        found = [each for node in self.nodes for each in node.nodes if not each.running]
        found = [node for node in found if node.place not in self._expected_down]
        self._expected_down |= {node.place for node in found}
        return found

    def tend(self) -> None:
        """A node that becomes the gateway of its region knows nothing of links that were cut or slowed: it is told."""
        if not (self.cuts or self.slowed_ms) or time.monotonic() < self._tend_at:
            return
        self._tend_at = time.monotonic() + TEND_S
        for region in filter(lambda node: node.up, self.nodes):
            session = region.gateway_session()
            if session and session != self._told.get(region.datacenter):
                with contextlib.suppress(EpoxyError):
                    self._cut_own_side(region)
                    self._told[region.datacenter] = session

    # Orders.

    def perform(self, order: DemoOrder) -> DemoReply:
        orders: dict[str, Callable[[DemoOrder], list[str]]] = {
            "ps": lambda _: [],
            "kill": self._kill,
            "pause": self._pause,
            "resume": self._resume,
            "revive": self._revive,
            "cut": self._cut,
            "heal": self._heal,
            "slow": self._slow,
            "race": self._race,
            "add": self._add,
            "remove": self._remove,
        }
        try:
            lines = orders[order.verb](order) if order.verb in orders else refuse_order(order)
        except EpoxyError as error:
            return DemoReply(done=False, lines=[str(error)], demo=self.document())
        except click.UsageError as mistake:
            return DemoReply(done=False, lines=[mistake.message], demo=self.document())
        raced, self._last_race = self._last_race, None
        return DemoReply(done=True, lines=lines, demo=self.document(), race=raced)

    def _kill(self, order: DemoOrder) -> list[str]:
        node = self._ordered(order)
        pids = [each.pid for each in node.nodes if each.pid is not None]
        if not pids:
            raise InvalidRequest(f"{node.place} is down already; `epoxy demo revive {order.place}` starts it")
        self._expected_down |= {each.place for each in node.nodes}
        began = time.monotonic()
        node.kill()
        said = f"pid{'' if len(pids) == 1 else 's'} {', '.join(map(str, pids))}"
        head = f"{node.place} is dead: SIGKILL to {said}, as in a power cut{node.with_it}."
        return [head, *self._taken_over(order, began), *self.consequences()]

    def _taken_over(self, order: DemoOrder, began: float) -> list[str]:
        """After one of several nodes ended: waits until another one has its shards, so that the reply is true when it
        is read."""
        region = self._region(order.region)
        if not order.node or not region.up:
            return []
        gateway = region.gateway()
        region.wait_until(has_no_silent_node, "rid of the dead node's session")
        self._cut_own_side(region)
        self._until_in_touch()
        took = f"{time.monotonic() - began:.1f} s"
        return [f"The others have its keys after {took}; the gateway of {region.datacenter} is node {gateway.number}."]

    def _pause(self, order: DemoOrder) -> list[str]:
        node = self._running(order)
        if not node.up:
            raise InvalidRequest(f"{node.place} is paused already")
        node.pause()
        pids = ", ".join(str(each.pid) for each in node.nodes if each.running)
        return [
            f"{node.place} is paused (SIGSTOP, pid {pids}): its connections stay, but it does not answer.",
            *self.consequences(),
        ]

    def _resume(self, order: DemoOrder) -> list[str]:
        node = self._running(order)
        if not any(each.paused for each in node.nodes):
            raise InvalidRequest(f"{node.place} is not paused")
        node.resume()
        self._cut_own_side(self._region(order.region))
        self._until_in_touch()
        pids = ", ".join(str(each.pid) for each in node.nodes if each.running)
        return [f"{node.place} continues (pid {pids}).", *self.consequences()]

    def _revive(self, order: DemoOrder) -> list[str]:
        node = self._ordered(order)
        if any(each.paused and each.running for each in node.nodes):
            return self._resume(order)
        if node.is_whole:
            raise InvalidRequest(f"{node.place} is running (pid {node.pid})")
        self._start(node)
        self._cut_own_side(self._region(order.region))
        self._until_in_touch()
        what = (
            "It takes its share of the keys by itself." if order.node else "It learns what it missed from the others."
        )
        with_data = "" if order.node else " with the data it had"
        return [f"{node.place} is back{with_data} (pid {node.pid}). {what}", *self.consequences()]

    def _start(self, node: RegionNode) -> None:
        """Until it is ready, or waits for others that do not run or cannot be reached: a start votes once enough of the
        others have confirmed it. The process may be running even if it is not ready in time."""
        try:
            node.start(wait=False)
            alone = len(self.within_reach(node.datacenter)) < self.plan.sizes.slow
            node.wait_until(lambda status: status.ready or (alone and status.state in WAITING), "ready")
        finally:
            self._expected_down -= {each.place for each in node.nodes if each.running}

    def _cut(self, order: DemoOrder) -> list[str]:
        links = self._links(order)
        self.cuts |= links
        self._change_links(links, cut=True)
        return [f"Now {between(order)} cut: nothing gets through, in either direction.", *self.consequences()]

    def _heal(self, order: DemoOrder) -> list[str]:
        links = self._links(order)
        if not links & (self.cuts | self.slowed_ms.keys()):
            raise InvalidRequest(f"{between(order)} neither cut nor slowed")
        self.cuts -= links
        self.slowed_ms = {link: added for link, added in self.slowed_ms.items() if link not in links}
        self._change_links(links, cut=False)
        self._until_in_touch()
        return [f"Now {between(order)} restored.", *self.consequences()]

    def _slow(self, order: DemoOrder) -> list[str]:
        """On both sides: the side that sends a request emulates its whole round trip."""
        if len(order.others) != 1:
            raise InvalidRequest("a link has two ends: name both regions")
        if not 0 < order.added_ms <= MAX_ADDED_MS:
            raise InvalidRequest(f"a link is slowed by 1 to {MAX_ADDED_MS} ms; heal undoes it")
        (link,) = self._links(order)
        self.slowed_ms[link] = order.added_ms
        for node in (self.by_name[name] for name in link):
            if node.up:
                node.change_links(self._secret, slow=self._added_ms(node))
        return [
            f"Now a round trip between {order.region} and {order.others[0]} takes {order.added_ms:g} ms more.",
            *self.consequences(),
        ]

    def _added_ms(self, node: RegionNode) -> dict[int, float]:
        """By id of the other end, for links of this node that were slowed."""
        return {
            self.by_name[other].id: added
            for link, added in self.slowed_ms.items()
            if node.datacenter in link
            for other in link - {node.datacenter}
        }

    def _race(self, order: DemoOrder) -> list[str]:
        if len(order.others) != 1 or order.others[0] == order.region:
            raise InvalidRequest("a race is between two regions: name both")
        token = read_token(Path(tokens.files(self.plan.folder)[tokens.APP])) if self.plan.auth else None
        lanes = [
            race.Lane(
                region=node.datacenter,
                open=partial(node.client, timeout=race.RACE_S, token=token),
                floor_ms=self.floor_now_ms(node.datacenter),
            )
            for node in (self._awake(DemoOrder(verb="race", region=name)) for name in (order.region, *order.others))
        ]
        self._last_race = race.run(order.name or race.fresh_name(), lanes)
        return race.in_words(self._last_race)

    def _until_in_touch(self) -> None:
        """Peers that lost each other connect again only after a pause. Waiting for it makes the reply true when it is
        read; a region that takes too long is skipped."""
        with contextlib.suppress(Unavailable):
            for node in filter(lambda each: each.up, self.nodes):
                near = {self.by_name[name].id for name in self.within_reach(node.datacenter)}
                node.wait_until(partial(reaches, near), "in touch with the others")

    def _links(self, order: DemoOrder) -> set[Link]:
        here = self._region(order.region).datacenter
        others = [self._region(name).datacenter for name in order.others] or self.plan.names
        if here in order.others:
            raise InvalidRequest(f"{here} has no link to itself")
        return {frozenset((here, there)) for there in others if there != here}

    def _change_links(self, links: Iterable[Link], *, cut: bool) -> None:
        """On both sides of each. A region that is down gets the change when it is up again (`_cut_own_side`)."""
        for node in self.nodes:
            ids = {self.by_name[other].id for link in links if node.datacenter in link for other in link} - {node.id}
            if ids and node.up:
                node.change_links(self._secret, cut=ids if cut else (), heal=() if cut else ids)

    def _cut_own_side(self, node: RegionNode) -> None:
        """After a region was down or paused. It may not know regions that were added meanwhile: it has no links to them
        yet."""
        theirs = {self.by_name[o].id for link in self.cuts if node.datacenter in link for o in link} - {node.id}
        rest = {other.id for other in self.nodes} - theirs - {node.id}
        with node.client() as client:
            known = {peer.id for peer in client.status().peers}
        slow = {peer: added for peer, added in self._added_ms(node).items() if peer in known}
        node.change_links(self._secret, cut=theirs & known, heal=rest & known, slow=slow)

    def _add(self, order: DemoOrder) -> list[str]:
        if order.region in self.by_name:
            raise InvalidRequest(f"{order.region} is a member already")
        if order.region not in aws.REGIONS:
            refuse(order.region, "region", [name for name in aws.REGIONS if name not in self.by_name])
        place, began = self.plan.place_of(order.region), time.monotonic()
        node = self.plan.furnish(place)
        check_ports([node])
        member = self._able()
        node.give_token(member.token)
        node.start(wait=False)
        node.wait_until_in(NEWCOMERS, "there")
        self._settle(self.plan.grown(place), [*self.nodes, node])
        epoch = change_members(member, add=[Newcomer(id=node.id, url=join_urls(node.addresses), datacenter=place.name)])
        took = f"{time.monotonic() - began:.1f} s"
        return [
            f"{place.name} has copied everything and is a member, replica {node.id}, after {took} (epoch {epoch}).",
            f"It listens at {node.url} and, for Redis clients, at 127.0.0.1:{node.resp_port}.",
            *self.consequences(),
        ]

    def _remove(self, order: DemoOrder) -> list[str]:
        node, began = self._region(order.region), time.monotonic()
        epoch = change_members(self._able(but=node), remove=[node.id])
        self._expected_down |= {each.place for each in node.nodes}
        node.stop()
        self.cuts = {link for link in self.cuts if node.datacenter not in link}
        self.slowed_ms = {link: added for link, added in self.slowed_ms.items() if node.datacenter not in link}
        self._settle(self.plan.shrunk(node.id), [other for other in self.nodes if other is not node])
        took = f"{time.monotonic() - began:.1f} s"
        return [f"{node.datacenter} is no member any more, after {took} (epoch {epoch}).", *self.consequences()]

    def _settle(self, plan: DemoPlan, nodes: list[RegionNode]) -> None:
        self.plan, self.nodes = plan, nodes
        self.by_name = {node.datacenter: node for node in nodes}
        self._expected_down &= {each.place for node in nodes for each in node.nodes}
        plan.keep()

    def _able(self, but: RegionNode | None = None) -> RegionNode:
        """A region that reaches a quorum."""
        slow = self.plan.sizes.slow
        for node in self.nodes:
            if node is not but and len(self.within_reach(node.datacenter)) >= slow:
                return node
        raise Unavailable("no region reaches enough of the others to decide anything")

    def _region(self, name: str) -> RegionNode:
        if name not in self.by_name:
            refuse(name, "region", list(self.by_name))
        return self.by_name[name]

    def _ordered(self, order: DemoOrder) -> RegionNode:
        """What an order is for: a region, or one node of it."""
        region = self._region(order.region)
        if not order.node:
            return region
        numbers = {str(node.number): node for node in region.nodes}
        if len(numbers) == 1:
            raise InvalidRequest(f"{order.region} has one node; leave {order.node!r} out")
        if order.node == GATEWAY:
            return region.gateway()
        if order.node not in numbers:
            raise InvalidRequest(f"{order.region} has nodes {', '.join(numbers)}, and {GATEWAY}; not {order.node!r}")
        return numbers[order.node]

    def _running(self, order: DemoOrder) -> RegionNode:
        node = self._ordered(order)
        if not node.running:
            raise InvalidRequest(f"{node.place} is down; `epoxy demo revive {order.place}` starts it again")
        return node

    def _awake(self, order: DemoOrder) -> RegionNode:
        node = self._running(order)
        if not node.up:
            raise InvalidRequest(f"{node.place} is paused; `epoxy demo resume {order.place}` continues it")
        return node

    # Consequences.

    def within_reach(self, here: str) -> list[str]:
        """`here` and the regions it can reach; none if it is not running."""
        if not self.by_name[here].up:
            return []
        return [
            name
            for name, node in self.by_name.items()
            if name == here or (node.up and frozenset((here, name)) not in self.cuts)
        ]

    def condition(self, here: str) -> str:
        """The state of the region in a word."""
        node = self.by_name[here]
        if not node.running:
            return "down"
        if not node.up:
            return "paused"
        return "cut off" if any(here in link for link in self.cuts) and self.within_reach(here) == [here] else "up"

    def can(self, here: str) -> str:
        """What a client of this region may expect."""
        sizes, near = self.plan.sizes, len(self.within_reach(here))
        if not self.by_name[here].up:
            return "does not answer"
        if near < sizes.slow:
            return f"cannot write: reaches {near} of {sizes.n}, needs {sizes.slow}; reads only what it has"
        if near < sizes.fast:
            return f"writes in two round trips: reaches {near} of {sizes.n}, one round trip needs {sizes.fast}"
        floor = self.floor_now_ms(here)
        return "writes in one round trip" + (f" of {floor:.0f} ms" if floor is not None else "")

    def floor_now_ms(self, here: str) -> float | None:
        """As `DemoPlan.floor_ms`, with the regions within reach and the links as slow as they are."""
        return self.plan.floor_ms(here, self.within_reach(here), self.slowed_ms)

    def consequences(self) -> list[str]:
        reach = {name: len(self.within_reach(name)) for name in self.plan.names}
        able = [name for name in self.plan.names if reach[name] >= self.plan.sizes.slow]
        head = "No majority is left: no region can write until others come back. Nothing is lost."
        if able:
            left = min(reach[name] for name in able) - self.plan.sizes.slow
            head = f"{len(able)} of {len(self.nodes)} regions go on writing; {left} more may fail."
        return [head, *(f"  {name:<15} {self.can(name)}" for name in self.plan.names)]

    def document(self) -> dict[str, Any]:
        return {
            "dir": str(self.plan.folder.absolute()),
            "console": self.plan.console,
            "port_base": self.plan.port_base,
            "wan": self.plan.wan,
            "auth": "tokens" if self.plan.auth else "open",
            "store": self.plan.store,
            "tokens": tokens.files(self.plan.folder) if self.plan.auth else {},
            "regions": [self._described(node) for node in self.nodes],
            "may_add": [name for name in aws.REGIONS if name not in self.by_name],
            "links": [self._link_described(*pair) for pair in combinations(self.plan.names, 2)],
        }

    def _link_described(self, one: str, other: str) -> dict[str, Any]:
        """`rtt_ms`: what its round trip takes now, by the table and what was added."""
        link = frozenset((one, other))
        return {
            "between": [one, other],
            "cut": link in self.cuts,
            "added_ms": self.slowed_ms.get(link, 0.0),
            "rtt_ms": self.plan.rtt_ms(one, other, self.slowed_ms),
        }

    def _described(self, node: RegionNode) -> dict[str, Any]:
        name = node.datacenter
        return {
            "region": name,
            "id": node.id,
            "pid": node.pid,
            "condition": self.condition(name),
            "http": node.url,
            "resp": f"127.0.0.1:{node.resp_port}",
            "floor_ms": self.plan.floor_ms(name, self.plan.names),
            "floor_now_ms": self.floor_now_ms(name),
            "can": self.can(name),
            "log": str(node.log.absolute()),
            "config": str(node.config.absolute()),
            **node.described(),
        }


def reaches(others: set[int], status: Status) -> bool:
    return others <= reached(status)


def between(order: DemoOrder) -> str:
    if len(order.others) == 1:
        return f"the link between {order.region} and {order.others[0]} is"
    others = ", ".join(order.others) if order.others else "all others"
    return f"the links between {order.region} and {others} are"


def refuse_order(order: DemoOrder) -> list[str]:
    raise InvalidRequest(f"unknown order {order.verb!r}")


def check_ports(nodes: Iterable[RegionNode]) -> None:
    for node in nodes:
        for api, port in node.ports():
            try:
                socket.create_server(("127.0.0.1", port)).close()
            except OSError as error:
                raise Unavailable(
                    f"port {port}, for {api} of {node.datacenter}, cannot be used: {os.strerror(error.errno or 0)}."
                    " If another demo is running, `epoxy demo ps` shows it; --port-base chooses other ports"
                ) from error
