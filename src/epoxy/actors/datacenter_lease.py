"""The lease of a datacenter, under which it is the home of actors: one mutable key with a time to live.

A datacenter is home to an actor only under the incarnation of the lease that the actor's home record names. Once the
key is absent or holds another incarnation, that one is over for ever, and any datacenter may take the actor over. So
the holder has to stop before any replica may end the key: it counts from when its last successful renewal was *sent*,
on a clock that goes on while the machine is suspended, and gives up at 80 % of the time to live. `held` looks at that
clock each time, so a process that wakes up finds its lease gone before any timer rings.

The incarnation is noted in the store before it is written. A new process of the same store goes on with it, if a
renewal that compares the key's version succeeds: the rows of the store say what it is home to.
"""

from collections.abc import Callable

from epoxy.actors.envoy_lease import lost_after_ms
from epoxy.actors.hosting import Hosting
from epoxy.codec import home_records
from epoxy.codec.tuple import pack
from epoxy.model.actors import ACTOR_ROWS
from epoxy.model.errors import CodecError
from epoxy.model.homes import INCARNATION_BYTES, MAX_POOLS, DatacenterLease, datacenter_key
from epoxy.model.records import Proposal
from epoxy.model.writes import Committed, Consistency, Outcome, ReadAnswer, ReadResult, VersionMismatch, Write
from epoxy.ports import Clock, Dice, KeyEngine, Store, Timer, Transaction

INCARNATION_ROW = pack((ACTOR_ROWS, 16))
"""Part of the format: never renumber. Below it are the rows of `directory`."""

RENEWALS = 3
"""Within a time to live: one may fail and another be late."""

GIVEN_UP_PERCENT = 80
"""Of the time to live, after which a lease that was not renewed is not believed in. The rest is for stopping."""

TICK_MS = 1_000
"""Between two looks, or a twentieth of the time to live if that is less: timers stand still in suspend."""

WAIT_MS = 3_000.0
"""How long a question waits for the first lease of a process: a round trip or two."""

MAX_LABEL = 0xFFFF
"""A datacenter's label is two bytes of an actor's id: a node with a higher id hosts no actors."""

MAX_WAITING = 4_096
"""Questions that wait for it."""

Pools = tuple[tuple[str, str], ...]


class HomeLease:
    """`fenced` is called when the lease is lost: stop everything. `pools`: the namespaces and pools with workers here,
    which the lease publishes. A datacenter without actors and workers asks for no lease: see `want`."""

    def __init__(self, keys: KeyEngine, store: Store, clock: Clock, dice: Dice, label: int, ttl_ms: int) -> None:
        self.fenced: Callable[[], None] = lambda: None
        self.pools: Callable[[], Pools] = lambda: ()
        self.ttl_ms = ttl_ms
        self.losses = 0
        """How often it was held and lost."""
        self._keys = keys
        self._store = store
        self.clock = clock
        self._dice = dice
        self._label = label
        self._incarnation: bytes | None = store.newest().get(INCARNATION_ROW)
        self._version: int | None = None
        """Of the key; None: it has to be read first."""
        self._sent_ms: float | None = None
        """When the renewal was sent that is the last one known to be committed; None: not held."""
        self._held_once = self._incarnation is not None
        self._published: Pools | None = None
        self._attempt = 0
        self._asking_since_ms: float | None = None
        self.wanted = False
        """Whether there are actors or workers here."""
        self._timer: Timer | None = None
        self._waiting: list[Callable[[], None]] = []

    def host(self, hosting: Hosting) -> None:
        """Let this lease decide what is hosted, and how long envoys may go on without an answer of their node."""
        hosting.lease, hosting.lease_left_ms, hosting.when_leased = self.held, self.left_ms, self.when_held
        hosting.lost_after_ms = min(hosting.lost_after_ms, lost_after_ms(self.ttl_ms // 2))
        hosting.pools_changed = self.published
        self.fenced = hosting.fenced
        self.pools = lambda: tuple((pool.namespace, pool.name) for pool in hosting.pools())

    @property
    def _key(self) -> bytes:
        return datacenter_key(self._label)

    # What the datacenter may do now

    def held(self) -> bytes | None:
        """The incarnation in force; None: this datacenter is home to nothing now."""
        return self._incarnation if self.left_ms() > self.ttl_ms * (100 - GIVEN_UP_PERCENT) / 100 else None

    def left_ms(self) -> float:
        """How long no other datacenter can take anything over: from now to the time to live after the renewal was
        sent. What is promised to workers must end within it."""
        if self._sent_ms is None:
            return 0.0
        return max(0.0, self._sent_ms + self.ttl_ms - self.clock.now_ms())

    def want(self) -> None:
        """There are actors or workers here: acquire the lease, and keep it."""
        if not self.wanted:
            self.wanted = True
            self._tick()

    def when_held(self, then: Callable[[bytes | None], None]) -> None:
        """At once, if it is; otherwise when it is acquired, or with None after a while."""
        if (incarnation := self.held()) is not None or len(self._waiting) >= MAX_WAITING:
            then(incarnation)
            return
        unheard = [then]

        def look() -> None:
            if unheard:
                timer.cancel()
                unheard.pop()(self.held())

        timer = self.clock.call_later(WAIT_MS, look)
        self._waiting.append(look)
        self.want()

    def published(self) -> None:
        """Pools may have come or gone: other datacenters should know before the next renewal. A pool that came wants
        the lease; the last one that goes does not ask again for a lease that was given up."""
        if self.pools():
            self.want()
        if self.wanted and self._published is not None and self._published != self._pools_now():
            self._step()

    # Acquiring and renewing

    def start(self) -> None:
        """A process whose store had a lease before goes on with it."""
        if self._incarnation is not None:
            self.want()

    def stop(self) -> None:
        self.wanted = False
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self._timer = self.clock.call_later(min(TICK_MS, self.ttl_ms / 20), self._tick)
        self._look()
        if self._sent_ms is None or self.clock.now_ms() - self._sent_ms >= self.ttl_ms / RENEWALS:
            self._step()

    def _look(self) -> None:
        if self._sent_ms is not None and self.held() is None:
            self._lose()

    def _lose(self) -> None:
        """Stop before another datacenter may start. The key may still be there, and be renewed."""
        self._sent_ms = None
        self.losses += 1
        self.fenced()

    def _step(self) -> None:
        """One read or write of the key under way; one that is not answered for as long as a renewal may take is given
        up, and the key is read again."""
        now_ms = self.clock.now_ms()
        if self._asking_since_ms is not None:
            if now_ms - self._asking_since_ms < self.ttl_ms / RENEWALS:
                return
            self._version = None
        self._asking_since_ms = now_ms
        self._attempt += 1
        attempt = self._attempt
        if self._version is None:
            self._keys.read(
                datacenter_key(self._label), Consistency.LINEARIZABLE, lambda answer: self._found(attempt, answer)
            )
        else:
            self._write(attempt, self._version)

    def _found(self, attempt: int, answer: ReadAnswer) -> None:
        if attempt != self._attempt:
            return
        self._asking_since_ms = None
        if not isinstance(answer, ReadResult):
            return
        committed = answer.committed
        if committed is None or committed.value is None:
            self._over()
            self._draw(committed.version if committed is not None else 0)
        elif incarnation_in(committed) == self._incarnation:
            self._version = committed.version
            self._step()
        else:
            # Of a write whose process did not learn of it. It is not renewed, so it ends.
            self._over()

    def _over(self) -> None:
        """The incarnation that was held is over for ever."""
        if self._sent_ms is not None:
            self._lose()

    def _draw(self, version: int) -> None:
        """An incarnation that was held once is never written again: what names it has no home. One that was never held
        is named by nothing, and may be written again."""

        def noted() -> None:
            self._version = version
            self._step()

        if self._incarnation is None or self._held_once:
            self._held_once = False
            drawn = (self._dice.nonce() << 64 | self._dice.nonce()).to_bytes(INCARNATION_BYTES, "big")
            self._incarnation = drawn

            def body(tx: Transaction) -> None:
                tx.set(INCARNATION_ROW, drawn)

            self._store.transact(body)
        self._store.when_durable(noted)

    def _write(self, attempt: int, version: int) -> None:
        assert self._incarnation is not None
        pools, sent_ms = self._pools_now(), self.clock.now_ms()
        value = home_records.encode(DatacenterLease(incarnation=self._incarnation, pools=pools))
        write = Write(
            key=datacenter_key(self._label), value=value, mutable=True, if_version=version, ttl_ms=self.ttl_ms
        )
        self._keys.write(write, lambda outcome: self._written(attempt, pools, sent_ms, outcome))

    def _written(self, attempt: int, pools: Pools, sent_ms: float, outcome: Outcome) -> None:
        if attempt != self._attempt:
            return
        self._asking_since_ms = None
        if isinstance(outcome, Committed):
            self._version = outcome.proposal.version
            self._sent_ms = sent_ms
            self._held_once = True
            self._published = pools
            self._look()
            if self.held() is not None:
                waiting, self._waiting = self._waiting, []
                for look in waiting:
                    look()
            if pools != self._pools_now():
                self._step()
        else:
            # Refused, or unknown, or the key has another version: what it holds has to be read.
            self._version = None
            if isinstance(outcome, VersionMismatch):
                self._step()

    def _pools_now(self) -> Pools:
        return tuple(sorted(set(self.pools())))[:MAX_POOLS]


def incarnation_in(committed: Proposal) -> bytes | None:
    lease = decoded(committed)
    return lease.incarnation if lease is not None else None


def decoded(committed: Proposal | None) -> DatacenterLease | None:
    """None: absent, or not readable, which holds no incarnation that a record could name."""
    if committed is None or committed.value is None:
        return None
    try:
        return home_records.decode_lease(committed.value)
    except CodecError:
        return None


class DatacenterLeases:
    """Those of all datacenters, as this replica knows them, and whether one is over."""

    def __init__(self, keys: KeyEngine) -> None:
        self._keys = keys

    def known(self, label: int) -> DatacenterLease | None:
        """By what this replica holds, without traffic: a hint."""
        if label > MAX_LABEL:
            return None
        here = self._keys.peek(datacenter_key(label))
        return decoded(here.committed) if here is not None else None

    def ask(self, label: int, told: Callable[[DatacenterLease | None, bool], None]) -> None:
        """A linearizable read: the lease in force, and whether the answer is known at all. What it does not show is
        over for ever."""

        def answered(answer: ReadAnswer) -> None:
            if isinstance(answer, ReadResult):
                told(decoded(answer.committed), True)
            else:
                told(None, False)

        self._keys.read(datacenter_key(label), Consistency.LINEARIZABLE, answered)
