"""The agent as a process: the elector with its links, its server, its disk and its port for clients."""

import asyncio
import contextlib
import logging
import os
import random
import secrets
import sys
from collections.abc import Coroutine
from typing import NoReturn

from epoxy.agent.credentials import AgentSecrets, LinkCertificates
from epoxy.agent.data_plane import DataPlane
from epoxy.agent.disk import Disk
from epoxy.agent.links import Dialer, LinkListener
from epoxy.agent.metrics import AgentMetrics
from epoxy.agent.sentinel import SWITCH, SentinelSource
from epoxy.agent.sentinel_server import SentinelServer
from epoxy.agent.settings import AgentSettings
from epoxy.agent.watchdog import clock_ms
from epoxy.model.elect_status import AgentStatus, NodeStatus
from epoxy.model.errors import EpoxyError, StoreFailed
from epoxy.node.process import descriptors, signals
from epoxy.node.process.exits import EXIT_STORE
from epoxy.node.process.listening import listen
from epoxy.node.process.reloading import Reloadable, Reloading
from epoxy.protocol.elect.config import ElectConfig, ElectNode
from epoxy.protocol.elect.elector import Elector
from epoxy.protocol.elect.handshake import Party, party_of
from epoxy.protocol.elect.heartbeats import heartbeat_of
from epoxy.protocol.elect.lists import Lists
from epoxy.protocol.elect.messages import Heartbeat, Message, ServerState
from epoxy.protocol.elect.operator_orders import LIFE_BYTES, Addressee, OrderDesk
from epoxy.protocol.elect.terms import Effect, Save, Send, ServerReport
from epoxy.transport.http import listener
from epoxy.transport.http.server import serve_http
from epoxy.transport.peers.auth import wall_ms

LOGGER = logging.getLogger("epoxy")

RETIRE_S, RETIRE_POLL_S = 5.0, 0.02
"""How long the agent waits, after a handover, for its server to be closed before it ends, and how often it looks; one
more interval lets the last messages leave. A server that answers takes milliseconds; a supervisor waits 30 s or more
before it kills."""


class Agent:
    def __init__(self, settings: AgentSettings) -> None:
        config = settings.config
        self.settings = settings
        self.switches = 0
        settings.data_dir.mkdir(parents=True, exist_ok=True)
        self._disk = Disk(settings.data_dir, config.cluster, settings.me)
        record = self._disk.load()
        self.elector = Elector(config, settings.me, record, clock_ms(), random.SystemRandom().randint)
        self.dialers: dict[str, Dialer] = {}
        self._dialer_tasks: dict[str, asyncio.Task[None]] = {}
        self._counted: ElectConfig | None = None
        self._secrets = AgentSecrets(settings, self._renew_links)
        self._certificates = LinkCertificates(settings)
        parts: dict[str, Reloadable] = {"secrets": self._secrets, "certificates": self._certificates}
        self.reloading = Reloading(parts, self._certificates.remind)
        self._listener = LinkListener(self._party_of, self._receive, self._certificates.for_links)
        self.data_plane = DataPlane(settings, self._reported)
        addressee = Addressee(cluster=config.cluster, agent=settings.me, life=secrets.token_hex(LIFE_BYTES))
        self._desk = OrderDesk(addressee)
        source = SentinelSource(
            config=lambda: self.elector.config,
            desk=self._desk,
            secrets=lambda: self._secrets.current,
            now_ms=wall_ms,
            status=self.status,
            fail_over=self._fail_over,
        )
        self._sentinel = SentinelServer(source)
        self._metrics: listener.Listener | None = None
        self._primary: str | None = None
        self._office: tuple[str | None, int] = (None, 0)
        self._office_ms = 0
        """The primary with its epoch, and since when that has been so."""
        self._known: ElectNode | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._failed: BaseException | None = None
        self.over = asyncio.Event()
        """Set when a task that should run for ever has ended, or by a signal."""
        self._due = asyncio.Event()
        self._due_ms = 0
        self._alarm: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        if flaw := self._certificates.flaw():
            LOGGER.warning("other agents would refuse this one's certificate", extra={"reason": flaw})
        self.reloading.start()
        await self._listener.start(self.settings.listen)
        await self._sentinel.start(self.settings.clients)
        await self._serve_metrics()
        self._update_peers()
        runs = [self.data_plane.watchdog.run(), self.data_plane.run(), self._tick()]
        self._tasks = [self._begin(each) for each in runs]
        LOGGER.info(
            "started",
            extra={
                "node": self.settings.me,
                "cluster": self.settings.config.cluster,
                "remembers": not self.elector.fresh,
                "clients": str(self.settings.clients),
            },
        )

    async def _serve_metrics(self) -> None:
        address = self.settings.metrics
        if address is not None:
            opening = serve_http(AgentMetrics(self.status).answer, address.host, address.port)
            self._metrics = await listen("node.metrics", address, opening)

    async def stop(self) -> None:
        """A leader hands over or closes its server first, so that the others need not wait for `down_after_ms`."""
        if self.elector.leading:
            self._perform(self.elector.retire(clock_ms()))
            handover_s = self.settings.config.timing.election_timeout_ms / 1000
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(handover_s + RETIRE_S):
                    while not self.elector.has_stepped_down:
                        await asyncio.sleep(RETIRE_POLL_S)
                    await asyncio.sleep(RETIRE_POLL_S)
        self.reloading.stop()
        self._listener.close()
        self._sentinel.close()
        if self._metrics is not None:
            self._metrics.close()
        if self._alarm is not None:
            self._alarm.cancel()
        tasks = [*self._tasks, *self._dialer_tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.data_plane.close()
        LOGGER.info("stopped")

    def _begin(self, runs: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """A task that should run until it is cancelled."""
        task = asyncio.create_task(runs)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._failed = self._failed or task.exception()
            self.over.set()

    def failed(self) -> BaseException | None:
        """Why a task that should run for ever has ended."""
        return self._failed

    # Peers

    def _party_of(self) -> Party:
        settings, elector = self.settings, self.elector
        lists = elector.lists if elector.knows_lists else None
        return party_of(settings.config, settings.me, self._secrets.current, lists)

    def _update_peers(self) -> None:
        """Connect to all nodes that are counted, and to no others. Called whenever the lists may have changed."""
        config = self.elector.config
        if config is self._counted:
            return
        self._counted = self.data_plane.config = config
        for name in [name for name in self.dialers if name not in self.elector.peers]:
            del self.dialers[name]
            self._dialer_tasks.pop(name).cancel()
        for name in self.elector.peers:
            if name not in self.dialers:
                tls = self._certificates.for_dialing
                self.dialers[name] = Dialer(self._party_of, name, config.node(name).control, config, tls)
                self._dialer_tasks[name] = self._begin(self.dialers[name].run())
        self._listener.close_others(set(self.elector.peers))
        lists = self.elector.lists
        LOGGER.info(
            "nodes",
            extra={
                "generation": lists.generation,
                "counted": [node.id for node in config.nodes],
                "joining": lists.joining,
                "leaving": lists.leaving,
            },
        )

    def _renew_links(self) -> None:
        """Connections that were made with a secret that is no longer accepted end."""
        self._listener.renew(self._secrets.current)
        for dialer in self.dialers.values():
            dialer.renew(self._secrets.current)

    # Inputs

    async def _tick(self) -> None:
        """Missed ticks are not made up for: after a long sleep one is enough."""
        while True:
            self._perform(self.elector.tick(clock_ms()))
            self._due.clear()
            await self._due.wait()

    def _set_alarm(self) -> None:
        """For the next tick, which any input may have moved."""
        now_ms = clock_ms()
        due_ms = self.elector.due_ms(now_ms)
        if due_ms != self._due_ms:
            self._due_ms = due_ms
            if self._alarm is not None:
                self._alarm.cancel()
            self._alarm = asyncio.get_running_loop().call_later((due_ms - now_ms) / 1000, self._due.set)

    def _receive(self, message: Message) -> None:
        before = self.elector.implausible
        self._perform(self.elector.receive(message, clock_ms()))
        if self.elector.implausible > before and before.bit_count() <= 1:
            LOGGER.error(
                "ignored a message of a peer: its epoch cannot be",
                extra={"peer": message.node, "epoch": message.epoch, "times": self.elector.implausible},
            )

    def _reported(self, report: ServerReport) -> None:
        self._perform(self.elector.report(report, clock_ms()))

    def _fail_over(self, heir: str) -> str | None:
        refused = self.elector.hand_over(heir, clock_ms())
        LOGGER.info("a failover was requested", extra={"heir": heir, "refused": refused})
        self._perform(self.elector.tick(clock_ms()))
        return refused

    # Effects

    def _perform(self, effects: list[Effect]) -> None:
        """The server is observed with every heartbeat, in the same moment."""
        beats = False
        self._update_peers()
        for effect in effects:
            match effect:
                case Save():
                    self._save(effect)
                case Send():
                    if effect.to in self.dialers:
                        self.dialers[effect.to].put(effect.message)
                    beats = beats or isinstance(effect.message, Heartbeat)
                case _:
                    self.data_plane.obey(effect)
        if beats:
            self.data_plane.look()
        self._set_alarm()
        self._publish_switch()

    def _save(self, effect: Save) -> None:
        try:
            self._disk.save(effect.record)
        except StoreFailed as error:
            end(error)
        record = effect.record
        stage = record.lists.stage if record.lists is not None else 0
        LOGGER.info(
            "saved",
            extra={"epoch": record.epoch, "voted_for": record.voted_for, "leader": record.leader, "stage": stage},
        )

    def _publish_switch(self) -> None:
        """Subscribers are notified when a new primary takes writes, not when it is elected."""
        primary = self.primary()
        office = primary, self.elector.record.leader_epoch
        if office != self._office:
            self._office, self._office_ms = office, clock_ms()
        if primary is None or primary == self._primary:
            self._primary = primary
            return
        self._primary = primary
        known = self._known or self.settings.config.node(self.settings.config.initial_primary)
        self._known = self.elector.config.node(primary)
        if primary != known.id:
            self.switches += 1
            old, new = known.server, self._known.server
            self._sentinel.publish(
                SWITCH, f"{self.settings.config.cluster} {old.host} {old.port} {new.host} {new.port}"
            )
        LOGGER.info("primary", extra={"primary": primary, "epoch": self.elector.record.leader_epoch})

    # Queries

    def primary(self) -> str | None:
        """The node that takes writes, as far as this agent knows."""
        elector, now_ms = self.elector, clock_ms()
        if elector.is_open(now_ms):
            return elector.me
        leader = elector.peers.get(elector.record.leader)
        if leader is None or not elector.has_live_primary(now_ms):
            return None
        said = leader.heartbeat_within(self.settings.config.timing.down_after_ms, now_ms)
        return elector.record.leader if said is not None and said.state is ServerState.OPEN else None

    def status(self) -> AgentStatus:
        elector, config, lists, now_ms = self.elector, self.elector.config, self.elector.lists, clock_ms()
        primary = self.primary()
        nodes = tuple(self._node_status(node.id, now_ms) for node in config.nodes)
        return AgentStatus(
            cluster=config.cluster,
            node=elector.me,
            primary=primary,
            primary_address=str(config.node(primary).server) if primary is not None else None,
            epoch=elector.record.epoch,
            leader_epoch=elector.record.leader_epoch,
            leader=elector.record.leader,
            role=elector.role.value,
            state=elector.server_state(now_ms).value,
            lease_ms=max(0, elector.lease_end_ms - now_ms),
            quorum=lists.newest.quorum,
            min_replicas_to_write=config.min_replicas_to_write,
            switches=self.switches,
            guard=self.data_plane.watchdog.is_running,
            nodes=nodes,
            handing=elector.handing.heir if elector.handing is not None else None,
            generation=lists.generation,
            joining=joining(lists, nodes),
            leaving=lists.leaving,
            implausible=elector.implausible,
            refused_orders=self._desk.refused,
            primary_ms=now_ms - self._office_ms if primary is not None and primary == self._office[0] else None,
            voted_for=elector.record.voted_for,
        )

    def _node_status(self, name: str, now_ms: int) -> NodeStatus:
        elector = self.elector
        node = elector.config.node(name)
        peer = elector.peers.get(name)
        heartbeat = peer.heartbeat if peer is not None else heartbeat_of(elector, now_ms, echo=0)
        return NodeStatus(
            id=name,
            server=str(node.server),
            control=str(node.control),
            priority=node.priority,
            role=heartbeat.role.value if heartbeat is not None else "unknown",
            state=heartbeat.state.value if heartbeat is not None else "unknown",
            epoch=heartbeat.epoch if heartbeat is not None else 0,
            history=heartbeat.history if heartbeat is not None else 0,
            offset=heartbeat.offset if heartbeat is not None else 0,
            seen_ms=None if heartbeat is None else now_ms - peer.at_ms if peer is not None else 0,
        )


def end(error: StoreFailed) -> NoReturn:
    """No message may leave that rests on an unsaved record. The watchdog closes the server when this process is
    gone."""
    LOGGER.critical("the record cannot be saved; ending", extra={"detail": str(error)})
    sys.stderr.flush()
    os._exit(EXIT_STORE)


async def serve(settings: AgentSettings) -> int:
    """Until a signal ends it."""
    for finding in settings.findings:
        LOGGER.warning("config", extra={"setting": finding.setting, "detail": finding.text})
    descriptors.raise_limit()
    agent = Agent(settings)
    with signals.handled(agent.over.set, agent.reloading.reload):
        try:
            await agent.start()
            await agent.over.wait()
        except EpoxyError:
            await agent.stop()
            raise
        failed = agent.failed()
        await agent.stop()
        if failed is not None:
            raise failed
    return 0


def joining(lists: Lists, nodes: tuple[NodeStatus, ...]) -> tuple[str, ...]:
    """The nodes that are new in the list and, after a change, those that have no record yet: with another file such a
    node knows none of the lists that count, and no other node accepts it until one of these has that file too."""
    empty = [node.id for node in nodes if lists.generation and node.state == ServerState.FRESH.value]
    return tuple(sorted({*lists.joining, *empty}))
