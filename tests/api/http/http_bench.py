"""What the tests of the HTTP API share: a node that says what it is told to, and a cluster in one process behind real
sockets."""

import asyncio
import http.client
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httptools
import msgspec
from msgspec import Struct

from epoxy.api.http.backend import AccessInForce, QuotasInForce
from epoxy.api.http.operator_signature import OperatorSignatures
from epoxy.api.http.router import Api
from epoxy.api.http.routes_auth import AuthRoutes
from epoxy.api.http.routes_backups import BackupRoutes
from epoxy.api.http.routes_console_info import ConsoleInfoRoutes
from epoxy.api.http.routes_elect import ElectRoutes, Look
from epoxy.api.http.routes_leases import LeaseRoutes
from epoxy.api.http.routes_links import LinkRoutes
from epoxy.api.http.routes_members_history import MembersHistoryRoutes
from epoxy.api.http.routes_probe import Probe, ProbeRoutes
from epoxy.api.http.routes_samples import SampleRoutes
from epoxy.api.http.routes_scrub import ScrubRoutes
from epoxy.api.http.routes_transactions import TransactionRoutes
from epoxy.api.http.routes_world import WorldRoutes
from epoxy.api.metrics import Metrics
from epoxy.backup.backups import Backups
from epoxy.model.address import Address
from epoxy.model.api import ReplicaView, SessionReport
from epoxy.model.api_world import World
from epoxy.model.cluster import first_epoch
from epoxy.model.members import NO_STAMP
from epoxy.model.messages import Failed, Reply, Request
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.records import ChangelogEntry, Proposal, ProposalId
from epoxy.model.transactions import Txn, TxnOutcome
from epoxy.model.versions import PeerVersions, WireVersions
from epoxy.model.writes import Consistency, Outcome, ReadAnswer, ReadResult, Write
from epoxy.node.access.audit import AuditLog
from epoxy.node.access.guesses import Guesses
from epoxy.node.commit_samples import CommitSampler
from epoxy.node.keys.leases import Leases
from epoxy.node.keys.listing import PAGE_BYTES
from epoxy.node.members.lifecycle import Lifecycle, LifecycleState
from epoxy.node.members.members_admin import MembersAdmin
from epoxy.node.process.config import ClusterSettings, Limits, MemberSetting, NodeSettings, Settings
from epoxy.node.scrub.scrubber import Scrubber
from epoxy.node.service import Node
from epoxy.ports import Clock, Store
from epoxy.protocol.placement.config import PlacementConfig
from epoxy.runtime.admission import Caller
from epoxy.runtime.clock import LoopClock, SystemDice
from epoxy.server.actors import ActorSystem
from epoxy.store.embedded.syncs import SyncTimes
from epoxy.store.memory import MemoryStore
from epoxy.transport.http import exchange as transport
from epoxy.transport.http.connections import Connections
from epoxy.transport.http.listener import Listener
from epoxy.transport.http.request import HttpRequest as HttpRequest
from epoxy.transport.http.server import serve_http
from epoxy.transport.http.upgraded import UpgradedProtocol
from epoxy.transport.limits import HttpLimits
from epoxy.transport.peers.auth import Verifier
from epoxy.transport.peers.authenticator import Authenticator
from epoxy.transport.peers.keyring import keyring_of
from epoxy.transport.peers.link_context import Identity
from epoxy.transport.peers.store_gate import OpenGate
from epoxy.transport.wan.emulation import Link
from tests.api.http.open_access import NoQuotas, OpenAccess
from tests.node.service_bench import PromptLinks
from tests.protocol.placement.bench import Clock as StillClock

SECRET = b"a secret of the whole cluster"

NO_CONFIG = PlacementConfig()

PATIENCE_S = 60.0
"""Only to end a test that would hang."""


def proposal(value: bytes | None = b"v", version: int = 1, *, mutable: bool = False) -> Proposal:
    return Proposal(value=value, version=version, mutable=mutable, proposal_id=ProposalId(1, 7))


def stamp(number: int) -> bytes:
    return number.to_bytes(10, "big")


class Answer(Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json", self
        return msgspec.json.decode(self.body)

    def error(self) -> Any:
        """Every error has this shape and names its code in a header too."""
        told = self.json()
        assert set(told) == {"error"}, told
        assert self.headers["epoxy-error"] == told["error"]["code"]
        return told["error"]


class FakeLeases:
    """`remaining`: of every value with a time to live."""

    def __init__(self) -> None:
        self.remaining = 1234

    def remaining_ms(self, key: bytes, committed: Proposal) -> int | None:  # noqa: ARG002 (one answer for all keys)
        return self.remaining if committed.expiry is not None and committed.expiry.ttl_ms else None


class FakeSessions:
    """Answers everything with `outcome`, and keeps what it was asked."""

    def __init__(self) -> None:
        self.outcome: Outcome | None = None
        self.asked: list[tuple[str, object]] = []

    def begin(self, ttl_ms: int, answered: Callable[[Outcome], None]) -> bytes:
        self._answer("begin", ttl_ms, answered)
        return bytes(range(16))

    def renew(self, session: bytes, answered: Callable[[Outcome], None]) -> None:
        self._answer("renew", session, answered)

    def end(self, session: bytes, answered: Callable[[Outcome], None]) -> None:
        self._answer("end", session, answered)

    def _answer(self, what: str, given: object, answered: Callable[[Outcome], None]) -> None:
        self.asked.append((what, given))
        assert self.outcome is not None
        answered(self.outcome)


class FakeQuorum:
    is_lost = False

    def look(self) -> bool:
        return self.is_lost


class FakeNode:
    """Answers every write with `outcome`, every read with `reading`, and keeps what it was asked."""

    def __init__(self) -> None:
        self.me = 1
        self.settings = settings(1, (1, 2, 3))
        self.ready = True
        self.lifecycle = Lifecycle(state=LifecycleState.ACTIVE)
        self.txn_waits = ""
        self.quorum = FakeQuorum()
        self.session = 0
        self.sessions_of_datacenter: Callable[[], list[SessionReport]] = list
        self.syncs: SyncTimes | None = SyncTimes()
        self.members_admin: MembersAdmin | None = None
        self.versions = PeerVersions(1, WireVersions(oldest=5, newest=5, release="0.2.0"))
        self.versions.heard(2, WireVersions(oldest=5, newest=6, release="0.3.0"))
        self.replica = SimpleNamespace(config=first_epoch((1, 2, 3)))
        self.outcome: Outcome | None = None
        self.reading: ReadAnswer | None = None
        self.here: ReadResult | None = None
        self.keys: list[tuple[bytes, Proposal]] = []
        self.log: list[tuple[bytes, ChangelogEntry]] = []
        self.gone = NO_STAMP
        self.writes: list[Write] = []
        self.txns: list[Txn] = []
        self.executed: TxnOutcome | None = None
        self.reads: list[tuple[bytes, Consistency]] = []
        self.listeners: list[Callable[[], None]] = []
        self.inspections: list[Callable[[], None]] | None = None
        self.inspected: list[bytes] = []
        self.views = [ReplicaView(id=1, datacenter="dc-1", held=None, reason="no answer in time")]
        self.access: AccessInForce = OpenAccess()
        self.quotas: QuotasInForce = NoQuotas()
        self.audit, self.guesses = AuditLog(), Guesses()
        self.leases, self.sessions = FakeLeases(), FakeSessions()

    def write(self, write: Write, answered: Callable[[Outcome], None], caller: Caller | None = None) -> None:  # noqa: ARG002
        self.writes.append(write)
        assert self.outcome is not None
        answered(self.outcome)

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None:
        self.reads.append((key, consistency))
        assert self.reading is not None
        answered(self.reading)

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None:
        self.txns.append(txn)
        assert self.executed is not None
        answered(self.executed)

    def peek(self, key: bytes) -> ReadResult | None:  # noqa: ARG002 (one answer for all keys)
        return self.here

    def datacenter_of(self, replica: int) -> str:
        return f"dc-{replica}"

    def page(self, prefix: bytes, after: bytes | None, limit: int) -> list[tuple[bytes, Proposal]]:
        found = [row for row in self.keys if row[0].startswith(prefix) and row[0] > (after or b"")][:limit]
        sizes = accumulate(len(committed.value or b"") for _, committed in found)
        return found[: 1 + sum(size < PAGE_BYTES for size in sizes)]

    def changes(self, after: bytes | None, limit: int) -> list[tuple[bytes, ChangelogEntry]]:
        return [row for row in self.log if after is None or row[0] > after][:limit]

    def newest_changes(self, before: bytes | None, limit: int) -> list[tuple[bytes, ChangelogEntry]]:
        return [row for row in reversed(self.log) if before is None or row[0] < before][:limit]

    def changes_gone(self) -> bytes:
        return self.gone

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        return partial(self.listeners.remove, listener)

    def status(self) -> object:
        return {"id": 1, "ready": self.ready}

    def inspect(self, key: bytes, answered: Callable[[Sequence[ReplicaView]], None]) -> None:
        self.inspected.append(key)
        if self.inspections is None:
            answered(self.views)
        else:
            self.inspections.append(partial(answered, self.views))

    def commit(self, key: bytes, committed: Proposal) -> None:
        self.log.append((stamp(len(self.log) + 1), ChangelogEntry(key=key, committed=committed)))
        for listener in list(self.listeners):
            listener()


def actor_system(
    node: object, store: Store, clock: Clock, metrics: Metrics, config: PlacementConfig = NO_CONFIG
) -> ActorSystem:
    """What is at the addresses of actors and envoys."""
    me, link, gate = cast(Node, node).me, Link(clock), OpenGate(1)
    identity = Identity(me, keyring_of(SECRET), lambda: 1, gate)
    authenticator = Authenticator(Verifier(me, SECRET), gate)
    return ActorSystem(
        *(cast(Node, node), store, clock, SystemDice(), config, link, None, metrics, identity, authenticator)
    )


def whole_api(node: FakeNode) -> Api:
    """Everything a node serves, in front of a node that says what it is told to. Backups, scrubs, probes, the
    world and samples are in its table only: they have tests of their own."""
    metrics = Metrics()
    actors = actor_system(node, MemoryStore(), StillClock(), metrics).routes()
    backups, scrubs = BackupRoutes(cast(Backups, None)).table(), ScrubRoutes(cast(Scrubber, None)).table()
    probes = ProbeRoutes(cast(Probe, None)).table()
    signatures = OperatorSignatures(Verifier(node.me, SECRET))
    auth = AuthRoutes(node.access, signatures).table()
    links = LinkRoutes(Link(StillClock()), signatures, frozenset).table()
    feeds = [*LeaseRoutes(cast(Leases, None), node.peek).table(), *TransactionRoutes(cast(Node, node)).table()]
    console = ConsoleInfoRoutes(node, node.settings).table()
    world = WorldRoutes(cast(Callable[[], World], None)).table()
    samples = SampleRoutes(cast(CommitSampler, None), node.access).table()
    past = MembersHistoryRoutes(node, cast(Any, None), cast(Any, None)).table()
    elect = ElectRoutes(cast(Look, None)).table()
    more = [*actors, *backups, *scrubs, *probes, *auth, *links, *feeds, *console, *past, *elect, *world, *samples]
    return Api(node, metrics, more=more)


class Wire:
    """A connection with one exchange on it. Reads everything at once, unless it is told to `choke`."""

    def __init__(self, request: HttpRequest) -> None:
        self.certified = False
        self.address = "127.0.0.1"
        self.certificate_names: tuple[str, ...] = ()
        self.is_busy = False
        self.kept: list[bytes] = []
        self.exchange = transport.Exchange(request, self, False)
        self.sent = b""
        self.choked = False
        self.stream: transport.Stream | None = None
        self._headers: dict[str, str] = {}
        self._body = b""

    on_trial = False

    def abort(self) -> None:
        self.exchange.lost()

    def mark_as_operator(self) -> bool:
        return True

    def advance(self) -> None:
        self.sent += b"".join(self.exchange.take())

    def count_unsent(self, size: int) -> None:
        pass

    def stall(self) -> None:
        raise AssertionError("it is never busy here")

    def mark_as_peer(self) -> None:
        raise AssertionError("no peer connects here")

    def switch(self, exchange: transport.Exchange, session: object, handler: object) -> None:  # noqa: ARG002
        raise AssertionError("no peer connects here")

    def upgrade(self, exchange: transport.Exchange, protocol: UpgradedProtocol) -> None:  # noqa: ARG002
        raise AssertionError("nobody speaks anything but HTTP here")

    def cache_response(self, exchange: transport.Exchange, answer: bytes, lasting: tuple[bytes, ...]) -> None:
        assert exchange is self.exchange
        assert lasting
        self.kept.append(answer)

    def shrink(self, exchange: transport.Exchange, size: int) -> None:
        exchange.size -= size

    def attach_stream(self, stream: transport.Stream) -> None:
        self.stream = stream
        self.advance()

    def flowing(self, exchange: transport.Exchange) -> bool:
        return exchange is self.exchange and not self.choked

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def answer(self) -> Answer:
        """Everything sent so far, parsed."""
        self._headers, self._body = {}, b""
        parser = httptools.HttpResponseParser(self)
        parser.feed_data(self.sent)
        return Answer(parser.get_status_code(), self._headers, self._body)


def request(method: str, target: str, body: bytes | None = None, **headers: str) -> HttpRequest:
    path, _, query = target.encode("latin-1").partition(b"?")
    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    if body is not None:
        named[b"content-length"] = b"%d" % len(body)
    return HttpRequest(method, path, query, named, body or b"")


def ask(api: transport.Handler, method: str, target: str, body: bytes | None = None, **headers: str) -> Answer:
    """One request, answered at once."""
    wire = Wire(request(method, target, body, **headers))
    api(wire.exchange)
    return wire.answer()


# A cluster in one process


class Hall(PromptLinks):
    """Messages between nodes of one process: in order, never lost, unless a node is `cut` off."""

    def __init__(self, me: int, hall: dict[int, Node]) -> None:
        self.sent = 0
        self.cut = False
        self._me = me
        self._hall = hall
        self._loop = asyncio.get_running_loop()

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        self.sent += 1
        if self.cut:
            self._answer(answered, Failed(reason="cut off"))
        else:
            self._loop.call_soon(self._hall[to].replica.handle, requests, partial(self._answer, answered))

    def _answer(self, answered: Callable[[Reply], None] | None, reply: Reply) -> None:
        if answered is not None:
            self._loop.call_soon(answered, reply)

    def rtt_ms(self, peer: int) -> float | None:  # noqa: ARG002 (all are equally near)
        return 0.1

    def reachable(self, peer: int) -> bool:  # noqa: ARG002 (cut off from all, or from none)
        return not self.cut

    def trouble(self, peer: int) -> str:
        return "" if self.reachable(peer) else "gone"


def settings(me: int, ids: Sequence[int]) -> Settings:
    members = tuple(MemberSetting(id=i, datacenter=f"region-{i}", url=f"http://node-{i}") for i in ids)
    return Settings(
        node=NodeSettings(
            id=me,
            datacenter=f"region-{me}",
            data_dir=Path("unused"),
            http=Address("127.0.0.1", 0),
            resp=None,
            advertise_url=f"http://node-{me}",
        ),
        cluster=ClusterSettings(members=members, quorum_policy=QuorumPolicy.OPTIMAL, secret_file=Path("unused")),
        tls=None,
        limits=Limits(
            connections=100,
            pipeline=100,
            writes_in_flight=1000,
            reads_in_flight=1000,
            request_timeout_ms=10_000,
            peer_queue=1000,
        ),
    )


class Served:
    """A node and its API."""

    def __init__(self, node: Node, links: Hall) -> None:
        self.node = node
        self.links = links
        self.metrics = Metrics()
        self.actors = actor_system(node, node._store, node.clock, self.metrics)
        feeds = [*LeaseRoutes(node.leases, node.peek).table(), *TransactionRoutes(node).table()]
        self.api = Api(node, self.metrics, more=[*self.actors.routes(), *feeds])
        self.connections = Connections(limit=100)
        self.port = 0

    async def open(self, limits: HttpLimits) -> Listener:
        server = await serve_http(self.api, "127.0.0.1", 0, limits=limits, connections=self.connections)
        self.port = server.sockets[0].getsockname()[1]
        return server

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, target: str, body: bytes | None = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        try:
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, target, body, named)
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()


class Cluster:
    """Its event loop has a thread of its own, so that tests may block as clients do."""

    def __init__(self, n: int, limits: HttpLimits) -> None:
        self._n = n
        self._limits = limits
        self._loop = asyncio.new_event_loop()
        self.served: list[Served] = []

    def run(self, up: "Future[None]") -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._main(up))

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._over.set)

    def call(self, work: Callable[[], Any]) -> Any:
        """Do something in the loop's thread."""
        done: Future[Any] = Future()
        self._loop.call_soon_threadsafe(lambda: done.set_result(work()))
        return done.result(PATIENCE_S)

    def every(self, seconds: float, work: Callable[[], None]) -> None:
        """Again and again, in the loop's thread, as long as the cluster runs."""

        def again() -> None:
            work()
            self._loop.call_later(seconds, again)

        self.call(again)

    async def _main(self, up: "Future[None]") -> None:
        self._over = asyncio.Event()
        ids = range(1, self._n + 1)
        hall: dict[int, Node] = {}
        for me in ids:
            links = Hall(me, hall)
            clock = LoopClock(asyncio.get_running_loop())
            hall[me] = Node(settings(me, ids), MemoryStore(), links, clock, SystemDice(), alarm=self._alarm)
            self.served.append(Served(hall[me], links))
            hall[me].start()
            self.served[-1].actors.start()
        servers = [await each.open(self._limits) for each in self.served]
        up.set_result(None)
        await self._over.wait()
        for each, server in zip(self.served, servers, strict=True):
            server.close()
            each.api.close()
            each.actors.stop()
            await each.connections.drain(grace_s=1.0)

    def _alarm(self, text: str) -> None:
        raise AssertionError(text)


@contextmanager
def running(n: int = 3, limits: HttpLimits | None = None) -> Iterator[Cluster]:
    cluster = Cluster(n, limits or HttpLimits())
    up: Future[None] = Future()
    thread = threading.Thread(target=cluster.run, args=(up,))
    thread.start()
    try:
        up.result(PATIENCE_S)
        yield cluster
    finally:
        cluster.stop()
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
