"""The judges of placement: the answers to clients, where actors run, and whether rows agree with each other."""

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from epoxy.actors import directory, listing
from epoxy.codec.tuple import strinc
from epoxy.model.actors import ActorState
from epoxy.model.envoy_messages import Start
from epoxy.ports import Snapshot
from epoxy.protocol.placement import rows
from epoxy.protocol.placement.records import EnvoyId, EnvoyPool
from epoxy_sim.simulation import Violation

if TYPE_CHECKING:
    from epoxy_sim.placement.envoy import SimEnvoy

MANY = 10_000


class Told(Struct, frozen=True):
    """At some time between `asked_us` and `told_us` this was the actor of the name."""

    asked_us: int
    told_us: int
    actor_id: bytes


class Ended(Struct):
    """A destroy: it takes effect between `asked_us` and its answer, or at any later time if it has none."""

    asked_us: int
    told_us: float = math.inf


class RunningCode(NamedTuple):
    start: Start
    envoy: "SimEnvoy"

    def __str__(self) -> str:
        return f"{self.start.actor_id} on {self.envoy.name}"


class ActorJudge:
    def __init__(self, pool: EnvoyPool) -> None:
        self._pool = pool
        self._told: dict[int, list[Told]] = defaultdict(list)
        self._ended: dict[int, list[Ended]] = defaultdict(list)
        self._created: set[bytes] = set()
        self._destroyed: dict[bytes, int] = {}
        self._runs: dict[tuple[str, str], RunningCode] = {}
        self.zombies = 0
        """Runners that stood still while another began."""
        self._ran: set[str] = set()
        self._refused: set[str] = set()
        self.interrupted = 0
        """Actors that their worker cancelled."""
        self.failures: Counter[str] = Counter()
        """How often the code of an actor failed, by its id."""

    # Clients

    def destroying(self, name: int, asked_us: int) -> Ended:
        ended = Ended(asked_us)
        self._ended[name].append(ended)
        return ended

    def destroyed(self, actor_id: bytes, told_us: int) -> None:
        """A client was told so."""
        self._destroyed[actor_id] = told_us

    def told(self, name: int, asked_us: int, told_us: int, actor_id: bytes, *, created: bool) -> None:
        """One actor for a name unless it was destroyed in between."""
        now = Told(asked_us, told_us, actor_id)
        if self._destroyed.get(actor_id, math.inf) < asked_us:
            raise Violation("undead", f"name {name}: {actor_id.hex()} was destroyed, and is there")
        for earlier in self._told[name]:
            if earlier.actor_id != actor_id and not self._may_differ(name, earlier, now):
                raise Violation("one-actor", f"name {name}: {earlier.actor_id.hex()} and {actor_id.hex()}")
        if created and actor_id in self._created:
            raise Violation("one-creation", f"two were told that they created {actor_id.hex()}")
        self._created |= {actor_id} if created else set()
        self._told[name].append(now)

    def _may_differ(self, name: int, one: Told, other: Told) -> bool:
        """Whether a destroy may lie between the two, in either order that they may have had."""
        orders = [(a, b) for a, b in ((one, other), (other, one)) if a.asked_us <= b.told_us]
        return any(
            end.told_us >= first.asked_us and end.asked_us <= second.told_us
            for first, second in orders
            for end in self._ended[name]
        )

    # Requests

    def ran(self, word: str) -> None:
        """The code of an actor saw the request. What it may have seen is not given again."""
        if word in self._ran:
            raise Violation("twice", f"request {word} ran twice")
        self._ran.add(word)
        self._look_at(word)

    def refused(self, word: str) -> None:
        """The client got a definite answer that the request was not carried out."""
        self._refused.add(word)
        self._look_at(word)

    def _look_at(self, word: str) -> None:
        if word in self._ran and word in self._refused:
            raise Violation("definite", f"request {word} ran, and its client was told that it did not")

    # Envoys

    def runs(self, start: Start, envoy: "SimEnvoy") -> None:
        """At most one runner for a name, even if it is another actor or another generation in the same process. One
        whose process stands still is none: it may take one more step when it wakes."""
        name = (start.name, start.key)
        if (other := self._runs.get(name)) is not None:
            if not other.envoy.process.is_stopped:
                raise Violation("one-runner", f"{start.key} runs as {other}, and as {start.actor_id} on {envoy.name}")
            self.zombies += 1
        self._runs[name] = RunningCode(start, envoy)

    def step(self, start: Start, envoy: "SimEnvoy") -> None:
        """A step of code, which has not ended as far as it knows."""
        running = self._runs.get((start.name, start.key))
        if (running is None or running.start is not start) and envoy.alive and not envoy.process.is_stopped:
            raise Violation("one-runner", f"{start.key} goes on on {envoy.name}, and runs as {running}")

    def stops(self, start: Start) -> None:
        name = (start.name, start.key)
        if name in self._runs and self._runs[name].start is start:
            del self._runs[name]

    def runner(self, actor_id: str) -> str | None:
        """The key of the envoy that runs it."""
        return next((each.envoy.id.key for each in self._runs.values() if each.start.actor_id == actor_id), None)

    # Rows

    def look(self, view: Snapshot, envoys: list[EnvoyId]) -> None:
        """Checks all committed rows of one datacenter."""
        prefix = rows.pool_rows(rows.HASH, self._pool)
        on_ring = [rows.last_name(row, prefix) for row, _ in view.range(prefix, strinc(prefix), limit=MANY)]
        for envoy in envoys:
            known = rows.load(view, envoy.namespace, envoy.key)
            if known is None:
                continue
            places = on_ring.count(envoy.key)
            if known.expired_ts is not None and places:
                raise Violation("never-visible", f"{envoy.key} is expired, and {places} of its rows are on the ring")
            if known.places != places:
                raise Violation("ring", f"{envoy.key} has {places} rows on the ring, and should have {known.places}")
            held = [actor for actor in listing.on_envoy(view, envoy, MANY) if actor.counted]
            if rows.slots(view, envoy) != len(held):
                raise Violation("slots", f"{envoy.key} has {len(held)} actors in {rows.slots(view, envoy)} slots")
        self._look_at_actors(view)

    def _look_at_actors(self, view: Snapshot) -> None:
        for row, value in view.range(directory.ACTOR, strinc(directory.ACTOR), limit=MANY):
            actor = directory.decoder.decode(value[1:])
            waits = view.get(directory.pending_row(actor)) is not None
            if waits != (actor.state is ActorState.PENDING):
                raise Violation(
                    "rows", f"{row.hex()} is {actor.state.value} and {'waits' if waits else 'does not wait'}"
                )
            if actor.envoy_key is not None and view.get(directory.envoy_row(actor)) is None:
                raise Violation("rows", f"{row.hex()} is not among those of {actor.envoy_key}")
