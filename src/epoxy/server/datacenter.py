"""A node that shares the database of its datacenter with others: its session, and what kind of node it is in it.

A session begins without shards. If it comes to own the system shard, the node is the gateway (`server.process`);
otherwise it serves the keys of its shards (`server.shard_process`). When a session is fenced, everything in memory is
void: the process begins anew, as after a crash.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NoReturn, Protocol

from epoxy import __version__
from epoxy.api.http.routes import Route
from epoxy.datacenter.follower import GatewayLinks
from epoxy.datacenter.gateway import Gateway
from epoxy.datacenter.gateway_handover import GatewayHandover
from epoxy.datacenter.links import NodeLinks
from epoxy.datacenter.messages import CommitNews
from epoxy.datacenter.ports import Answered
from epoxy.datacenter.routes import Routes
from epoxy.model.api import SessionReport
from epoxy.model.cluster import CONFIG_KEY
from epoxy.model.errors import StoreUnavailable
from epoxy.model.messages import Reply, Request
from epoxy.model.records import KeyState
from epoxy.model.shards import SYSTEM_SHARD
from epoxy.node.datacenter_node import DatacenterNode
from epoxy.node.process.config import Settings
from epoxy.node.process.logs import LOGGER
from epoxy.ports import Clock, Dice, Store, Timer
from epoxy.runtime.clock import LoopClock, SystemDice
from epoxy.server.certificates import Certificates
from epoxy.server.cluster_secrets import ClusterSecrets
from epoxy.server.lease_watch import LeaseWatch
from epoxy.server.member_url import is_found
from epoxy.server.session_node import ServedNode
from epoxy.server.shared_storage import SharedStorage
from epoxy.server.storage import Storage
from epoxy.store.keyspace import Keyspace
from epoxy.store.shared.database import Database, Reached, Verdict
from epoxy.store.shared.ownership import Ownership
from epoxy.store.shared.store import SharedStore
from epoxy.transport.peers.member_rpc import MemberRpcClient
from epoxy.transport.peers.transport import Peers

PAUSE_S = 0.1
"""Before the database is asked again that did not answer."""

NEWS_MS = 50.0
"""How often a shard node says that the changelog has more: a reader of changes waits for as long at most."""


class SessionDatabase(Database, Protocol):
    """With an end."""

    def close(self) -> None: ...


class OwnedRows(Protocol):
    """Of `SharedStore`."""

    config_epoch: int

    def own(self, shards: Sequence[int], then: Callable[[], None]) -> None: ...

    def disown(self, shards: Sequence[int]) -> None: ...


class DatacenterSession:
    """Made inside a running event loop; `open` begins it."""

    listeners: Collection[str] | None = None
    """Those that a shard node opens; None: all that its settings have."""

    store: Store
    storage: Storage
    links: NodeLinks
    key_routes: Routes
    handover: GatewayHandover
    _rows: OwnedRows

    def __init__(self, settings: Settings, database: SessionDatabase, url: str = "") -> None:
        """`url`: where the other nodes of the datacenter reach this one, if that is not the address of the node."""
        self._settings = settings
        self._database = database
        self._loop = asyncio.get_running_loop()
        self._clock, self._dice = LoopClock(self._loop), SystemDice()
        self.certificates = Certificates(settings)
        self.secrets = ClusterSecrets(settings)
        self.ownership = Ownership(
            database,
            self._clock,
            url=url or settings.node.advertise_url,
            version=__version__,
            lease_ms=settings.store.lease_ms,
        )
        self.changed = asyncio.Event()
        """The table is another one, or the system shard came."""
        self._served = ServedNode()
        self._gateway: Gateway | None = None
        self._gateway_links: GatewayLinks | None = None
        self._system_came: Callable[[], None] | None = None
        self._keys_came: list[Callable[[], None]] = []
        self._serves = False
        self._room_made: Callable[[], None] | None = None
        self._telling_news: Timer | None = None

    async def open(self) -> None:
        opened = asyncio.Event()
        self.ownership.open(opened.set)
        await opened.wait()
        session, replica = self.ownership.session, self._settings.node.id
        self._open_store(session, replica)
        self.links = self._make_links(session, replica)
        self.key_routes = Routes(self.ownership, self.links, self._served, self._clock)
        self.handover = GatewayHandover(self.ownership, self.links, self.key_routes, self._clock)
        self.handover.make_room = self._room_is_wanted
        self.handover.is_busy, self.handover.is_asked = self._is_busy, self._is_asked
        self.handover.rested, self.handover.resumed = self._rested, self._resumed
        self.links.serve(CommitNews, self._serve_news)
        self.ownership.taken = self._taken
        self.ownership.quiesce = self._quiesce
        self.ownership.changed = self._table_changed
        self.ownership.fenced = self._fenced
        self.ownership.takes_system = self._takes_system
        self.ownership.reaches = self.links.is_up
        self.links.start()
        self.ownership.start()
        self._lease_watch = LeaseWatch(
            lambda: self.ownership.table,
            self._clock,
            session=session,
            lease_ms=self._settings.store.lease_ms,
            differs=self._lease_differs,
        )
        self._lease_watch.start()

    def _lease_differs(self, url: str, about_ms: float) -> None:
        facts = {"lease_ms": self._settings.store.lease_ms, "other": url, "its_lease_ms": round(about_ms, -2)}
        hint = "a node whose lease is much shorter gets no shards: set the same store.lease_ms at all nodes"
        LOGGER.warning("another node of this datacenter has another lease", extra={**facts, "hint": hint})

    def _fenced(self, reason: str) -> NoReturn:
        begin_anew("another node has taken over; this one begins anew", reason)

    def _takes_system(self) -> bool:
        """A node without shards that reaches none of those that have some is cut off, or has another secret."""
        me, table = self.ownership.session, self.ownership.table
        others = {row.id for row in table.sessions if row.left_ms > 0 and row.id in table.owners} - {me}
        is_in_touch = not others or me in table.owners or any(map(self.links.is_up, others))
        return is_in_touch and self._may_be_gateway()

    def _may_be_gateway(self) -> bool:
        """A node whose address the other members do not have would be refused by them, and its datacenter have no
        gateway meanwhile; it serves shards of keys."""
        node = self._served.node
        return is_found(self._settings, node.replica.config if node is not None else self._settings.first_config())

    def _open_store(self, session: int, replica: int) -> None:
        sequence, position = self._database.position()
        store = SharedStore(
            self._database,
            session,
            replica,
            schedule=self._loop.call_soon,
            pause=partial(self._loop.call_later, PAUSE_S),
            reached=Reached(verdict=Verdict.DONE, sequence=sequence, position=position),
            on_fenced=self.ownership.end,
        )
        self.store, self._rows = store, store
        self.storage = SharedStorage(self._settings, store, is_new=not position)

    def _make_links(self, session: int, replica: int) -> NodeLinks:
        tls = self.certificates
        return NodeLinks(
            session,
            replica,
            self.secrets.peer_keys,
            clock=self._clock,
            dice=self._dice,
            ssl=tls.for_dialing,
            certificates=tls.mutual,
        )

    # The kind of node

    @property
    def has_system_shard(self) -> bool:
        """Whether this session has the system shard, and its rows in memory."""
        return self._system_came is not None or SYSTEM_SHARD in self.ownership.owned

    @property
    def gateway_url(self) -> str | None:
        """Of the gateway, if that is another node. None while it leaves, except at its heir, whose clients it still
        serves."""
        if self.handover.is_leaving and not self.handover.is_heir:
            return None
        owner = self.ownership.owner_of(SYSTEM_SHARD) if self.ownership.table.owners else None
        return owner.url if owner is not None and owner.id != self.ownership.session else None

    def can_follow(self) -> bool:
        """Whether there is a gateway that has written the first configuration."""
        try:
            return self.gateway_url is not None and self._has_config()
        except StoreUnavailable:
            return False

    def _has_config(self) -> bool:
        return self.store.newest().get(Keyspace(self._settings.node.id).value_row(CONFIG_KEY)) is not None

    def gateway_node(
        self,
        settings: Settings,
        peers: Peers,
        clock: Clock,
        dice: Dice,
        alarm: Callable[[str], None],
        member_rpc: MemberRpcClient,
    ) -> DatacenterNode:
        """`server.process.GatewayStore`."""
        came, self._system_came = self._system_came, None
        if self._gateway_links is not None:
            self.key_routes.pause()  # Until it is ready, too: what other nodes ask waits.
        if came is not None:
            came()
        node = DatacenterNode(settings, self.store, peers, clock, dice, alarm, member_rpc, self.key_routes)
        self._adopt(node)
        gateway = self._gateway = Gateway(
            self.ownership,
            self.links,
            self._served,
            peers,
            self._clock,
            me=settings.node.id,
            config=lambda: node.replica.config,
            when_durable=self.store.when_durable,
            may_vote=lambda: node.gate is None or node.gate.may_vote,
        )
        node.replica.rest_first = gateway.rest_first
        node.replica.learn_elsewhere = gateway.learn_elsewhere
        node.session_ended = gateway.session_over
        node.dispatch = gateway.dispatch
        return node

    def shard_node(self, settings: Settings, clock: Clock, dice: Dice, alarm: Callable[[str], None]) -> DatacenterNode:
        links = self._gateway_links = GatewayLinks(self.ownership, self.links, self._clock)
        node = DatacenterNode(settings, self.store, links, clock, dice, alarm, None, self.key_routes)
        self._adopt(node)
        if not self._may_be_gateway():
            facts = {"url": settings.node.advertise_url, "detail": "cluster.members does not have its address"}
            LOGGER.warning("this node cannot become the gateway", extra=facts)
        node.feed.on_change(self._tell_news)
        return node

    def _adopt(self, node: DatacenterNode) -> None:
        self._served.node = node
        node.session = self.ownership.session
        node.sessions_of_datacenter = self._sessions
        self._rows.config_epoch = node.replica.config.epoch
        node.replica.config_watchers.append(self._config_changed)

    def start(self) -> None:
        if self._gateway is not None:
            self._gateway.start()
        elif self._gateway_links is not None:
            self._gateway_links.start()

    def reload(self) -> None:
        """Files were changed. The node reads its own."""

    def stop(self) -> None:
        """What the kind of node has; the session goes on."""
        if self._gateway is not None:
            self._gateway.stop()
        elif self._gateway_links is not None:
            self._gateway_links.stop()

    # The gateway leaves

    async def announce(self) -> int:
        """At a gateway that ends: the session that is prepared to be the next one; 0: there is none."""
        heir = next((each for each in self.ownership.heirs() if self._finds(each)), 0)
        prepared: asyncio.Future[bool] = self._loop.create_future()
        self.handover.announce(heir, lambda is_ready: None if prepared.done() else prepared.set_result(is_ready))
        return heir if await prepared else 0

    def _finds(self, session: int) -> bool:
        """Whether the other members have its address."""
        node, url = self._served.node, next(row.url for row in self.ownership.table.sessions if row.id == session)
        return node is not None and is_found(self._settings, node.replica.config, url)

    async def let_go(self) -> None:
        let_go = asyncio.Event()
        self.handover.let_go(let_go.set)
        await let_go.wait()

    def _is_asked(self) -> bool:
        return self._served.node is not None and self._served.node.in_flight > 0

    def take_up(self) -> None:
        """This node serves now. A gateway tells the others so."""
        self._serves = True
        came, self._keys_came = self._keys_came, []
        for then in came:
            then()
        if self._served.node is not None and came:
            self._served.node.took()
        self.key_routes.resume()
        if self.has_system_shard:
            self.handover.take_up()

    @property
    def is_room_wanted(self) -> bool:
        """The gateway leaves, and this node is to be the next one."""
        return self._room_made is not None

    @property
    def is_heir(self) -> bool:
        return self.handover.is_heir or self.has_system_shard

    def _room_is_wanted(self, made: Callable[[], None]) -> None:
        self._room_made = made
        self.changed.set()

    def made_room(self) -> None:
        made, self._room_made = self._room_made, None
        if made is not None:
            made()

    def _is_busy(self) -> bool:
        node, links = self._served.node, self._gateway_links
        return (node is not None and node.has_requests) or (links is not None and links.under_way > 0)

    def _rested(self) -> None:
        if self._gateway_links is not None:
            self._gateway_links.hold()

    def _resumed(self) -> None:
        self._room_made = None
        if self._gateway_links is not None:
            self._gateway_links.release()
        self.changed.set()

    async def close(self) -> None:
        self._lease_watch.stop()
        self.handover.stop()
        self.key_routes.stop()
        await self.links.stop()
        self.store.close()
        self._database.close()

    async def hand_all_over(self) -> None:
        done = asyncio.Event()
        self.ownership.hand_all_over(done.set)
        await done.wait()

    def _sessions(self) -> list[SessionReport]:
        table, age_ms = self.ownership.table, self.ownership.table_age_ms
        shards = Counter(table.owners)
        return [
            SessionReport(
                session=row.id,
                url=row.url,
                version=row.version,
                shards=shards[row.id],
                gateway=table.owners[SYSTEM_SHARD] == row.id,
                lease_ms=round(row.left_ms - age_ms, 1),
            )
            for row in table.sessions
        ]

    # Links inside the datacenter

    def routes(self) -> list[Route]:
        return self.links.routes()

    def dispatch(self, requests: Sequence[Request], answered: Callable[[Sequence[Reply]], None]) -> None:
        assert self._gateway is not None, "a gateway has peers"
        self._gateway.dispatch(requests, answered)

    def _table_changed(self) -> None:
        self.links.set_sessions({row.id: row.url for row in self.ownership.table.sessions})
        self.key_routes.table_changed()
        self.changed.set()

    def _serve_news(self, _: int, _news: CommitNews, _answered: Answered) -> None:
        if self._served.node is not None:
            self._served.node.feed.others_committed()

    def _tell_news(self) -> None:
        if self._telling_news is None:
            self._telling_news = self._clock.call_later(NEWS_MS, self._tell_news_now)

    def _tell_news_now(self) -> None:
        self._telling_news = None
        gateway = self.ownership.owner_of(SYSTEM_SHARD)
        if gateway is not None:
            self.links.tell(gateway.id, CommitNews())

    # Shards

    def _taken(self, shards: Sequence[int], then: Callable[[], None]) -> None:
        if SYSTEM_SHARD in shards:
            self._rows.own(shards, partial(self._system_taken, then))
        else:
            self._rows.own(shards, partial(self._keys_taken, then))

    def _keys_taken(self, then: Callable[[], None]) -> None:
        """Owned when there is a node that serves them."""
        if not self._serves:
            self._keys_came.append(then)
        else:
            assert self._served.node is not None
            then()
            self._served.node.took()

    def _system_taken(self, then: Callable[[], None]) -> None:
        """Served when the node of this session is a gateway."""
        self._system_came = then
        self.changed.set()

    def _quiesce(self, shard: int, done: Callable[[bool], None]) -> None:
        if self._served.node is None:
            self._rows.disown((shard,))
            done(True)
        else:
            self._served.node.quiesce(shard, partial(self._quiesced, shard, done))

    def _quiesced(self, shard: int, done: Callable[[bool], None], is_at_rest: bool) -> None:
        if is_at_rest:
            self._rows.disown((shard,))
        done(is_at_rest)

    # What the replica adopts and learns

    def _config_changed(self, _key: bytes, _before: KeyState, _after: KeyState) -> None:
        node = self._served.node
        assert node is not None
        if not node.is_gateway:
            self._rows.config_epoch = node.replica.config.epoch


def begin_anew(event: str, reason: str) -> NoReturn:
    """Nothing in memory may be told any more, and timers and connections still have it: so the program is executed
    anew, which leaves none of it, under the same process id."""
    LOGGER.warning(event, extra={"detail": reason})
    sys.stderr.flush()
    os.execv(sys.executable, sys.orig_argv)
