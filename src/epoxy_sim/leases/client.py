"""Clients of leases. Each has a clock of its own, by which it counts from before it sends, and may stand still at any
moment while its clock goes on."""

from collections.abc import Callable, Sequence
from random import Random
from typing import TypeVar

from epoxy.model.records import SESSION_ID_BYTES, Proposal
from epoxy.model.sessions import session_key
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    Consistency,
    ExpectedValueDoesNotMatch,
    Outcome,
    ReadOutcome,
    Refused,
    VersionMismatch,
    Write,
)
from epoxy_sim.keys.client import KeysClient, Recorder
from epoxy_sim.keys.machine import Life, Machine
from epoxy_sim.leases.judge import LeaseJudge
from epoxy_sim.leases.machine import LeaseLife
from epoxy_sim.leases.plan import LeaseAsk, LeaseClientPlan, LeaseStep, key_of
from epoxy_sim.world import Action, World

T = TypeVar("T")

LEASE_PATIENCE_US = 4_000_000
RENEWED_AFTER = 1 / 3
"""Of its time to live."""

LONGEST_WAY_US = 3_000_000
"""A use of what a lock protects may be as late."""


class Lease:
    """One lease of a client. It believes in it until `until_ms`, by its own clock."""

    def __init__(self, step: LeaseStep, value: bytes) -> None:
        self.key = key_of(step)
        self.step = step
        self.value = value
        self.first_sent_ms: float | None = None
        self.session = b""
        """Its id; then the renewals and the version are those of the session."""
        self.version = self.token = 0
        self.until_ms = 0.0
        self.renewals = step.renewals

    @property
    def ends_with(self) -> bytes:
        """The key that is renewed and released."""
        return session_key(self.session) if self.session else self.key


def count_from(sent_ms: float, answered_ms: float) -> float:  # noqa: ARG001
    """The count of a replica may begin as soon as a write was sent."""
    return sent_ms


def token_of(held: Proposal) -> int:
    """The fencing token is the version."""
    return held.version


class LeaseClient(KeysClient[LeaseStep]):
    patience_us = LEASE_PATIENCE_US
    _judge: LeaseJudge

    def __init__(
        self,
        name: str,
        plan: LeaseClientPlan,
        machines: Sequence[Machine],
        world: World,
        judge: LeaseJudge,
        recorder: Recorder,
    ) -> None:
        super().__init__(name, plan.home, plan.steps, machines, world, judge, recorder)
        self.slept_us = 0
        self._plan = plan
        self._paused_until_us = 0
        self._backlog: list[Action] = []
        self._dice = Random(f"client/{name}/{machines[0].plan.seed}")
        self._first_name = name
        self._has_begun = self._is_reading = False

    def start(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            for pause in self._plan.pauses:
                self._world.after(pause.at_us, lambda lasts_us=pause.lasts_us: self._pause(lasts_us))  # type: ignore[misc]
        super().start()

    # Its clock, and its pauses

    def now_ms(self) -> float:
        return self._world.now_us * self._plan.rate / 1000

    def _later(self, delay_ms: float, then: Action) -> None:
        self._world.after(int(max(0.0, delay_ms) * 1000 / self._plan.rate), lambda: self._awake(then))

    def _pause(self, lasts_us: int) -> None:
        if self._world.now_us + lasts_us > self._paused_until_us:
            self._note(lambda: f"{self.name} stands still for {lasts_us / 1000:g} ms")
            self.slept_us += lasts_us
            self._paused_until_us = self._world.now_us + lasts_us
            self._world.after(lasts_us, self._wake)

    def _wake(self) -> None:
        if self._world.now_us >= self._paused_until_us:
            backlog, self._backlog = self._backlog, []
            for action in backlog:
                self._world.after(0, lambda action=action: self._awake(action))  # type: ignore[misc]

    def _awake(self, then: Action) -> None:
        if self._world.now_us < self._paused_until_us:
            self._backlog.append(then)
        else:
            then()

    def _ask(self, life: Life, request: Action) -> None:
        assert isinstance(life, LeaseLife)
        taken = request if self._is_reading else lambda: life.taking(request)
        self._world.after(self._plan.distance_us, lambda: life.run(taken))

    def read(self, key: bytes, consistency: Consistency, then: Callable[[ReadOutcome], None]) -> None:
        self._is_reading = True
        super().read(key, consistency, then)
        self._is_reading = False

    def _hearing(self, respond: Callable[[T], None]) -> Callable[[T], None]:
        def hear(outcome: T) -> None:
            self._world.after(self._plan.distance_us, lambda: self._awake(lambda: respond(outcome)))

        return hear

    # Its steps

    def _do(self, step: LeaseStep) -> None:
        self._awake(lambda: self._begin(step))

    def _begin(self, step: LeaseStep) -> None:
        match step.ask:
            case LeaseAsk.HOLD:
                lease = Lease(step, b"%s/%d" % (self._first_name.encode(), step.value))
                if step.session:
                    self._begin_session(lease)
                else:
                    self._acquire(lease, step.tries)
            case LeaseAsk.READ:
                self.read(key_of(step), step.consistency, lambda _: self.start())
            case _:
                self.write(write_of(step), lambda _: self.start())

    def _begin_session(self, lease: Lease) -> None:
        sent_ms, ttl_ms = self.now_ms(), lease.step.ttl_ms
        lease.session = lease.value.rjust(SESSION_ID_BYTES, b"/")

        def answered(outcome: Outcome) -> None:
            if isinstance(outcome, Committed):
                lease.version = outcome.proposal.version
                lease.until_ms = count_from(sent_ms, self.now_ms()) + ttl_ms
                self._acquire(lease, lease.step.tries)
            else:
                self.start()

        self.write(Write(key=lease.ends_with, value=b"", mutable=True, if_version=0, ttl_ms=ttl_ms), answered)

    def _acquire(self, lease: Lease, tries: int) -> None:
        if not tries:
            self.start()
            return
        step, sent_ms = lease.step, self.now_ms()
        lease.first_sent_ms = sent_ms if lease.first_sent_ms is None else lease.first_sent_ms
        ttl_ms = 0 if lease.session else step.ttl_ms
        write = Write(
            key=lease.key, value=lease.value, mutable=True, if_absent=True, ttl_ms=ttl_ms, session=lease.session
        )

        def answered(outcome: Outcome) -> None:
            if isinstance(outcome, Committed):
                self._acquired(lease, outcome.proposal, sent_ms)
            elif isinstance(outcome, ExpectedValueDoesNotMatch) and outcome.committed.value == lease.value:
                # An attempt that was not answered has taken effect.
                assert lease.first_sent_ms is not None
                self._acquired(lease, outcome.committed, lease.first_sent_ms)
            else:
                self._later(step.poll_ms, lambda: self._acquire(lease, tries - 1))

        self.write(write, answered)

    def _acquired(self, lease: Lease, held: Proposal, sent_ms: float) -> None:
        if lease.session:
            lease.token = token_of(held)
        else:
            self._hold_until(lease, held, count_from(sent_ms, self.now_ms()) + lease.step.ttl_ms)
        self._judge.acquired(lease.key, lease.value, lease.token, self._us_of(lease.until_ms))
        self._note(lambda: f"{self.name} holds {lease.key.decode()} with token {lease.token}")
        self._go_on(lease)

    def _hold_until(self, lease: Lease, held: Proposal, until_ms: float) -> None:
        lease.version, lease.until_ms = held.version, until_ms
        if not lease.session:
            lease.token = token_of(held)

    def _us_of(self, own_ms: float) -> int:
        """When its clock will show this, or did."""
        return self._world.now_us + int((own_ms - self.now_ms()) * 1000 / self._plan.rate)

    def _go_on(self, lease: Lease) -> None:
        """Use what the lock protects, and hold it for a while."""
        if self.now_ms() >= lease.until_ms:
            self._note(lambda: f"{self.name} does not believe in {lease.key.decode()} any more")
            self.start()
            return
        token, way_us = lease.token, int(self._dice.random() ** 8 * LONGEST_WAY_US)
        self._world.after(way_us, lambda: self._judge.used(lease.key, lease.value, token))
        self._later(lease.step.ttl_ms * RENEWED_AFTER, lambda: self._renew_or_end(lease))

    def _renew_or_end(self, lease: Lease) -> None:
        if self.now_ms() >= lease.until_ms:
            self._go_on(lease)
        elif lease.renewals:
            lease.renewals -= 1
            self._renew(lease)
        elif lease.step.abandons:
            self.start()
        else:
            self._judge.released(lease.key, lease.value)
            release = Write(key=lease.ends_with, value=None, mutable=True, if_version=lease.version)
            self.write(release, lambda _: self.start())

    def _renew(self, lease: Lease) -> None:
        sent_ms, ttl_ms = self.now_ms(), lease.step.ttl_ms

        def answered(outcome: Outcome) -> None:
            if isinstance(outcome, Committed):
                self._hold_until(lease, outcome.proposal, count_from(sent_ms, self.now_ms()) + ttl_ms)
                self._judge.renewed(lease.key, lease.value, lease.token, self._us_of(lease.until_ms))
                self._go_on(lease)
            elif isinstance(outcome, ConsensusFailed | Refused):
                self._go_on(lease)
            elif is_still_held(lease, outcome):
                assert isinstance(outcome, VersionMismatch)
                assert outcome.committed is not None
                self._hold_until(lease, outcome.committed, lease.until_ms)
                self._go_on(lease)
            else:
                self._judge.lost(lease.key, lease.value, outcome)
                self.start()

        renewal = Write(
            key=lease.ends_with, value=None, mutable=True, touch=True, if_version=lease.version, ttl_ms=ttl_ms
        )
        self.write(renewal, answered)


def is_still_held(lease: Lease, outcome: Outcome) -> bool:
    """A renewal that was not answered has taken effect."""
    committed = outcome.committed if isinstance(outcome, VersionMismatch) else None
    return committed is not None and committed.value == (b"" if lease.session else lease.value)


def write_of(step: LeaseStep) -> Write:
    key, value, ttl_ms = key_of(step), b"%d" % step.value, step.ttl_ms
    match step.ask:
        case LeaseAsk.CREATE:
            return Write(key=key, value=value, mutable=True, if_absent=True, ttl_ms=ttl_ms)
        case LeaseAsk.KEEP:
            return Write(key=key, value=value, mutable=True, keep_expiry=True)
        case LeaseAsk.ADD:
            return Write(key=key, value=None, mutable=True, amount=1, ttl_ms=ttl_ms)
        case LeaseAsk.TOUCH:
            return Write(key=key, value=None, mutable=True, touch=True, ttl_ms=ttl_ms)
        case LeaseAsk.DELETE:
            return Write(key=key, value=None, mutable=True)
        case _:
            return Write(key=key, value=value, mutable=True, ttl_ms=ttl_ms)
