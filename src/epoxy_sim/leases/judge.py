"""The judge of leases. It sees what replicas hold, what clients were told and what they believe, on a clock of its own
that is always right."""

from typing import NamedTuple

from epoxy.model.records import KeyState, Proposal, ProposalId
from epoxy.model.sessions import session_of
from epoxy.model.writes import Outcome, ReadOutcome, ReadResult
from epoxy_sim import history
from epoxy_sim.keys.client import Recorder
from epoxy_sim.keys.judge import Judge
from epoxy_sim.leases.plan import BOUND, LeasePlan
from epoxy_sim.simulation import Violation
from epoxy_sim.trace_format import NAMES, say
from epoxy_sim.world import World

LATE_MS = 4_000.0
"""How much later than its count the end of a value may be decided once faults are over, beside some rounds: the next
look of a machine that was suspended, the turns of the replicas before, an attempt that failed."""

LATE_ROUNDS = 10

IMPATIENT_MS = 60_000.0
"""Where timers ring before an answer can have come, rivals for a key may overtake each other for as long: no more is
promised of any write then."""

SESSION_LATE_MS = 6_000.0
"""A replica that has not heard of a session waits for five seconds before it asks."""

END = "the end of"
"""The client in a history whose deletes are ends of values."""


class Belief(NamedTuple):
    """A client believes in its lease until then, by its own clock."""

    holder: bytes
    token: int
    until_us: int


class LeaseJudge(Judge):
    def __init__(self, plan: LeasePlan, world: World, recorder: Recorder) -> None:
        super().__init__()
        self.asked_for: set[ProposalId] = set()
        """Ids of the writes that clients asked for. All others are ends."""
        self.fenced = self.ends = self.holders = 0
        """Uses that came too late and were refused; values that ended; locks that were acquired."""
        self.latest_us = 0
        """How late the latest end was."""
        self._plan = plan
        self._world = world
        self._recorder = recorder
        self._began: dict[tuple[bytes, int], int] = {}
        """By key and version at which an expiry was given, when a replica held it first."""
        self._due: dict[tuple[bytes, int], int] = {}
        """By key and version, when it may end."""
        self._attached: dict[bytes, list[tuple[bytes, Proposal]]] = {}
        """By session, what is to end with it."""
        self._over: dict[bytes, int] = {}
        """Sessions that have ended, and when."""
        self._hidden: dict[tuple[bytes, int], str] = {}
        """Versions that a client did not see before their time, by key."""
        self._beliefs: dict[bytes, Belief] = {}
        self._tokens: dict[bytes, int] = {}
        self._used: dict[bytes, int] = {}

    # What replicas hold

    def durable(self, replica: int, key: bytes, state: KeyState) -> None:
        committed = state.committed
        is_new = committed is not None and committed.version not in self.expiries.get(key, {})
        super().durable(replica, key, state)
        if committed is None or not is_new:
            return
        expiry = committed.expiry
        self._not_early(key, committed, f"replica {NAMES[replica]}")
        if committed.is_tombstone and (session := session_of(key)):
            self._session_over(session)
        if expiry is not None and expiry.session:
            self._attach(key, committed, expiry.session)
        elif expiry is not None:
            began_us = self._began.setdefault((key, expiry.since), self._world.now_us)
            self._count(key, committed, began_us, expiry.ttl_ms)

    def _attach(self, key: bytes, committed: Proposal, session: bytes) -> None:
        if session in self._over:
            self._ends_from(key, committed, self._over[session], self._world.now_us, SESSION_LATE_MS)
        else:
            self._attached.setdefault(session, []).append((key, committed))

    def _session_over(self, session: bytes) -> None:
        """Its keys may end as soon as one replica holds its tombstone."""
        now_us = self._over[session] = self._world.now_us
        for key, committed in self._attached.pop(session, ()):
            self._ends_from(key, committed, now_us, now_us, SESSION_LATE_MS)

    def _count(self, key: bytes, committed: Proposal, began_us: int, ttl_ms: int) -> None:
        """From the moment at which the first replica holds a value, it lasts for its time on every clock within the
        bound. Only then may the history have an end of it."""
        due_us = began_us + int(ttl_ms * 1000 / (self._plan.fastest / BOUND))
        self._ends_from(key, committed, due_us, began_us, ttl_ms * BOUND / self._plan.slowest)

    def _ends_from(self, key: bytes, committed: Proposal, due_us: int, began_us: int, lasts_ms: float) -> None:
        self._due[key, committed.version] = due_us

        def may_end() -> None:
            if self._is_newest(key, committed.version):
                self._recorder.invoke(END, key, history.Delete(if_version=committed.version))

        def must_have_ended() -> None:
            if self._is_newest(key, committed.version):
                raise Violation("late", f"{key!r}: {say(committed)} is still there")

        if due_us <= self._world.now_us:
            may_end()  # A replica alone may decide it in the sync that ends the session.
        else:
            self._world.after(due_us - self._world.now_us, may_end)
        late_us = max(began_us, self._plan.faults_end_us) + int(1000 * (lasts_ms + self._late_ms))
        self._world.after(late_us - self._world.now_us, must_have_ended)

    @property
    def _late_ms(self) -> float:
        timing = self._plan.timing
        late_ms = LATE_MS + LATE_ROUNDS * (timing.hedge_ms + timing.round_timeout_ms)
        return late_ms if self._plan.is_patient else late_ms + IMPATIENT_MS

    def _is_newest(self, key: bytes, version: int) -> bool:
        newest = self.decided(key)
        return newest is not None and newest.version == version

    def is_ended(self) -> bool:
        """Whether no value is left that is to end."""
        return all(seen[max(seen)] is None for seen in self.expiries.values())

    def _not_early(self, key: bytes, committed: Proposal, witness: str) -> None:
        """A write that no client asked for is an end, of the version below it."""
        for below, proposal_id in enumerate((*committed.folded, committed.proposal_id), start=committed.base):
            if proposal_id not in self.asked_for:
                self.ends += 1
                due_us = self._due.get((key, below))
                if due_us is None or self._world.now_us < due_us:
                    when = "has no expiry" if due_us is None else f"lasts until {due_us / 1000:.3f} ms"
                    raise Violation("early", f"{key!r}: {witness} has the end of version {below}, which {when}")
                if (key, below) in self._hidden:
                    raise Violation("early", f"{key!r}: {self._hidden[key, below]} did not see version {below}")
                self.latest_us = max(self.latest_us, self._world.now_us - due_us)

    # What clients are told

    def read_answered(self, key: bytes, client: str, outcome: ReadOutcome) -> None:
        """What is over by a replica's count is hidden there: absent, at the version of the value. So is what a client's
        write has ended, before that is durable: then there is no other end of it."""
        if isinstance(outcome, ReadResult) and outcome.committed is not None and outcome.value is None:
            version = outcome.committed.version
            if self.expiries.get(key, {}).get(version) is not None:
                due_us = self._due.get((key, version))
                if due_us is None or self._world.now_us < due_us:
                    self._hidden.setdefault((key, version), client)
                return
        super().read_answered(key, client, outcome)

    # What clients believe

    def acquired(self, key: bytes, holder: bytes, token: int, until_us: int) -> None:
        """Tokens rise from holder to holder. An answer that comes after its time is over makes no holder."""
        if until_us <= self._world.now_us:
            return
        self._believe(key, holder, token, until_us)
        if token <= self._tokens.get(key, 0):
            raise Violation("token", f"{key!r}: {holder!r} got {token}, and {self._tokens[key]} was given before")
        self._tokens[key] = token
        self.holders += 1

    def renewed(self, key: bytes, holder: bytes, token: int, until_us: int) -> None:
        if until_us <= self._world.now_us:
            return
        self._tokens[key] = max(self._tokens.get(key, 0), token)
        self._believe(key, holder, token, until_us)

    def _believe(self, key: bytes, holder: bytes, token: int, until_us: int) -> None:
        now_us, known = self._world.now_us, self._beliefs.get(key)
        if known is not None and known.holder != holder and now_us < known.until_us:
            what = f"{holder!r} (token {token}) and {known.holder!r} (token {known.token})"
            raise Violation("two holders", f"{key!r}: {what}, which believes until {known.until_us / 1000:.3f} ms")
        self._beliefs[key] = Belief(holder, token, until_us)

    def believes(self, key: bytes, holder: bytes) -> bool:
        known = self._beliefs.get(key)
        return known is not None and known.holder == holder and self._world.now_us < known.until_us

    def released(self, key: bytes, holder: bytes) -> None:
        """It does not believe in it any more, from before its release leaves."""
        if self.believes(key, holder):
            del self._beliefs[key]

    def lost(self, key: bytes, holder: bytes, outcome: Outcome) -> None:
        """A holder is told that its lease is gone."""
        if self.believes(key, holder):
            raise Violation("lost while held", f"{key!r}: {holder!r} was told {say(outcome)}")

    def used(self, key: bytes, holder: bytes, token: int) -> None:
        """What a lock protects refuses tokens that are lower than one it has seen. Those of a holder are not, but for
        one that it sent before its last renewal."""
        if token >= self._used.get(key, 0):
            self._used[key] = token
            return
        self.fenced += 1
        if self.believes(key, holder) and token == self._beliefs[key].token:
            raise Violation("fenced while held", f"{key!r}: {holder!r} with {token}, after {self._used[key]}")
