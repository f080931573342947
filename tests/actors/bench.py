"""One datacenter that hosts actors, in virtual time, with envoys that do what a test says."""

from collections.abc import Callable

from epoxy.actors.asks import Asks
from epoxy.actors.datacenter_lease import HomeLease
from epoxy.actors.home_changes import HomeChanges
from epoxy.actors.hosting import Hosting
from epoxy.actors.messages import Ensure, Found, Question, Verdict
from epoxy.actors.relaying import Withdraw
from epoxy.actors.service import ActorService
from epoxy.actors.streams import StreamEnd
from epoxy.codec.home_records import encode, reservation_key
from epoxy.model.actors import ActorEntry, ActorName, make_id
from epoxy.model.envoy_messages import EnvoyHello, Held, ToEnvoy, Welcome
from epoxy.model.homes import DATACENTER_KEYS, DatacenterLease, HomeRecord, datacenter_key
from epoxy.model.records import Proposal, ProposalId
from epoxy.model.writes import (
    Committed,
    Consistency,
    ExpectedValueDoesNotMatch,
    NothingToDelete,
    Outcome,
    Path,
    ReadAnswer,
    ReadResult,
    Source,
    VersionMismatch,
    Write,
)
from epoxy.protocol.placement.config import PlacementConfig
from epoxy.protocol.placement.records import EnvoyId
from epoxy.protocol.placement.service import Placement
from epoxy.runtime.admission import Caller
from epoxy.store.memory import MemoryStore
from tests.protocol.placement.bench import NOW_MS, Clock, Dice

HERE, THERE = 1, 2
NAME = ActorName("prod", "room", "lobby")


class MutableKeys:
    """Mutable keys with versions, as far as homes and states need them."""

    def __init__(self) -> None:
        self.held: dict[bytes, Proposal] = {}

    def peek(self, key: bytes) -> ReadResult | None:
        held = self.held.get(key)
        return None if held is None else ReadResult(committed=held, source=Source.LOCAL)

    def decide(self, write: Write) -> Outcome:
        held = self.held.get(write.key)
        value = held.value if held is not None else None
        version = held.version if held is not None else 0
        if write.if_version not in (None, version):
            return VersionMismatch(committed=held, path=Path.SLOW)
        if write.if_absent and value is not None:
            assert held is not None
            return ExpectedValueDoesNotMatch(committed=held, path=Path.SLOW)
        if value is None and (write.touch or write.is_delete):
            return NothingToDelete(committed=held, path=Path.SLOW)
        after = Proposal(
            value=value if write.touch else write.value,
            version=version + 1,
            mutable=True,
            proposal_id=ProposalId(1, version + 1),
        )
        self.held[write.key] = after
        return Committed(proposal=after, mine=True, path=Path.FAST)


class Keys:
    """The per-key engine. `values` are known here; `elsewhere`, only to others. `late`: answers wait until a test lets
    them go. `outcome` and `answer` are given in place of the true ones, but for leases."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.mutable = MutableKeys()
        self.elsewhere: dict[bytes, bytes] = {}
        self.all_writes: list[Write] = []
        self.reads: list[bytes] = []
        self.late: list[Callable[[], None]] | None = None
        self.outcome: Outcome | None = None
        self.answer: ReadAnswer | None = None

    @property
    def writes(self) -> list[Write]:
        """Without those of leases."""
        return [write for write in self.all_writes if not write.key.startswith(DATACENTER_KEYS)]

    def peek(self, key: bytes) -> ReadResult | None:
        held = self._held(key)
        return ReadResult(committed=held, source=Source.LOCAL) if held is not None else None

    def value(self, key: bytes) -> bytes | None:
        held = self._held(key)
        return held.value if held is not None else None

    def _held(self, key: bytes) -> Proposal | None:
        value = self.values.get(key)
        return proposal(value) if value is not None else self.mutable.held.get(key)

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None:  # noqa: ARG002
        if key.startswith(DATACENTER_KEYS):
            answered(ReadResult(committed=self._committed(key), source=Source.QUORUM))
            return
        self.reads.append(key)
        answered(self.answer or ReadResult(committed=self._committed(key), source=Source.REMOTE))

    def write(self, write: Write, answered: Callable[[Outcome], None], caller: Caller | None = None) -> None:  # noqa: ARG002
        self.all_writes.append(write)
        is_lease = write.key.startswith(DATACENTER_KEYS)

        def decide() -> None:
            answered((None if is_lease else self.outcome) or self._decide(write))

        if self.late is None or is_lease:
            decide()
        else:
            self.late.append(decide)

    def end(self, key: bytes) -> None:
        """A value with a time to live is over."""
        held = self._held(key)
        assert held is not None
        self.values.pop(key, None)
        self.mutable.held[key] = proposal(None, held.version + 1)

    def _committed(self, key: bytes) -> Proposal | None:
        value = self.elsewhere.get(key)
        return proposal(value) if value is not None else self._held(key)

    def _decide(self, write: Write) -> Outcome:
        before = self._committed(write.key)
        if write.mutable:
            self.elsewhere.pop(write.key, None)
            if self.values.pop(write.key, None) is not None and before is not None:
                self.mutable.held[write.key] = before
            return self.mutable.decide(write)
        assert write.value is not None
        held = before.value if before is not None and before.value is not None else write.value
        self.elsewhere.pop(write.key, None)
        self.values[write.key] = held
        if held == write.value:
            return Committed(proposal=proposal(held), mine=True, path=Path.FAST)
        return ExpectedValueDoesNotMatch(committed=proposal(held), path=Path.FAST)


def proposal(value: bytes | None, version: int = 1) -> Proposal:
    return Proposal(value=value, version=version, mutable=True, proposal_id=ProposalId(1, 1))


class Envoy:
    """A Session that remembers what it was told."""

    def __init__(self) -> None:
        self.heard: list[ToEnvoy] = []
        self.closed = False

    def send(self, message: ToEnvoy) -> None:
        self.heard.append(message)

    def close(self, reason: str = "") -> None:  # noqa: ARG002
        self.closed = True

    def take(self) -> list[ToEnvoy]:
        heard, self.heard = self.heard, []
        return [word for word in heard if not isinstance(word, Welcome)]


class Relay:
    """`silent`: what is asked waits. `sent`: it has left."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, Question]] = []
        self.verdict: Verdict | None = None
        self.verdicts: list[Verdict | None] = []
        self.silent = False
        self.sent = True
        self.streams: list[StreamEnd] = []
        self.late: list[Callable[[Verdict | None], None]] = []
        self.withdrawn = 0

    def ask(
        self,
        label: int,
        question: Question,
        answered: Callable[[Verdict | None], None],
        stream: StreamEnd | None = None,
    ) -> Withdraw:
        self.asked.append((label, question))
        if stream is not None:
            self.streams.append(stream)
            stream.opened(lambda _: None)
        if self.silent:
            self.late.append(answered)
        else:
            answered(self.verdicts.pop(0) if self.verdicts else self.verdict)
        return self._withdraw

    def _withdraw(self) -> bool:
        self.withdrawn += 1
        return not self.sent


class Datacenter:
    def __init__(
        self,
        store: MemoryStore | None = None,
        config: PlacementConfig | None = None,
        label: int = HERE,
        keys: Keys | None = None,
    ) -> None:
        self.store = store or MemoryStore()
        self.clock = Clock()
        self.keys = keys or Keys()
        self.label = label
        self.relay = Relay()
        self.placement = Placement(self.store, config or PlacementConfig(), self.clock, Dice(), NOW_MS)
        self.hosting = Hosting(self.store, self.placement, self.clock, Dice(1), "here", label, self.keys)
        self.lease = HomeLease(self.keys, self.store, self.clock, Dice(3 + 10 * label), label, 30_000)
        self.lease.host(self.hosting)
        self.changes = HomeChanges(self.keys, self.store, self.lease, self.hosting, Dice(2 + 10 * label), label)
        self.changes.members = lambda: (HERE, THERE, 3)
        self.actors = ActorService(self.changes, self.relay)
        self.asks = Asks(self.actors)
        self.hosting.start()
        self.lease.start()

    def ask(self, question: Question, *, relayed: bool = False, after_ms: float = 0) -> Verdict:
        told: list[Verdict] = []
        self.actors.ask(question, told.append, relayed=relayed)
        self.clock.advance(after_ms)
        (verdict,) = told
        return verdict

    def ensure(self, name: ActorName = NAME, *, exclusive: bool = False, given: bytes = b"") -> Verdict:
        return self.ask(Ensure(name=name, pool="web", input=given, exclusive=exclusive))

    def made(self, key: str = "lobby") -> ActorEntry:
        verdict = self.ensure(ActorName("prod", "room", key))
        assert isinstance(verdict, Found)
        return verdict.actor

    def connect(self, key: str, *, slots: int = 0, running: tuple[Held, ...] = (), incarnation: str = "") -> Envoy:
        session = Envoy()
        hello = EnvoyHello(
            namespace="prod", pool="web", envoy_key=key, slots=slots, running=running, incarnation=incarnation
        )
        self.hosting.connect(hello, session)
        self.clock.advance(1)
        return session

    def beat(self, *keys: str, ms: int) -> None:
        """Time passes, and these envoys ping."""
        for _ in range(0, ms, 1_000):
            self.clock.advance(1_000)
            for key in keys:
                assert self.hosting.ping(EnvoyId("prod", key), 1)

    def look(self, actor: ActorEntry) -> ActorEntry:
        found = self.hosting.get(actor.id.hex())
        assert found is not None
        return found


def give_lease(keys: Keys, label: int = THERE, pools: tuple[tuple[str, str], ...] = (("prod", "web"),)) -> bytes:
    """Another datacenter hosts actors."""
    incarnation = bytes([label]) * 16
    keys.values[datacenter_key(label)] = encode(DatacenterLease(incarnation=incarnation, pools=pools))
    return incarnation


def reserve_there(keys: Keys, name: ActorName = NAME, *, known: bool = True) -> bytes:
    """Another datacenter is the home of the name."""
    actor_id = make_id(5, 7, THERE)
    record = HomeRecord(actor_id=actor_id, label=THERE, lease=give_lease(keys), pool="web", create_ts=NOW_MS)
    (keys.values if known else keys.elsewhere)[reservation_key(name)] = encode(record)
    return actor_id
