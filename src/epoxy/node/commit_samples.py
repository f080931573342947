"""Timelines of some of this node's writes, for readers that watch them.

A trace sees a write from outside: the driver hands it the write and the end of it, and a transport in front of the
driver's own sees the requests that leave and the answers that come. Both are put in only while there is a reader, and
then only for as long as one write is awaited or traced: between two samples the driver and its transport are what they
are without readers. Without a reader nothing is put in (decision 0071).
"""

from collections.abc import Callable, Sequence
from functools import partial
from time import time

from epoxy.codec.txn_json import quoted
from epoxy.model.api_world import CommitSample, SampledMessage
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.messages import Accept, AcceptOk, Carry, Commit, Prepare, Reply, Request
from epoxy.model.records import ProposalId
from epoxy.model.writes import Committed, ConsensusFailed, Outcome, Path, Refused, Write
from epoxy.node.keys.driver import Driver
from epoxy.ports import Timer, Transport

SAMPLE_EVERY_MS = 50.0
"""At most twenty a second: more than an eye follows, and a tenth of a percent of a busy node's time."""

MAX_TRACES = 64
"""Writes that are traced at a time. At twenty a second, three seconds of writes that wait for a quorum."""

MAX_TRACED_MESSAGES = 128
"""Of one write: eight rounds to the eight others of nine replicas, and their commits."""

LATE_MS = 1_000.0
"""How long a trace waits, after its client was answered, for votes that were not needed: those of the farthest."""

Answered = Callable[[Outcome], None]
Sink = Callable[[CommitSample], None]

TracedRequest = Accept | Prepare | Commit | Carry
KINDS: dict[type, str] = {Accept: "vote", Prepare: "promise", Commit: "commit", Carry: "carry"}


class SampleReader:
    """`wants`: whether the reader may read this key."""

    def __init__(self, wants: Callable[[bytes], bool], take: Sink) -> None:
        self.wants = wants
        self.take = take


class CommitSampler:
    """Of one node. `floor_ms`: at the moment."""

    def __init__(
        self, driver: Driver, floor_ms: Callable[[], float | None], wall_s: Callable[[], float] = time
    ) -> None:
        self.driver = driver
        self.clock = driver.clock
        self.wall_s = wall_s
        self.floor_ms = floor_ms
        self._readers: list[SampleReader] = []
        self._traces: dict[bytes, Trace] = {}
        """Of writes that are not answered yet, by key."""
        self._late = 0
        """Traces of answered writes, which wait for votes."""
        self._awaiting: Timer | None = None
        self._transport: Transport | None = None
        """The driver's own, while another is in front of it."""

    @property
    def is_idle(self) -> bool:
        """Whether the driver is as it is without readers."""
        return self.driver.sampled is None and self._transport is None and self._awaiting is None

    def subscribe(self, reader: SampleReader) -> Callable[[], None]:
        """Returns the function that ends it."""
        self._readers.append(reader)
        if len(self._readers) == 1:
            self._arm()
        return partial(self._unsubscribe, reader)

    def _unsubscribe(self, reader: SampleReader) -> None:
        if reader not in self._readers:
            return
        self._readers.remove(reader)
        if not self._readers:
            self.driver.sampled = None
            self._traces.clear()
            self._look_away()
            if self._awaiting is not None:
                self._awaiting.cancel()
                self._awaiting = None

    def _arm(self) -> None:
        """The next write that a reader may see is traced."""
        self._awaiting = None
        self.driver.sampled = self._begin

    def _begin(self, write: Write, answered: Answered) -> Answered:
        """Called by the driver, while armed, with each write."""
        key = write.key
        if key >= FIRST_SYSTEM_KEY or key in self._traces or len(self._traces) + self._late >= MAX_TRACES:
            return answered
        if not any(reader.wants(key) for reader in self._readers):
            return answered
        self.driver.sampled = None
        self._awaiting = self.clock.call_later(SAMPLE_EVERY_MS, self._arm)
        trace = self._traces[key] = Trace(self, key)
        if self._transport is None:
            self._transport, self.driver.transport = self.driver.transport, Tap(self.driver.transport, self._traces)
        return partial(self._answered, trace, answered)

    def _answered(self, trace: "Trace", answered: Answered, outcome: Outcome) -> None:
        """The client comes first."""
        answered_ms = self.clock.now_ms()
        try:
            answered(outcome)
        finally:
            if self._traces.get(trace.key) is trace:
                del self._traces[trace.key]
                if not self._traces:
                    self._look_away()
                self._late += 1
                trace.ended(outcome, answered_ms)

    def _look_away(self) -> None:
        if self._transport is not None:
            self.driver.transport, self._transport = self._transport, None

    def complete(self, trace: "Trace") -> None:
        self._late -= 1
        sample = trace.sample()
        for reader in tuple(self._readers):
            if reader.wants(trace.key):
                reader.take(sample)


class Tap:
    """In front of the driver's transport, while a write is traced."""

    def __init__(self, inner: Transport, traces: "dict[bytes, Trace]") -> None:
        self._inner = inner
        self._traces = traces

    def send(self, to: int, requests: Sequence[Request], answered: Callable[[Reply], None] | None) -> None:
        last = requests[-1]
        if isinstance(last, TracedRequest):
            trace = self._traces.get(last.key)
            if trace is not None:
                answered = trace.sent(to, last, answered)
        self._inner.send(to, requests, answered)


class Exchanged:
    """A request to one replica, and when it was answered."""

    __slots__ = ("answer", "heard_ms", "request", "sent_ms", "to")

    def __init__(self, to: int, request: TracedRequest, sent_ms: float) -> None:
        self.to = to
        self.request = request
        self.sent_ms = sent_ms
        self.heard_ms: float | None = None
        self.answer: Reply | None = None

    @property
    def is_awaited(self) -> bool:
        """A Commit has no answer."""
        return self.answer is None and not isinstance(self.request, Commit)


class Trace:
    """One write. Requests about its key belong to it: there is one round of a key at a time. If the write had to wait,
    those of the rounds before its own are left out at the end."""

    def __init__(self, sampler: CommitSampler, key: bytes) -> None:
        self.key = key
        self._sampler = sampler
        self._began_s, self._began_ms = sampler.wall_s(), sampler.clock.now_ms()
        self._floor_ms = sampler.floor_ms()
        replica = sampler.driver.replica
        self._quorums = replica.config.quorums
        self._waited = replica.queued(key)[1] > 0
        self._exchanged: list[Exchanged] = []
        self._outcome: Outcome | None = None
        self._answered_ms = 0.0
        self._giving_up: Timer | None = None
        self._over = False

    def sent(
        self, to: int, request: TracedRequest, answered: Callable[[Reply], None] | None
    ) -> Callable[[Reply], None] | None:
        if len(self._exchanged) >= MAX_TRACED_MESSAGES:
            return answered
        exchanged = Exchanged(to, request, self._sampler.clock.now_ms())
        self._exchanged.append(exchanged)
        return partial(self._heard, exchanged, answered) if answered is not None else None

    def _heard(self, exchanged: Exchanged, answered: Callable[[Reply], None], reply: Reply) -> None:
        exchanged.heard_ms, exchanged.answer = self._sampler.clock.now_ms(), reply
        answered(reply)
        if self._outcome is not None:
            self._look()

    def ended(self, outcome: Outcome, answered_ms: float) -> None:
        self._outcome, self._answered_ms = outcome, answered_ms
        if self._waited and isinstance(outcome, Committed) and outcome.mine:
            self._exchanged = from_first_with(outcome.proposal.proposal_id, self._exchanged)
        self._giving_up = self._sampler.clock.call_later(LATE_MS, self._complete)
        self._look()

    def _look(self) -> None:
        if not any(exchanged.is_awaited for exchanged in self._exchanged):
            self._complete()

    def _complete(self) -> None:
        if not self._over and self._giving_up is not None:
            self._over = True
            self._giving_up.cancel()
            self._sampler.complete(self)

    def sample(self) -> CommitSample:
        outcome = self._outcome
        assert outcome is not None, "a sample is of a write that has ended"
        path = None if isinstance(outcome, ConsensusFailed | Refused) else outcome.path
        sent, votes = self._exchanged, [each for each in self._exchanged if isinstance(each.request, Accept)]
        told = [each for each in sent if isinstance(each.request, Commit)]
        carried = [each for each in sent if isinstance(each.request, Carry)]
        return CommitSample(
            key=quoted(self.key),
            at=round(self._began_s, 3),
            home=self._sampler.driver.replica.me,
            outcome=type(outcome).__name__,
            path="none" if path is None else path.value,
            carried_to=carried[-1].to if carried and not votes else None,
            writes=writes_in(votes[-1].request) if votes else 1,
            floor_ms=None if self._floor_ms is None else round(self._floor_ms, 3),
            voted_ms=self._since(votes[0].sent_ms) if votes else None,
            decided_ms=self._decided(votes, path),
            told_ms=self._since(told[0].sent_ms) if told else None,
            answered_ms=self._since(self._answered_ms),
            messages=[self._message(each) for each in sent],
        )

    def _since(self, at_ms: float) -> float:
        return round(at_ms - self._began_ms, 3)

    def _decided(self, votes: list[Exchanged], path: Path | None) -> float | None:
        """When the quorum was complete: this replica's own vote, and so many of others in the last round. None: another
        replica decided it, or this one alone."""
        if not votes:
            return None
        need = self._quorums.fast if path is Path.FAST else self._quorums.slow
        last = votes[-1].request
        heard = [each.heard_ms for each in votes if each.request is last and isinstance(each.answer, AcceptOk)]
        times = sorted([at_ms for at_ms in heard if at_ms is not None])
        return self._since(times[need - 2]) if 2 <= need <= len(times) + 1 else None

    def _message(self, each: Exchanged) -> SampledMessage:
        request = each.request
        return SampledMessage(
            kind=KINDS[type(request)],
            to=each.to,
            fast=isinstance(request, Accept) and request.ballot.is_fast,
            sent_ms=self._since(each.sent_ms),
            heard_ms=None if each.heard_ms is None else self._since(each.heard_ms),
            answer="" if each.answer is None else type(each.answer).__name__,
        )


def from_first_with(write: ProposalId, exchanged: list[Exchanged]) -> list[Exchanged]:
    """From the first request on that has this write in it, and the promises that were asked for just before."""
    first = next((i for i, each in enumerate(exchanged) if is_in(write, each.request)), len(exchanged))
    while first > 0 and isinstance(exchanged[first - 1].request, Prepare):
        first -= 1
    return exchanged[first:]


def is_in(write: ProposalId, request: TracedRequest) -> bool:
    match request:
        case Accept() | Commit():
            return write == request.proposal.proposal_id or write in request.proposal.folded
        case Carry():
            return write in [carried.proposal_id for carried in request.writes]
        case Prepare():
            return False


def writes_in(request: TracedRequest) -> int:
    return 1 + len(request.proposal.folded) if isinstance(request, Accept) else 1
