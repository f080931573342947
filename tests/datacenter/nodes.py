"""Several nodes of one datacenter on loopback: real links and servers, and keys in a dict."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec

from epoxy.datacenter.link_limits import NodeLinkLimits
from epoxy.datacenter.links import NodeLinks
from epoxy.datacenter.messages import Question
from epoxy.datacenter.routes import Routes
from epoxy.model.messages import AcceptOk, Reply, Request
from epoxy.model.records import Proposal, ProposalId
from epoxy.model.shards import SYSTEM_SHARD
from epoxy.model.transactions import Executed, Txn, TxnOutcome
from epoxy.model.writes import Committed, Consistency, Outcome, Path, ReadAnswer, ReadResult, Source, Write
from epoxy.runtime.clock import LoopClock, SystemDice
from epoxy.store.shared.database import SessionRow
from epoxy.transport.peers.keyring import Keyring
from tests.transport.http.harness import RunningServer, running_server

SECRET = b"a secret of the whole cluster"
REPLICA = 3

PATIENT = NodeLinkLimits(silent_ms=25_000, idle_ms=60_000, queue_ms=25_000, answer_ms=60_000)
"""For what must succeed, however slow the machine."""

HASTY = msgspec.structs.replace(NodeLinkLimits(), tick_ms=20, silent_ms=150, queue_ms=150)
"""For what must fail."""


def proposal_of(write: Write, version: int) -> Proposal:
    return Proposal(value=write.value, version=version, mutable=True, proposal_id=ProposalId(REPLICA, version))


class Owners:
    """A table by hand."""

    def __init__(self, session: int, owned: Sequence[int] = ()) -> None:
        self.session = session
        self.owned = set(owned)
        self.owners: dict[int, int] = {}
        self.looks = 0

    def owner_of(self, shard: int) -> SessionRow | None:
        owner = self.owners.get(shard, 0)
        return SessionRow(owner, f"http://node-{owner}", "1", 1000.0, False) if owner else None

    def look(self) -> None:
        self.looks += 1

    def let_go(self) -> None:
        self.owned.discard(SYSTEM_SHARD)


class Served:
    """Keys in a dict. `holds_back`: which answers wait for `let_go`."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes | None] = {}
        self.asked: list[Any] = []
        self.over: list[bytes] = []
        self.held: list[Callable[[], None]] = []
        self.holds_back: Callable[[Any], bool] = lambda _: False
        self.rests = False
        self.rest_is_slow = False
        self.reply: Callable[[Request], Reply] = lambda _: AcceptOk()

    def _answer(self, question: Any, answered: Callable[[Any], None], answer: Any) -> None:
        self.asked.append(question)
        if self.holds_back(question):
            self.held.append(lambda: answered(answer))
        else:
            answered(answer)

    def let_go(self, place: int = 0) -> None:
        self.held.pop(place)()

    def write(self, write: Write, answered: Callable[[Outcome], None]) -> None:
        self.values[write.key] = write.value
        done = Committed(proposal=proposal_of(write, len(self.asked) + 1), mine=True, path=Path.FAST)
        self._answer(write, answered, done)

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None:
        value = self.values.get(key)
        found = Proposal(value=value, version=1, mutable=True, proposal_id=ProposalId(REPLICA, 1))
        self._answer((key, consistency), answered, ReadResult(committed=found, source=Source.LOCAL))

    def txn(self, txn: Txn, answered: Callable[[TxnOutcome], None]) -> None:
        self._answer(txn, answered, Executed(succeeded=True))

    def ordered_write(self, write: Write, mark: Proposal, answered: Callable[[Outcome], None]) -> None:
        self._answer((write, mark), answered, Committed(proposal=mark, mine=True, path=Path.SLOW))

    def ordered_read(
        self, key: bytes, mark: Proposal, consistency: Consistency, answered: Callable[[ReadAnswer], None]
    ) -> None:
        self._answer((key, mark, consistency), answered, ReadResult(committed=mark, source=Source.QUORUM))

    def handle(self, requests: Sequence[Request], answered: Callable[[Sequence[Reply]], None]) -> None:
        self._answer(requests, answered, [self.reply(request) for request in requests])

    def session_over(self, session: bytes) -> None:
        self.over.append(session)

    def hold(self, rested: Callable[[], None]) -> None:
        self.rests = True
        if self.rest_is_slow:
            self.held.append(rested)
        else:
            rested()

    def release(self) -> None:
        self.rests = False


class NodeHere:
    """One node of the datacenter."""

    def __init__(self, session: int, links: NodeLinks, server: RunningServer) -> None:
        self.session = session
        self.links = links
        self.server = server
        self.owners = Owners(session)
        self.served = Served()
        self.routes = Routes(self.owners, links, self.served, LoopClock(asyncio.get_running_loop()))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def ask(self, session: int, question: Question) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.links.ask(session, question, answer.set_result)
        return answer

    def write(self, write: Write) -> "asyncio.Future[Outcome]":
        answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self.routes.write(write, answer.set_result)
        return answer


@asynccontextmanager
async def node(
    session: int,
    *,
    secret: bytes | Keyring = SECRET,
    replica: int = REPLICA,
    limits: NodeLinkLimits = PATIENT,
    port: int = 0,
) -> AsyncIterator[NodeHere]:
    clock = LoopClock(asyncio.get_running_loop())
    links = NodeLinks(session, replica, secret, clock=clock, dice=SystemDice(), limits=limits)
    async with running_server(links.accept, port=port) as server:
        links.start()
        try:
            yield NodeHere(session, links, server)
        finally:
            await links.stop()


@asynccontextmanager
async def datacenter(count: int, limits: NodeLinkLimits = PATIENT) -> AsyncIterator[list[NodeHere]]:
    """Sessions from 1 on, linked to each other."""
    async with AsyncExitStack() as stack:
        nodes = [await stack.enter_async_context(node(session, limits=limits)) for session in range(1, count + 1)]
        for each in nodes:
            each.links.set_sessions({other.session: other.url for other in nodes})
        yield nodes
