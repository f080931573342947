"""One datacenter that hosts actors, in virtual time, with envoys that do what a test says."""

from collections.abc import Callable

from epoxy.actors.hosting import Hosting
from epoxy.actors.messages import Ensure, Found, Question, Verdict
from epoxy.actors.reservation import Reservations, key_of
from epoxy.actors.service import ActorService
from epoxy.model.actors import ActorEntry, ActorName, EnvoyHello, Held, ToEnvoy, Welcome, make_id
from epoxy.model.records import Proposal, ProposalId
from epoxy.model.writes import (
    Committed,
    Consistency,
    ExpectedValueDoesNotMatch,
    Outcome,
    Path,
    ReadAnswer,
    ReadResult,
    Source,
    Write,
)
from epoxy.protocol.placement.config import PlacementConfig
from epoxy.protocol.placement.records import EnvoyId
from epoxy.protocol.placement.service import Placement
from epoxy.store.memory import MemoryStore
from tests.protocol.placement.bench import NOW_MS, Clock, Dice

HERE, THERE = 1, 2
NAME = ActorName("prod", "room", "lobby")


class Keys:
    """The per-key engine, with what others have written. `late`: answers wait until the test lets them go."""

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self.elsewhere: dict[bytes, bytes] = {}
        self.writes: list[Write] = []
        self.reads: list[bytes] = []
        self.late: list[Callable[[], None]] | None = None
        self.outcome: Outcome | None = None
        self.answer: ReadAnswer | None = None

    def peek(self, key: bytes) -> ReadResult | None:
        value = self.values.get(key)
        return None if value is None else ReadResult(committed=proposal(value), source=Source.LOCAL)

    def read(self, key: bytes, consistency: Consistency, answered: Callable[[ReadAnswer], None]) -> None:
        assert consistency is Consistency.OPTIMISTIC
        self.reads.append(key)
        value = self.elsewhere.get(key)
        found = ReadResult(committed=proposal(value) if value is not None else None, source=Source.REMOTE)
        answered(self.answer or found)

    def write(self, write: Write, answered: Callable[[Outcome], None]) -> None:
        self.writes.append(write)

        def decide() -> None:
            answered(self.outcome or self._decide(write))

        if self.late is None:
            decide()
        else:
            self.late.append(decide)

    def _decide(self, write: Write) -> Outcome:
        assert write.value is not None
        held = self.elsewhere.get(write.key) or self.values.get(write.key) or write.value
        self.values[write.key] = held
        if held == write.value:
            return Committed(proposal=proposal(held), mine=True, path=Path.FAST)
        return ExpectedValueDoesNotMatch(committed=proposal(held), path=Path.FAST)


def proposal(value: bytes) -> Proposal:
    return Proposal(value=value, version=1, mutable=False, proposal_id=ProposalId(1, 1))


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
    def __init__(self) -> None:
        self.asked: list[tuple[int, Question]] = []
        self.verdict: Verdict | None = None

    def ask(self, label: int, question: Question, answered: Callable[[Verdict | None], None]) -> None:
        self.asked.append((label, question))
        answered(self.verdict)


class Datacenter:
    def __init__(self, store: MemoryStore | None = None, config: PlacementConfig | None = None) -> None:
        self.store = store or MemoryStore()
        self.clock = Clock()
        self.keys = Keys()
        self.relay = Relay()
        self.placement = Placement(self.store, config or PlacementConfig(), self.clock, Dice(), NOW_MS)
        self.hosting = Hosting(self.store, self.placement, self.clock, Dice(1), "here", HERE)
        self.actors = ActorService(Reservations(self.keys, Dice(2), HERE), self.hosting, self.relay, HERE)
        self.hosting.start()

    def ask(self, question: Question, *, relayed: bool = False) -> Verdict:
        told: list[Verdict] = []
        self.actors.ask(question, told.append, relayed=relayed)
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


def reserve_there(keys: Keys, name: ActorName = NAME, *, known: bool = True) -> bytes:
    """Another datacenter holds the name."""
    actor_id = make_id(5, 7, THERE)
    (keys.values if known else keys.elsewhere)[key_of(name)] = actor_id
    return actor_id
