"""The process of one node: builds its parts, starts them, and stops them in order."""

import asyncio
import gc
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NoReturn
from urllib.parse import urlsplit

from epoxy.api.connection_metrics import ConnectionMetrics
from epoxy.api.counters import Requests
from epoxy.api.http.operator_signature import OperatorSignatures
from epoxy.api.http.router import Api
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
from epoxy.api.resp.limits import RespLimits
from epoxy.api.resp.server import RespServer
from epoxy.backup.backups import Backups
from epoxy.model.cluster import ClusterConfig
from epoxy.model.errors import ConfigError, EpoxyError, RottenRow, StoreFailed
from epoxy.model.messages import Reply, Request
from epoxy.node.access.audit import audit_of
from epoxy.node.commit_samples import CommitSampler
from epoxy.node.members.history import MemberHistory
from epoxy.node.process import descriptors, signals
from epoxy.node.process.auth import auth_of
from epoxy.node.process.config import Settings
from epoxy.node.process.exits import EXIT_STORE
from epoxy.node.process.fatal_signals import end_on_fatal_signals
from epoxy.node.process.listening import check_address
from epoxy.node.process.logs import LOGGER, ProgressLog
from epoxy.node.process.malloc import map_long_blocks
from epoxy.node.process.reloading import Reloading
from epoxy.node.process.secret_files import is_open_to_others, read_secrets
from epoxy.node.report import Credentials
from epoxy.node.service import Node
from epoxy.node.timing import floor_ms
from epoxy.node.world import WorldView
from epoxy.protocol.placement.ring import check_hash
from epoxy.runtime.clock import LoopClock, SystemDice
from epoxy.runtime.coarse_timers import CoarseClock
from epoxy.server.access import log_access
from epoxy.server.actors import ActorSystem
from epoxy.server.certificates import Certificates
from epoxy.server.cluster_secrets import ClusterSecrets
from epoxy.server.elect_agents import ElectAgents
from epoxy.server.listeners import Listeners
from epoxy.server.member_url import check_member_url, move_alone
from epoxy.server.peer_router import PeerRouter
from epoxy.server.probes import Probes
from epoxy.server.scrubbing import EndsSoon, Scrubbing, cannot_start
from epoxy.store.embedded.datadir import DataDir
from epoxy.store.embedded.store import EmbeddedStore
from epoxy.transport.holdings import Holdings
from epoxy.transport.http.connections import Connections
from epoxy.transport.limits import PeerLimits
from epoxy.transport.peers.auth import Verifier, wall_ms
from epoxy.transport.peers.member_rpc import MemberRpcClient
from epoxy.transport.peers.transport import Peers
from epoxy.transport.wan import aws
from epoxy.transport.wan.emulation import Link

SWITCH_INTERVAL_S = 0.0005
"""The log's thread must get the interpreter lock back quickly after each sync, or every commit waits for a busy
loop."""

END_S = 10.0
"""How long a process that cannot start waits until the disk has the reason."""

STORE_FAILED = "the store failed; ending without another answer"

COLLECT_AFTER = 20_000, 20, 50
"""Thresholds of the garbage collector. With the default of 700 it looks at the thousands of objects of the writes under
way again and again, for 7 % of a busy node's CPU time, and finds nothing: the path of a write makes no cycles."""


class Process:
    """One node and its ports. Made inside a running event loop."""

    def __init__(self, settings: Settings) -> None:
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._unexpected)
        read_secrets(settings)  # before a data directory is made
        check_regions(settings)
        check_hash()
        for name, address in settings.node.listeners.items():
            check_address(name, address)
        auth_of(settings)  # before the data directory is made
        self._stopped = False
        map_long_blocks()
        end_on_fatal_signals(settings.node.data_dir, report_failed)  # before a migration reads the old tree
        self.certificates = Certificates(settings)
        name = f"{settings.node.datacenter} (replica {settings.node.id})"
        self._data_dir = DataDir.open(
            settings.node.data_dir,
            replica=settings.node.id,
            name=name,
            cluster=settings.cluster.id,
            make=settings.cluster.join or not settings.cluster.id,
            tell=ProgressLog("the data directory is migrated"),
        )
        self.settings = settings = settings.of_cluster(self._data_dir.cluster)
        self.secrets = ClusterSecrets(settings)
        self.reloading = Reloading(
            {"secrets": self.secrets, "certificates": self.certificates}, self.certificates.remind
        )
        # An exception below must leave no thread behind: it would write to a log of an interpreter that has ended.
        with ExitStack() as undo:
            undo.callback(self._data_dir.close)
            self._store = EmbeddedStore(
                settings.node.data_dir,
                post=self._loop.call_soon_threadsafe,
                schedule=self._loop.call_soon,
                on_failure=self._store_failed,
                on_rot=lambda key: self.node.repairs.noticed(key),
            )
            undo.callback(self._store.close)
            clock, dice = LoopClock(self._loop), SystemDice()
            self._link = Link(clock)
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
                self.node = Node(settings, self._store, self._peers, CoarseClock(clock), dice, self._alarm, member_rpc)
            except RottenRow as rot:
                undo.pop_all()
                raise cannot_start(rot, settings.node.id, self._store, self._store_failed) from rot
            assert self.node.gate is not None, "a node with peers has a gate"
            self._peers.identity.gate = self._gate = self.node.gate
            self._gate.alarm = self._store_refused
            scrubbing = Scrubbing(self.node, self._store, clock, self._store_failed)
            check_members(settings, self.node.replica.config)
            warn(settings, self._data_dir, self.certificates.flaw())
            self.metrics = Metrics(self.node, self._requests)
            self.node.latency.then = self.metrics.counters
            self.node.credentials = self._credentials
            self.node.longest_sync_ms = self._store.longest_sync_ms
            self.node.disk_usage = self._store.disk_usage
            self.node.audit = audit_of(settings)
            self.node.failures.report = self._flow_failed
            self.node.ordered.catchup.report = lambda words: LOGGER.info("transactions", extra={"detail": words})
            self.peer_router = PeerRouter(self.node, self._peers, member_rpc, self._link, self._handle)
            operators = Verifier(settings.node.id, self.secrets.keys, since_ms=wall_ms())
            mutual = self.certificates.mutual
            signatures = OperatorSignatures(operators)
            self._probes = Probes(self.node, operators, self.certificates.for_dialing, certificates=mutual)
            most = descriptors.connections_per_port(settings.limits.connections)
            authenticator = self.peer_router.authenticator(self.secrets.peer_keys, certificates=mutual)
            self._actors = ActorSystem(
                *(self.node, self._store, clock, dice, settings.placement, self._link, self.certificates.for_dialing),
                *(self.metrics, self._peers.identity, authenticator),
            )
            self._actors.max_envoys = min(self._actors.max_envoys, most)
            assert self.node.member is not None, "a process has links to members"
            self.node.member.backup_source.cpu_ms = cpu_ms
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
                *scrubbing.routes(),
                *WorldRoutes(world.look).table(),
                *self._samples.table(),
            ]
            panel = settings.console.demo_url
            self._api = Api(self.node, self.metrics, self._names, more, settings.access.cors_origins, panel)
            holdings = Holdings(settings.limits.held_mib << 20)
            self.metrics.include(ConnectionMetrics(holdings, self._peers))
            self._connections = Connections(most, holdings=holdings)
            timeout_ms = settings.resp.request_timeout_ms
            limits = RespLimits(connections=most, pipeline=settings.limits.pipeline, request_timeout_ms=timeout_ms)
            self._resp = RespServer(self.node, limits, holdings, settings.resp.reserve_prefixes)
            self._listeners = Listeners(settings, self._api, self._resp, self.certificates, self._connections)
            self.node.access.watchers.append(self._connections.response_cache.rights_changed)
            for cache in (self._connections.response_cache, self._resp.immutable_values, self._resp.newest_values):
                self.node.on_refusal(cache.clear)
            undo.pop_all()

    async def start(self) -> None:
        """Returns when the node has its configuration and its store; peers may be absent. No port is open, and no
        other node is told anything, before the identity of the store and this start of it are durable: if they were
        told and then lost, the others would wait for a store that is no more."""
        node, config = self.settings.node, self.node.replica.config
        await check_member_url(self.settings, config, self.peer_router.identity, self._probes.members_at)
        await self._durable()
        await self._listeners.open()
        self.reloading.start()
        self._peers.start()
        self.peer_router.start()
        self.node.start()
        self._history.start()
        if not self._gate.refused:
            self._actors.start()
        if self.node.members_admin is not None:
            move_alone(self.node.members_admin, self.settings, config, self.node.clock)
        LOGGER.info(
            "started",
            extra={
                "replica": node.id,
                "datacenter": node.datacenter,
                **({"cluster": self.settings.cluster.id} if self.settings.cluster.id else {}),
                "pid": os.getpid(),
                "epoch": self.node.replica.config.epoch,
                **{name.removeprefix("node."): str(address) for name, address in node.listeners.items()},
            },
        )
        log_access(self.node)
        descriptors.log_lower_limit(self.settings.limits.connections, self._connections.limit)

    async def stop(self, hurry: asyncio.Event) -> None:
        """Refuse new requests, answer those under way, then close the links and the store. `hurry` ends the wait:
        clients that are not answered by then do not know the outcome."""
        self._listeners.last_call()
        self.node.refuse_clients()
        LOGGER.info("draining", extra={"writes_in_flight": self.node.in_flight})
        self._listeners.close()
        self._api.close()
        self._samples.close()
        self._actors.last_call()
        await self._drain(hurry)
        self._actors.stop()
        self._history.stop()
        self._elect_agents.stop()
        self.node.stop()
        self.peer_router.stop()
        await self._peers.stop()
        self.close()
        LOGGER.info("stopped")

    def close(self) -> None:
        self._stopped = True
        self.reloading.stop()
        self._listeners.close()
        self.node.audit.close()
        self._store.close()
        self._data_dir.close()

    async def _drain(self, hurry: asyncio.Event) -> None:
        drained = self._loop.create_task(self._drain_ports())
        hurried = self._loop.create_task(hurry.wait())
        await asyncio.wait((drained, hurried), return_when=asyncio.FIRST_COMPLETED)
        hurried.cancel()
        if drained.done():
            await drained
        else:
            drained.cancel()
            LOGGER.warning("not waiting any longer", extra={"writes_in_flight": self.node.in_flight})

    async def _drain_ports(self) -> None:
        await self._listeners.drain()
        await self._durable()

    def _durable(self) -> "asyncio.Future[None]":
        """Of everything committed so far: a refusal of this store, for one, must be there at its next start."""
        durable = self._loop.create_future()
        self._store.when_durable(lambda: None if durable.done() else durable.set_result(None))
        return durable

    def _handle(self, requests: Sequence[Request], answered: Callable[[Sequence[Reply]], None]) -> None:
        """Requests of a peer: they are counted by type and result."""
        begun_s = time.monotonic()

        def reply_to_peer(replies: Sequence[Reply]) -> None:
            self.metrics.counters.requests_handled(requests, replies, time.monotonic() - begun_s)
            answered(replies)

        self.node.replica.handle_all(requests, reply_to_peer)

    def _names(self) -> Iterator[str]:
        """The host names of this node: by its settings, by this machine, and by the configuration in force."""
        node, info = self.settings.node, self.node.replica.config.info(self.settings.node.id)
        yield from (*node.allowed_hosts, *(address.host for address in node.listeners.values()), socket.gethostname())
        for url in (node.advertise_url, info.url if info is not None else ""):
            yield urlsplit(url).hostname or ""

    def _floor_ms(self) -> float | None:
        return floor_ms(self.node.replica.config, self.node.me, self.node.links)

    def _requests(self) -> Requests:
        """Requests that the ports count themselves."""
        return self._resp.requests() | {("http_get_key", "ok"): self._connections.response_cache.served}

    def _credentials(self) -> Credentials:
        return Credentials(
            certificate_ends=self.certificates.ends,
            secrets=self.secrets.fingerprints,
            reload_failures=self.reloading.failures,
        )

    def _alarm(self, text: str) -> None:
        LOGGER.critical("invariant violated", extra={"detail": text}, exc_info=sys.exc_info()[0] is not None)

    def _store_refused(self, text: str) -> None:
        """Of this node, or of another."""
        LOGGER.critical("a store is refused", extra={"detail": text})
        if self._gate.refused:
            self.peer_router.refused()
            self._actors.refused()

    def _flow_failed(self, flow: str, error: Exception) -> None:
        LOGGER.error("a flow failed by a fault of this node", extra={"flow": flow}, exc_info=error)

    def _unexpected(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception that nothing caught: a bug, or a read from a store that has failed. A rotten row has its line in
        the log since it was found."""
        error = context.get("exception")
        if isinstance(error, RottenRow):
            return
        if isinstance(error, StoreFailed):
            if self._stopped:
                return
            self._store_failed(error)
        LOGGER.error(context["message"], exc_info=error)

    def _store_failed(self, error: StoreFailed) -> NoReturn:
        """Only what is on the disk may be acknowledged, and what is in memory may not be there: so the process ends
        without another answer, and without closing connections in order."""
        report_failed(str(error))
        os._exit(EXIT_STORE)


def report_failed(detail: str) -> None:
    LOGGER.critical(STORE_FAILED, extra={"detail": detail})
    sys.stderr.flush()


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


def warn(settings: Settings, data_dir: DataDir, certificate_flaw: str | None) -> None:
    """Warn of settings that are allowed and dangerous."""
    if certificate_flaw is not None:
        facts = {"url": settings.node.advertise_url, "detail": certificate_flaw}
        LOGGER.warning("this node's own certificate would be refused by its peers", extra=facts)
    if is_open_to_others(settings.cluster.secret_file):
        LOGGER.warning("others can read the secret", extra={"file": str(settings.cluster.secret_file)})
    if data_dir.is_new and len(settings.cluster.members) > 1:
        detail = "if this replica had another one before, its promises are lost and it must come back under a new id"
        LOGGER.warning("a new data directory", extra={"replica": settings.node.id, "detail": detail})


def check_regions(settings: Settings) -> None:
    """A member that is added later may have a name that is no region: its link gets no delay."""
    for name in (settings.node.datacenter, *(member.datacenter for member in settings.cluster.members)):
        if settings.wan.emulate and name not in aws.REGIONS:
            known = ", ".join(aws.REGIONS)
            raise ConfigError(f"wan.emulate: no round trips are known for {name!r}; allowed: {known}")


def do_nothing() -> None:
    pass


async def serve(settings: Settings) -> int:
    """Until a first signal, which stops the node in order; a second one ends the wait for clients. SIGHUP reads secrets
    and certificates again; before the node has started it does nothing."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    descriptors.raise_limit()
    over, hurry = asyncio.Event(), asyncio.Event()
    reload: Callable[[], None] = do_nothing
    with signals.handled(lambda: (hurry if over.is_set() else over).set(), lambda: reload()):
        try:
            process = Process(settings)
        except EndsSoon:
            await asyncio.sleep(END_S)
            raise
        try:
            await process.start()
        except EpoxyError:
            process.close()
            raise
        reload = process.reloading.reload
        gc.freeze()
        gc.set_threshold(*COLLECT_AFTER)
        await over.wait()
        await process.stop(hurry)
    return 0
