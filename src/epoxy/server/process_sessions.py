"""Several processes of one machine that are one node of a datacenter (`node.processes`).

The first has the data directory. It owns the system shard from its start to its end, so it is the gateway, and it
works on the embedded store itself. The others have a session each, and reach the store through it. All are linked by
private listeners on the loopback, which accept what is sealed with the cluster's secret and nothing else.
"""

import asyncio
import os
import socket
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import NoReturn

from msgspec.structs import replace

from epoxy.api.http.routes import Route
from epoxy.datacenter.links import NodeLinks
from epoxy.model.records import KeyState
from epoxy.model.shards import ALL_SHARDS
from epoxy.node.access.audit import AUDIT_FILE
from epoxy.node.datacenter_node import DatacenterNode
from epoxy.node.process.config import Settings
from epoxy.node.process.exits import EXIT_BUSY
from epoxy.node.process.logs import LOGGER
from epoxy.ports import Clock, Dice
from epoxy.runtime.clock import LoopClock
from epoxy.server.child_processes import ChildPlace, ChildProcesses
from epoxy.server.datacenter import DatacenterSession, SessionDatabase
from epoxy.server.listeners import RESP
from epoxy.server.node_process import end_failed
from epoxy.server.storage import EmbeddedStorage
from epoxy.store.local.database_client import open_client
from epoxy.store.local.database_messages import Order
from epoxy.store.local.local_database import LocalDatabase
from epoxy.store.shared.row_shards import RowShards
from epoxy.transport.http.connections import Connections
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.http.listener import Listener
from epoxy.transport.http.server import serve_http
from epoxy.transport.limits import NODES_PATH
from epoxy.transport.peers.member_rpc import MemberRpcClient
from epoxy.transport.peers.transport import Peers

LOOPBACK = "127.0.0.1"

LINK_CONNECTIONS = 256
"""At a private listener: those of 63 other processes, twice over while they are made anew."""

HOME_S = 0.05
"""Between two looks whether all shards are the first process's again."""


class PrivateListener:
    """Where the other processes reach this one. `accept` takes their connections."""

    def __init__(self) -> None:
        self.accept: Callable[[Exchange], None] | None = None
        self._listener: Listener | None = None

    async def open(self) -> str:
        """Returns its URL."""
        self._listener = await serve_http(self._handle, LOOPBACK, 0, connections=Connections(LINK_CONNECTIONS))
        return f"http://{LOOPBACK}:{self._listener.sockets[0].getsockname()[1]}"

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()

    def _handle(self, exchange: Exchange) -> None:
        if exchange.request.path == NODES_PATH and self.accept is not None:
            self.accept(exchange)
        else:
            exchange.fail(404, "no_such_route", "this address is for the processes of one node")


class ProcessSession(DatacenterSession):
    """Of one of the processes. What a datacenter's nodes say over TLS stays on this machine here. Clients of the Redis
    protocol are accepted by all processes."""

    listeners: Collection[str] | None = (RESP,)

    def __init__(self, settings: Settings, database: SessionDatabase, listener: PrivateListener, url: str) -> None:
        super().__init__(settings, database, url)
        self._listener = listener

    def _make_links(self, session: int, replica: int) -> NodeLinks:
        links = NodeLinks(session, replica, self.secrets.peer_keys, clock=self._clock, dice=self._dice)
        self._listener.accept = links.accept
        return links

    def _may_be_gateway(self) -> bool:
        """The first process is, and its address is checked as that of a node that is alone. It never gives that up."""
        return True

    def routes(self) -> list[Route]:
        return []

    async def close(self) -> None:
        self._listener.close()
        await super().close()

    def _fenced(self, reason: str) -> NoReturn:
        """Nothing in memory may be told any more. The first process starts another in its place."""
        LOGGER.warning("another process has taken over; this one ends", extra={"detail": reason})
        os._exit(EXIT_BUSY)


class HostedRows:
    """`OwnedRows` of the first process: all rows are in its own store, and only the others need to know the epoch."""

    def __init__(self, database: LocalDatabase) -> None:
        self._database = database

    @property
    def config_epoch(self) -> int:
        return self._database.config_epoch

    @config_epoch.setter
    def config_epoch(self, epoch: int) -> None:
        self._database.adopted(epoch)

    def own(self, shards: Sequence[int], then: Callable[[], None]) -> None:  # noqa: ARG002
        then()

    def disown(self, shards: Sequence[int]) -> None:
        pass


class HostSession(ProcessSession):
    """Of the first process. `children` are the others: they start when this one serves clients, and end before it
    does."""

    def __init__(
        self,
        settings: Settings,
        storage: EmbeddedStorage,
        database: LocalDatabase,
        listener: PrivateListener,
        url: str,
        hurry: asyncio.Event,
    ) -> None:
        super().__init__(settings, database, listener, url)
        self._host_database = database
        self._hurry = hurry
        self.storage = storage
        self._coming_home: asyncio.Task[None] | None = None
        self.children = ChildProcesses(settings, database, self.ownership.look)

    def _open_store(self, session: int, replica: int) -> None:  # noqa: ARG002
        self._host_database.table.keep(session)
        self.store = self.storage.store
        self._rows = HostedRows(self._host_database)

    def _config_changed(self, _key: bytes, _before: KeyState, after: KeyState) -> None:
        assert after.committed is not None
        self._rows.config_epoch = after.committed.version

    def gateway_node(
        self,
        settings: Settings,
        peers: Peers,
        clock: Clock,
        dice: Dice,
        alarm: Callable[[str], None],
        member_rpc: MemberRpcClient,
    ) -> DatacenterNode:
        node = super().gateway_node(settings, peers, clock, dice, alarm, member_rpc)
        node.repairs.first = self._when_alone
        return node

    def start(self) -> None:
        super().start()
        self.children.start()

    def _when_alone(self, then: Callable[[], None]) -> None:
        """A rotten row is mended where the disk is, and its key may be another process's: so this one goes on alone,
        until it is started again."""
        if self._coming_home is None:
            LOGGER.error("a row of the disk is rotten; this node goes on as one process")
            self._coming_home = self._loop.create_task(self._come_home())
        self._coming_home.add_done_callback(lambda _: then())

    async def _come_home(self) -> None:
        await self.children.stop(self._hurry)
        while len(self.ownership.owned) < len(ALL_SHARDS):
            self.ownership.look()
            await asyncio.sleep(HOME_S)

    def reload(self) -> None:
        self.children.reload()

    async def hand_all_over(self) -> None:
        """The others hand their shards over to this one, and end. Then this one stops serving."""
        await self.children.stop(self._hurry)
        served_none = asyncio.Event()
        self.ownership.farewell(lambda _: served_none.set())
        await served_none.wait()

    async def close(self) -> None:
        self.children.kill()
        await super().close()
        self.storage.close()


async def open_host(settings: Settings, hurry: asyncio.Event) -> HostSession:
    """The session of the first process, with its data directory."""
    loop = asyncio.get_running_loop()
    storage = EmbeddedStorage(settings, loop, end_failed)
    listener = PrivateListener()
    try:
        database = LocalDatabase(
            storage.store, RowShards(settings.node.id), now_ms=LoopClock(loop).now_ms, schedule=loop.call_soon
        )
        session = HostSession(
            settings.of_cluster(storage.cluster), storage, database, listener, await listener.open(), hurry
        )
        await session.open()
    except BaseException:
        listener.close()
        storage.close()
        raise
    return session


async def open_child(
    settings: Settings, place: ChildPlace, ordered: Callable[[Order], None]
) -> tuple[Settings, ProcessSession]:
    settings = settings_of_child(settings.of_cluster(place.cluster), place.number)
    asking, waiting = (socket.socket(fileno=number) for number in (place.asking, place.waiting))
    database = await open_client(asking, waiting, lost=first_has_ended, ordered=ordered)
    listener = PrivateListener()
    session = ProcessSession(settings, database, listener, await listener.open())
    await session.open()
    return settings, session


def first_has_ended() -> NoReturn:
    """Nothing can be made durable any more, and nothing may be told."""
    os._exit(EXIT_BUSY)


def settings_of_child(settings: Settings, number: int) -> Settings:
    """What differs from the first process: a name of its own where nodes are told apart, and a file of its own for
    what it audits."""
    node, access = settings.node, settings.access
    file = access.audit_file or node.data_dir / AUDIT_FILE
    return replace(
        settings,
        node=replace(node, advertise_url=f"{node.advertise_url}#{number}"),
        access=replace(access, audit_file=audit_file_of(file, number)),
    )


def audit_file_of(file: Path, number: int) -> Path:
    return file.with_name(f"{file.stem}-{number}{file.suffix}")
