"""What every kind of node process has: store, certificates, secrets and APIs, and the order in which they end."""

import asyncio
import os
import sys
from typing import Any, NoReturn, Protocol

from epoxy.model.errors import ConfigError, RottenRow, StoreFailed, StoreUnavailable
from epoxy.node.access.audit import audit_of
from epoxy.node.members.early_accepts import EarlyAccepts
from epoxy.node.process.auth import auth_of
from epoxy.node.process.config import Settings
from epoxy.node.process.disk_watch import DiskWatch
from epoxy.node.process.exits import EXIT_STORE
from epoxy.node.process.fatal_signals import end_on_fatal_signals
from epoxy.node.process.listening import check_address
from epoxy.node.process.logs import LOGGER
from epoxy.node.process.malloc import map_long_blocks
from epoxy.node.process.reloading import Reloading
from epoxy.node.process.secret_files import is_open_to_others, read_secrets
from epoxy.node.report import Credentials
from epoxy.node.service import Node
from epoxy.protocol.placement.ring import check_hash
from epoxy.runtime.clock import LoopClock, SystemDice
from epoxy.server.certificates import Certificates
from epoxy.server.cluster_secrets import ClusterSecrets
from epoxy.server.endpoints import Endpoints
from epoxy.server.storage import EmbeddedStorage, Storage
from epoxy.transport.http.connections import DRAIN_POLL_S
from epoxy.transport.peers.negotiation import known_versions
from epoxy.transport.wan import aws
from epoxy.transport.wan.emulation import Link

SETTLE_S = 2.0
"""How long a stopping node goes on with writes that other homes handed to it: several times the longest round trip.
What is not decided by then is taken back by its home."""

DURABLE_S = 5.0
"""For the last commits to become durable when a node stops. A disk that takes longer hangs, and no client waits for
them any more."""

READY_S, READY_POLL_S = 1.0, 0.01
"""For a node to serve: a gateway that was a shard node votes when a majority of the others has recorded this start, one
round trip after its first connections. Without them it says so to its clients."""

STORE_FAILED = "the store failed; ending without another answer"


class HeldByNodes(Protocol):
    """What the session of a node in a datacenter of several has: it outlives the kind of node."""

    certificates: Certificates
    secrets: ClusterSecrets

    @property
    def storage(self) -> Storage: ...


class NodeProcess:
    """A part of a process, made inside a running event loop."""

    node: Node
    endpoints: Endpoints
    early: EarlyAccepts | None = None
    """Of a node that is alone with a data directory of its own."""

    def __init__(self, settings: Settings, shared: HeldByNodes | None) -> None:
        """`shared`: what a node of several has of its session; None: it is alone, with a data directory of its own."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._unexpected)
        check(settings)
        self._stopped = False
        map_long_blocks()
        end_on_fatal_signals(settings.node.data_dir, report_failed)  # before a migration reads the old tree
        self.certificates = shared.certificates if shared is not None else Certificates(settings)
        storage = shared.storage if shared is not None else None
        if storage is None:
            storage = EmbeddedStorage(settings, self._loop, self._store_failed)
        self._storage = storage
        self._embedded = storage if isinstance(storage, EmbeddedStorage) else None
        self._store = storage.store
        self.settings = settings = settings.of_cluster(storage.cluster)
        # One object for all that signs, so that SIGHUP renews the links between nodes, too.
        self.secrets = shared.secrets if shared is not None else ClusterSecrets(settings)
        self._disk_watch = DiskWatch(storage.longest_sync_ms, storage.disk_usage)
        self.reloading = Reloading({"secrets": self.secrets, "certificates": self.certificates}, self._look)
        self._clock, self._dice = LoopClock(self._loop), SystemDice()
        self._link = Link(self._clock)

    def _look(self) -> None:
        """Every few seconds."""
        self.certificates.remind()
        self._disk_watch.look()

    def _equip(self, node: Node) -> None:
        """Give a node what it has of its process."""
        node.credentials = self._credentials
        node.longest_sync_ms = self._storage.longest_sync_ms
        node.disk_usage = self._storage.disk_usage
        node.syncs = self._embedded.store.syncs if self._embedded is not None else None
        node.audit = audit_of(self.settings)
        node.failures.report = self._flow_failed
        node.versions = known_versions(node.me)

    def close(self) -> None:
        self._stopped = True
        self.reloading.stop()
        self.endpoints.close()
        self.node.audit.close()
        if self._embedded is not None:
            self._embedded.close(is_clean=self.early is not None and self.early.is_clean)

    async def _ready(self) -> None:
        """Clients of the node that this was, and other nodes, wait for an answer and not for a refusal."""
        deadline_s = self._loop.time() + READY_S
        while not self.node.ready and self._loop.time() < deadline_s:
            await asyncio.sleep(READY_POLL_S)

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
        """Clients, then the writes of other homes that this node has taken over, then peers, then
        the other nodes of the datacenter."""
        await self.endpoints.drain_clients()
        deadline = self._loop.time() + SETTLE_S
        while not self.node.driver.is_idle and self._loop.time() < deadline:
            await asyncio.sleep(DRAIN_POLL_S)
        await self.endpoints.drain()
        await self._let_go()
        await asyncio.wait((self._durable(),), timeout=DURABLE_S)

    async def _let_go(self) -> None:
        """Until the other nodes of the datacenter ask nothing more of this one."""

    def _durable(self) -> "asyncio.Future[None]":
        """Of everything committed so far: a refusal of this store, for one, must be there at its next start."""
        durable = self._loop.create_future()
        self._store.when_durable(lambda: None if durable.done() else durable.set_result(None))
        return durable

    def _credentials(self) -> Credentials:
        return Credentials(
            certificate_ends=self.certificates.ends,
            certificate_flaw=self.certificates.flaw_found,
            authorities=self.certificates.authorities,
            secrets=self.secrets.fingerprints,
            reload_failures=self.reloading.failures,
        )

    def _alarm(self, text: str) -> None:
        LOGGER.critical("invariant violated", extra={"detail": text}, exc_info=sys.exc_info()[0] is not None)

    def _flow_failed(self, flow: str, error: Exception) -> None:
        LOGGER.error("a flow failed by a fault of this node", extra={"flow": flow}, exc_info=error)

    def _unexpected(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """An exception that nothing caught: a bug, or a read from a store that has failed. A rotten row has its line in
        the log since it was found, and a database that does not answer since it was lost: what is done from time to
        time is done the next time."""
        error = context.get("exception")
        if isinstance(error, RottenRow | StoreUnavailable):
            return
        if isinstance(error, StoreFailed):
            if self._stopped:
                return
            self._store_failed(error)
        LOGGER.error(context["message"], exc_info=error)

    def _store_failed(self, error: StoreFailed) -> NoReturn:
        end_failed(error)


def end_failed(error: StoreFailed) -> NoReturn:
    """Only what is on the disk may be acknowledged, and what is in memory may not be there: so the process ends without
    another answer, and without closing connections in order."""
    report_failed(str(error))
    os._exit(EXIT_STORE)


def report_failed(detail: str) -> None:
    LOGGER.critical(STORE_FAILED, extra={"detail": detail})
    sys.stderr.flush()


def check(settings: Settings) -> None:
    """What can be wrong with settings, before anything is made."""
    read_secrets(settings)
    check_regions(settings)
    check_hash()
    for name, address in settings.node.listeners.items():
        check_address(name, address)
    auth_of(settings)


def check_regions(settings: Settings) -> None:
    """A member that is added later may have a name that is no region: its link gets no delay."""
    for name in (settings.node.datacenter, *(member.datacenter for member in settings.cluster.members)):
        if settings.wan.emulate and name not in aws.REGIONS:
            known = ", ".join(aws.REGIONS)
            raise ConfigError(f"wan.emulate: no round trips are known for {name!r}; allowed: {known}")


def warn(settings: Settings, certificate_flaw: str | None, *, is_new: bool) -> None:
    """Warn of settings that are allowed and dangerous. `is_new`: nothing was stored here before."""
    if certificate_flaw is not None:
        facts = {"url": settings.node.advertise_url, "detail": certificate_flaw}
        LOGGER.warning("this node's own certificate would be refused by its peers", extra=facts)
    if is_open_to_others(settings.cluster.secret_file):
        LOGGER.warning("others can read the secret", extra={"file": str(settings.cluster.secret_file)})
    if is_new and len(settings.cluster.members) > 1:
        detail = "if this replica had another one before, its promises are lost and it must come back under a new id"
        LOGGER.warning("a new data directory", extra={"replica": settings.node.id, "detail": detail})
