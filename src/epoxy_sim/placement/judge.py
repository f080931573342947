"""The judges of placement: the answers to clients, where actors run, and whether rows agree with each other."""

import math
from collections import Counter, defaultdict

from msgspec import Struct

from epoxy.actors import directory
from epoxy.codec.tuple import strinc
from epoxy.model.actors import ActorState, Start, label_of
from epoxy.ports import Snapshot
from epoxy.protocol.placement import rows
from epoxy.protocol.placement.records import EnvoyId, EnvoyPool
from epoxy_sim.simulation import Violation

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


class ActorJudge:
    def __init__(self, pool: EnvoyPool) -> None:
        self._pool = pool
        self._told: dict[int, list[Told]] = defaultdict(list)
        self._ended: dict[int, list[Ended]] = defaultdict(list)
        self._created: set[bytes] = set()
        self._runs: dict[tuple[str, str], tuple[str, str]] = {}
        self._ran: set[bytes] = set()
        self._refused: set[bytes] = set()
        self.interrupted = 0
        """Actors that their worker cancelled."""
        self.failures: Counter[str] = Counter()
        """How often the code of an actor failed, by its id."""

    # Clients

    def destroying(self, name: int, asked_us: int) -> Ended:
        ended = Ended(asked_us)
        self._ended[name].append(ended)
        return ended

    def told(self, name: int, asked_us: int, told_us: int, actor_id: bytes, *, created: bool) -> None:
        """One actor for a name unless it was destroyed in between, and one datacenter for ever."""
        now = Told(asked_us, told_us, actor_id)
        for earlier in self._told[name]:
            if label_of(earlier.actor_id) != label_of(actor_id):
                raise Violation("one-owner", f"name {name}: {earlier.actor_id.hex()} and {actor_id.hex()}")
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

    def ran(self, body: bytes) -> None:
        """The code of an actor saw the request."""
        self._ran.add(body)
        self._look_at(body)

    def refused(self, body: bytes) -> None:
        """The client got a definite answer that the request was not carried out."""
        self._refused.add(body)
        self._look_at(body)

    def _look_at(self, body: bytes) -> None:
        if body in self._ran and body in self._refused:
            raise Violation("definite", f"request {body.decode()} ran, and its client was told that it did not")

    # Envoys

    def runs(self, start: Start, process: str) -> None:
        """At most one runner for a name, even if it is another actor or another generation in the same process."""
        name = (start.name, start.key)
        if name in self._runs:
            actor_id, other = self._runs[name]
            raise Violation(
                "one-runner", f"{start.key} runs as {actor_id} on {other}, and as {start.actor_id} on {process}"
            )
        self._runs[name] = (start.actor_id, process)

    def stops(self, start: Start) -> None:
        actor_id, _ = self._runs.pop((start.name, start.key))
        assert actor_id == start.actor_id

    def runner(self, actor_id: str) -> str | None:
        """The key of the envoy that runs it."""
        return next((process.partition("#")[0] for each, process in self._runs.values() if each == actor_id), None)

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
            held = [actor for actor in directory.on_envoy(view, envoy, MANY) if actor.counted]
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
