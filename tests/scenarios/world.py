"""A few replicas around one table: production code, and a network that moves only when told to."""

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec
from msgspec import Struct

from epoxy.model.cluster import ClusterConfig
from epoxy.model.messages import Inspect, Inspected, KeyRequest, Reply, Request
from epoxy.model.records import FRESH, KeyState, Proposal
from epoxy.model.writes import Committed, Outcome, ReadOutcome, ReadResult, Source
from epoxy.protocol.effects import Adopt, Answer, Context, Timing
from epoxy.protocol.keys import acceptor, local
from epoxy.protocol.keys.effects import Flow
from epoxy.protocol.keys.operations import Cache, LocalOp, Peek
from epoxy.protocol.keys.proposer import FoldIntent
from tests.scenarios import prose
from tests.scenarios.flow_table import FlowTable, Running
from tests.scenarios.table import ScenarioError

KEY = b"k"
"""One scenario, one key: keys never meet, so a second one would only add noise."""

WriteOrRead = Flow[Outcome] | Flow[ReadOutcome] | Flow[FoldIntent]


class Packet(Struct, kw_only=True):
    """One way of one exchange. `flow` None: nobody waits for an answer."""

    requests: tuple[Request, ...] = ()
    reply: Reply | None = None
    flow: "Running | None" = None
    round: int = 0

    def __str__(self) -> str:
        return prose.reply(self.reply) if self.reply is not None else prose.requests(self.requests)


class Replica(Struct, kw_only=True, eq=False):
    """What survives a crash, and the flows that do not."""

    id: int
    config: ClusterConfig
    keys: dict[bytes, KeyState] = msgspec.field(default_factory=dict)
    cache: dict[bytes, Proposal] = msgspec.field(default_factory=dict)
    running: list[Running] = msgspec.field(default_factory=list)
    nonces: int = 0
    up: bool = True

    def uniform(self) -> float:
        return 0.0

    def nonce(self) -> int:
        self.nonces += 1
        return self.nonces

    def context(self) -> Context:
        return Context(me=self.id, config=self.config, dice=self, timing=Timing())


class Witness(Protocol):
    """Sees what clients see."""

    def asked(self, running: Running) -> None: ...

    def answered(self, running: Running, outcome: Outcome | ReadOutcome) -> None: ...


class World(FlowTable):
    def __init__(self, config: ClusterConfig, say: Callable[[str], None]) -> None:
        super().__init__(say)
        self.replicas = {i: Replica(id=i, config=config) for i in config.replica_ids}
        self.witness: Witness | None = None
        self._decided: dict[int, Proposal] = {}

    @property
    def names(self) -> list[int]:
        return list(self.replicas)

    def tell_state(self) -> None:
        for replica in self.replicas.values():
            down = "" if replica.up else " (down)"
            cached = f", cached {prose.proposal(replica.cache[KEY])}" if KEY in replica.cache else ""
            self.say(f"{prose.name(replica.id)}{down}: {prose.state(replica.keys.get(KEY, FRESH))}{cached}")

    # Flows

    def start(self, owner: int, begin: Callable[[Context], WriteOrRead]) -> None:
        replica = self.replicas[owner]
        if not replica.up:
            raise ScenarioError(f"{prose.name(owner)} is down")
        running = Running(owner=owner, steps=begin(replica.context()))
        replica.running.append(running)
        if self.witness is not None:
            self.witness.asked(running)
        self.resume(running, None)

    def finish(self, running: Running, outcome: Outcome | ReadOutcome) -> None:
        self.replicas[running.owner].running.remove(running)
        self.say(f"{prose.name(running.owner)} answers its client: {prose.outcome(outcome)}")
        if isinstance(outcome, Committed):
            self._agree(outcome.proposal)
        if self.witness is not None:
            self.witness.answered(running, outcome)

    def perform_local(self, owner: int, op: LocalOp) -> object:
        result = self._local_result(self.replicas[owner], op)
        self.say(f"{prose.name(owner)} {prose.at_home(op, result)}")
        return result

    def _local_result(self, replica: Replica, op: LocalOp) -> object:
        match op:
            case Peek():
                return self._peek(replica, op)
            case Cache():
                replica.cache[op.key] = op.proposal
                return None
            case Adopt():
                return self._adopt(replica, op.config)
            case _:
                state, result = local.perform(replica.keys.get(op.key, FRESH), op, replica.config)
                self._store(replica, op.key, state)
                return result

    def _peek(self, replica: Replica, op: Peek) -> ReadResult | None:
        committed, cached = replica.keys.get(op.key, FRESH).committed, replica.cache.get(op.key)
        if committed is not None:
            return ReadResult(committed=committed, source=Source.LOCAL)
        if op.use_cache and cached is not None:
            return ReadResult(committed=cached, source=Source.CACHE)
        return None

    def _adopt(self, replica: Replica, config: ClusterConfig) -> ClusterConfig:
        replica.config = max(replica.config, config, key=lambda c: c.epoch)
        return replica.config

    # Replicas

    def _receive(self, replica: Replica, message: Request) -> Reply:
        if isinstance(message, Inspect):
            return inspected(replica.keys.get(message.key, FRESH), replica.config.epoch)
        assert isinstance(message, KeyRequest), "scenarios stay in one epoch"
        state, reply = acceptor.step(replica.keys.get(message.key, FRESH), message, replica.config)
        self._store(replica, message.key, state)
        return reply

    def _store(self, replica: Replica, key: bytes, state: KeyState) -> None:
        before = replica.keys.get(key, FRESH)
        replica.keys[key] = state
        if state.committed is not None and state.committed != before.committed:
            self._agree(state.committed)
            replica.cache.pop(key, None)

    def _agree(self, proposal: Proposal) -> None:
        """One instance, one value, whatever the script does. A scenario has one key."""
        first = self._decided.setdefault(proposal.version, proposal)
        assert first == proposal, f"two values for version {proposal.version}: {first} and {proposal}"

    def _wake(self, replica: Replica, key: bytes) -> None:
        """A pause or a round ends early when its replica learns what the flow waits for."""
        version = replica.keys.get(key, FRESH).version
        for running in list(replica.running):
            if running.pause is not None and running.pause.key == key and running.pause.version <= version:
                self.end_pause(running)
            elif running.awaits is not None and running.awaits.key == key and running.awaits.version <= version:
                self.end_round(running)

    # The network

    def send(
        self, running: Running, verb: str, envelopes: Mapping[int, tuple[Request, ...]], *, waits: bool = True
    ) -> None:
        """Others hear of it when the script says so; a replica asks itself at once."""
        me = running.owner
        self.say_sent(me, verb, envelopes, prose.requests)
        for to, requests in envelopes.items():
            if to == me:
                reply = [self._receive(self.replicas[me], request) for request in requests][-1]
                self.say(f"{prose.name(me)} answers itself: {prose.reply(reply)}")
                running.inbox.append(Answer(me, reply))
            else:
                packet = Packet(requests=requests, flow=running if waits else None, round=running.round)
                self.links.setdefault((me, to), []).append(packet)

    def deliver(self, sender: int, to: int, nth: int) -> None:
        packet = self.take(sender, to, nth)
        replica = self.replicas[to]
        if not replica.up:
            self.say(f"{prose.name(to)} is down, lost: {packet}")
        elif packet.reply is None:
            self._deliver_requests(replica, sender, packet)
        else:
            self._deliver_reply(sender, packet)

    def _deliver_requests(self, replica: Replica, sender: int, packet: Packet) -> None:
        me = prose.name(replica.id)
        reply: Reply | None = None
        for request in packet.requests:
            reply = self._receive(replica, request)
            self.say(f"{me} gets {prose.request(request)}: {prose.reply(reply)}")
        if packet.flow is not None:
            answer = Packet(reply=reply, flow=packet.flow, round=packet.round)
            self.links.setdefault((replica.id, sender), []).append(answer)
        for request in packet.requests:
            assert isinstance(request, KeyRequest | Inspect)
            self._wake(replica, request.key)

    def _deliver_reply(self, sender: int, packet: Packet) -> None:
        running, reply = packet.flow, packet.reply
        assert running is not None
        assert reply is not None
        owner = self.replicas[running.owner]
        if running not in owner.running or not running.waits_for(packet.round):
            self.say(f"{prose.name(owner.id)} no longer waits for {prose.name(sender)}: {prose.reply(reply)}")
            return
        self.say(f"{prose.name(owner.id)} hears from {prose.name(sender)}: {prose.reply(reply)}")
        self.resume(running, Answer(sender, reply))

    # Time and trouble

    def ring(self, owner: int) -> None:
        """The timer of the oldest flow of a replica: of its pause, or of its round."""
        if not self.replicas[owner].running:
            raise ScenarioError(f"{prose.name(owner)} waits for nothing")
        self.ring_for(self.replicas[owner].running[0])

    def crash(self, owner: int) -> None:
        replica = self.replicas[owner]
        if not replica.up:
            raise ScenarioError(f"{prose.name(owner)} is down already")
        lost = len(replica.running)
        replica.up = False
        replica.running.clear()
        self.say(f"{prose.name(owner)} crashes" + (f", clients left without an answer: {lost}" if lost else ""))

    def restart(self, owner: int) -> None:
        replica = self.replicas[owner]
        if replica.up:
            raise ScenarioError(f"{prose.name(owner)} is up")
        replica.up = True
        self.say(f"{prose.name(owner)} is back, with what was on its disk")


def inspected(state: KeyState, epoch: int) -> Inspected:
    return Inspected(
        epoch=epoch,
        committed=state.committed,
        lineage=state.lineage,
        promised=state.promised,
        vote=state.vote,
        cached=None,
        changelog=(),
    )
