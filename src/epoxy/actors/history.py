"""Where actors were: what this process saw of their homes, starts and ends, for people who look.

It is memory of one process and no record: it begins with the process, and the oldest goes first. What an actor does is
decided by its rows (`directory`) and by the record of its home (`homes`).
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from epoxy.model.actors import ActorEntry
from epoxy.model.api_actors import MoveKind

MAX_ACTORS = 1_000
MAX_MOVES = 16
"""Actors whose moves are remembered, those that moved last, and moves of each: some 3 MiB at the most."""


class ActorMoved(NamedTuple):
    """One thing that happened to an actor.

    home        this datacenter became the actor's home, by the record of this epoch
    started     a worker was given it, as this generation
    asleep      it went to sleep, and runs nowhere until it is needed
    failed      its code failed, and it is started again
    ended       a worker ended it: it moves, or was destroyed
    left        it was given up here, for another datacenter
    destroyed   for ever

    `at_ms`: unix time. `generation` and `worker` as they were; no worker: it was on none."""

    at_ms: int
    kind: MoveKind
    epoch: int
    generation: int
    worker: str | None


class ActorMoves:
    """`wall_ms`: unix time."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self._seen: OrderedDict[bytes, deque[ActorMoved]] = OrderedDict()

    def note(self, kind: MoveKind, actor: ActorEntry) -> None:
        """A home is confirmed now and then, and noted once."""
        moves = self._seen.get(actor.id)
        if moves is None:
            if len(self._seen) >= MAX_ACTORS:
                self._seen.popitem(last=False)
            moves = self._seen[actor.id] = deque(maxlen=MAX_MOVES)
        else:
            self._seen.move_to_end(actor.id)
        if kind != "home" or not any(each.kind == "home" and each.epoch == actor.epoch for each in moves):
            moves.append(ActorMoved(self._wall_ms(), kind, actor.epoch, actor.generation, actor.envoy_key))

    def of(self, actor_id: bytes) -> list[ActorMoved]:
        """The oldest first."""
        return list(self._seen.get(actor_id, ()))
