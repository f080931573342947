"""The process of one node: builds its parts, starts them, and stops them in order."""

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Protocol

from epoxy.api.http.operator_signature import OperatorSignatures
from epoxy.api.http.routes import Route
from epoxy.api.http.routes_auth import AuthRoutes
from epoxy.api.http.routes_backups import BackupRoutes
from epoxy.api.http.routes_console_info import ConsoleInfoRoutes
from epoxy.api.http.routes_elect import ElectRoutes
from epoxy.api.http.routes_leases import LeaseRoutes
from epoxy.api.http.routes_links import LinkRoutes
from epoxy.api.http.routes_members_history import MembersHistoryRoutes
from epoxy.api.http.routes_samples import SampleRoutes
from epoxy.api.http.routes_transactions import TransactionRoutes
from epoxy.api.http.routes_world import WorldRoutes
from epoxy.api.metrics import Metrics
from epoxy.backup.backups import Backups
from epoxy.codec.plain_requests import Incoming, decoded
from epoxy.model.cluster import ClusterConfig
from epoxy.model.errors import ConfigError, RottenRow
from epoxy.model.messages import Reply, Request
from epoxy.node.commit_samples import CommitSampler
from epoxy.node.members.early_accepts import EarlyAccepts
from epoxy.node.members.history import MemberHistory
from epoxy.node.process import descriptors
from epoxy.node.process.config import Settings
from epoxy.node.process.logs import LOGGER
from epoxy.node.service import Node
from epoxy.node.timing import floor_ms
from epoxy.node.world import WorldView
from epoxy.ports import Clock, Dice
from epoxy.runtime.coarse_timers import CoarseClock
from epoxy.server.access import log_access
from epoxy.server.actors import ActorSystem
from epoxy.server.elect_agents import ElectAgents
from epoxy.server.endpoints import Endpoints
from epoxy.server.listeners import HandedOn
from epoxy.server.member_url import check_member_url, move_alone
from epoxy.server.node_process import HeldByNodes, NodeProcess, warn
from epoxy.server.peer_router import PeerRouter
from epoxy.server.probes import Probes
from epoxy.server.scrubbing import Scrubbing, cannot_start
from epoxy.transport.limits import PeerLimits
from epoxy.transport.peers.auth import Verifier, wall_ms
from epoxy.transport.peers.forwarded_mark import ForwardedMarks
from epoxy.transport.peers.member_rpc import MemberRpcClient
from epoxy.transport.peers.transport import Peers

REFUSED = "a store is refused"


class GatewayStore(HeldByNodes, Protocol):
    """What the gateway of several nodes has of its datacenter (`server.datacenter`)."""

    def gateway_node(
        self,
        settings: Settings,
        peers: Peers,
        clock: Clock,
        dice: Dice,
        alarm: Callable[[str], None],
        member_rpc: MemberRpcClient,
    ) -> Node: ...

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def take_up(self) -> None:
        """This node serves now."""

    async def let_go(self) -> None:
        """Until the other nodes ask nothing more of this one, which ends."""

    def routes(self) -> list[Route]:
        """Where the other nodes of the datacenter reach this one."""

    def dispatch(self, requests: Sequence[Request], answered: Callable[[Sequence[Reply]], None]) -> None:
        """Requests of a peer, each at the owner of its key."""


class Process(NodeProcess):
    """A node that is a whole replica: the only one of its datacenter, or the gateway of several."""

    def __init__(self, settings: Settings, shared: "GatewayStore | None" = None) -> None:
        super().__init__(settings, shared)
        self._shared = shared
        settings = self.settings
        # An exception below must leave no thread behind: it would write to a log of an interpreter that has ended.
        with ExitStack() as undo:
            if self._embedded is not None:
                undo.callback(self._embedded.close)
            clock, dice = self._clock, self._dice
            self._peers = Peers(
                settings.node.id,
                self.secrets.peer_keys,
                {},
                epoch=lambda: self.node.replica.config.epoch,
                clock=clock,
                dice=dice,
                limits=PeerLimits(queue_messages=settings.limits.peer_queue),
                ssl=self.certificates.for_dialing,
                link=self._link,
            )
            member_rpc = MemberRpcClient(self._peers.identity, self._peers.context)
            try:
                self.node = self._make_node(member_rpc)
            except RottenRow as rot:
                assert self._embedded is not None, "only a disk rots"
                undo.pop_all()
                raise cannot_start(rot, settings.node.id, self._embedded.store, self._store_failed) from rot
            assert self.node.gate is not None, "a node with peers has a gate"
            self._peers.identity.gate = self._gate = self.node.gate
            self._gate.alarm = self._store_refused
            self._gate.notice = self._took_over
            check_members(settings, self.node.replica.config)
            warn(settings, self.certificates.flaw(), is_new=self._storage.is_new)
            self.metrics = Metrics(self.node, lambda: self.endpoints.requests())
            self.node.latency.then = self.metrics.counters
            self._equip(self.node)
            self.node.versions = self._peers.versions
            self.node.ordered.catchup.report = lambda words: LOGGER.info("transactions", extra={"detail": words})
            self.peer_router = PeerRouter(self.node, self._peers, member_rpc, self._link, self._handle)
            operators = Verifier(settings.node.id, self.secrets.keys, since_ms=wall_ms())
            mutual = self.certificates.mutual
            signatures = OperatorSignatures(operators)
            self._probes = Probes(self.node, operators, self.certificates.for_dialing, certificates=mutual)
            authenticator = self.peer_router.authenticator(self.secrets.peer_keys, certificates=mutual)
            self._actors = ActorSystem(
                *(self.node, self._store, clock, dice, settings.placement, self._link, self.certificates.for_dialing),
                *(self.metrics, self._peers.identity, authenticator),
            )
            most = descriptors.connections_per_port(settings.limits.connections)
            self._actors.max_envoys = min(self._actors.max_envoys, most)
            assert self.node.member is not None, "a process has links to members"
            self.node.member.backup_source.cpu_ms = cpu_ms
            if self._embedded is not None:
                self.early = EarlyAccepts(self.node.driver, self._store, self._embedded.mark, self.node.member.ask)
                self.early.notice = lambda words: LOGGER.info("fast rounds", extra={"detail": words})
                self._peers.versions.changed = self.early.other_release
            self._backups = Backups(self.node.member, self._store, dice, settings.cluster.id, self.node.datacenter_of)
            self.node.on_refusal(lambda: self._backups.end(self.node.lifecycle.reason))
            self._history = MemberHistory(self.node, self._store)
            self._elect_agents = ElectAgents(settings.console.elect)
            world = WorldView(self.node, self.node.member.ask)
            self.node.member.figures = world.told
            self._samples = SampleRoutes(CommitSampler(self.node.driver, self._floor_ms), self.node.access)
            more = [
                *self.peer_router.routes(authenticator),
                *self._probes.routes(),
                *AuthRoutes(self.node.access, signatures).table(),
                *LinkRoutes(self._link, signatures, self.peer_router.ids).table(),
                *self._actors.routes(),
                *ConsoleInfoRoutes(self.node, settings).table(),
                *MembersHistoryRoutes(self.node, self._history.past, world.look).table(),
                *ElectRoutes(self._elect_agents.look).table(),
                *BackupRoutes(self._backups).table(),
                *LeaseRoutes(self.node.leases, self.node.peek).table(),
                *TransactionRoutes(self.node).table(),
                *self._store_routes(),
                *WorldRoutes(world.look).table(),
                *self._samples.table(),
            ]
            self.endpoints = Endpoints(
                *(settings, self.node, self.metrics, self.certificates, more, self._peers),
                marks=ForwardedMarks(self.secrets.peer_keys) if shared is not None else None,
            )
            undo.pop_all()

    def _make_node(self, member_rpc: MemberRpcClient) -> Node:
        settings, clock = self.settings, CoarseClock(self._clock)
        if self._shared is None:
            node = Node(settings, self._store, self._peers, clock, self._dice, self._alarm, member_rpc)
            gate = node.gate
            node.driver.encode_writes(self._peers.send_encoded, lambda: gate is None or gate.may_vote)
            return node
        return self._shared.gateway_node(settings, self._peers, clock, self._dice, self._alarm, member_rpc)

    def _store_routes(self) -> list[Route]:
        """Of what a store on this machine has: its scrubs; of one that is shared: the links to the other nodes."""
        links = self._shared.routes() if self._shared is not None else []
        if self._embedded is None:
            return links
        scrubbing = Scrubbing(self.node, self._embedded.store, self._clock, self._store_failed)
        self._embedded.on_rot = self.node.repairs.noticed
        return [*links, *scrubbing.routes()]

    async def start(self, handed_on: HandedOn | None = None) -> None:
        """Returns when the node has its configuration and its store; peers may be absent. No port is open, and no
        other node is told anything, before the identity of the store and this start of it are durable: if they were
        told and then lost, the others would wait for a store that is no more."""
        node, config = self.settings.node, self.node.replica.config
        await check_member_url(self.settings, config, self.peer_router.identity, self._probes.members_at)
        await self._durable()
        if handed_on is None:
            await self.endpoints.open()
        self.reloading.start()
        self._peers.start()
        self.peer_router.start()
        if self._shared is not None:
            self._shared.start()
        if self._shared is None and self._gate.incarnation.counter > 1:
            self.node.driver.stale_keys.begin()
        self.node.start()
        if self.early is not None:
            self.early.start()
        self._history.start()
        if not self._gate.refused:
            self._actors.start()
        if self.node.members_admin is not None:
            move_alone(self.node.members_admin, self.settings, config, self.node.clock)
        if handed_on is not None:
            await self._ready()
            await self.endpoints.open(handed_on)
        if self._shared is not None:
            self._shared.take_up()
        LOGGER.info(
            "started",
            extra={
                "release": self._peers.versions.mine.release,
                "replica": node.id,
                "datacenter": node.datacenter,
                **({"cluster": self.settings.cluster.id} if self.settings.cluster.id else {}),
                "pid": os.getpid(),
                "epoch": self.node.replica.config.epoch,
                **{name.removeprefix("node."): str(address) for name, address in node.listeners.items()},
            },
        )
        log_access(self.node)
        descriptors.log_lower_limit(self.settings.limits.connections, self.endpoints.connections.limit)

    async def stop(self, hurry: asyncio.Event) -> None:
        """Refuse new requests, answer those under way, then close the links and the store. `hurry` ends the wait:
        clients that are not answered by then do not know the outcome. A gateway refuses nothing: one more request of
        each connection is served, by the nodes that have its keys now."""
        self.endpoints.last_call()
        if self._shared is None:
            self.node.refuse_clients()
        if self.early is not None:
            self.early.end()
        LOGGER.info("draining", extra={"writes_in_flight": self.node.in_flight})
        self.endpoints.close()
        self._samples.close()
        self._actors.last_call()
        await self._drain(hurry)
        self._actors.stop()
        self._history.stop()
        self._elect_agents.stop()
        self.node.stop()
        self.peer_router.stop()
        if self._shared is not None:
            self._shared.stop()
        await self._peers.stop()
        self.close()
        LOGGER.info("stopped")

    async def _let_go(self) -> None:
        if self._shared is not None:
            await self._shared.let_go()

    def _handle(self, requests: Sequence[Incoming], answered: Callable[[Sequence[Reply]], None]) -> None:
        """Requests of a peer: they are counted by type and result."""
        begun_s = time.monotonic()

        def reply_to_peer(replies: Sequence[Reply]) -> None:
            self.metrics.counters.requests_handled(requests, replies, time.monotonic() - begun_s)
            answered(replies)

        if self._shared is None:
            self.node.replica.handle_all(requests, reply_to_peer)
        else:
            self._shared.dispatch([decoded(each) for each in requests], reply_to_peer)

    def _floor_ms(self) -> float | None:
        return floor_ms(self.node.replica.config, self.node.me, self.node.links)

    def _store_refused(self, text: str) -> None:
        """Of this node, or of another. Of this node it is told when that is durable: a gateway that was superseded
        while it was paused may learn of that from a peer first, and its refusal never becomes durable."""
        if self._gate.refused:
            self._store.when_durable(partial(LOGGER.critical, REFUSED, extra={"detail": text}))
            self.peer_router.refused()
            self._actors.refused()
        else:
            LOGGER.critical(REFUSED, extra={"detail": text})

    def _took_over(self, text: str) -> None:
        LOGGER.info("a take-over inside another datacenter", extra={"detail": text})


def cpu_ms() -> float:
    """Of this thread."""
    return time.thread_time() * 1000


def check_members(settings: Settings, in_force: ClusterConfig) -> None:
    """The members of epoch 1 are fixed when the data directory is made: quorums of two different lists need not
    intersect."""
    given = settings.first_config()
    same = (given.replica_ids, given.quorum_policy) == (in_force.replica_ids, in_force.quorum_policy)
    if in_force.epoch == given.epoch and not same:
        was = f"{', '.join(map(str, in_force.replica_ids))} with {in_force.quorum_policy.value} quorums"
        raise ConfigError(
            f"cluster.members or cluster.quorum_policy: not those this data directory was made with: {was}"
        )
