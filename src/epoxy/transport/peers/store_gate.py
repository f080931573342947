"""What the links of a node need from the one place that decides which stores, and which starts of them, are heard:
`node.members.peer_gate`, which the simulators use as well."""

from collections.abc import Callable
from typing import Protocol

from epoxy.model.incarnation import Greeting, Incarnation, MismatchCode, Sighting, StoreMismatch


class StoreGate(Protocol):
    def greeting(self, peer: int) -> Greeting:
        """For this peer, as of now."""
        ...

    @property
    def position(self) -> Callable[[], int]:
        """How much of the own store is durable, now. Sent with every frame."""
        ...

    def told(self, peer: int, known: Sighting | None) -> None:
        """What the peer remembers of the own store."""
        ...

    def meet(self, peer: int, greeting: Greeting, told: Sighting | None) -> StoreMismatch | None:
        """Judge the start of a peer's store and record it; None: it is heard. `told`: what this end said it remembers,
        before the peer read the position in `greeting`: a running store is never below that. Without it the position
        is not compared."""
        ...

    def hear(self, peer: int, nonce: int, position: int) -> bool:
        """For each frame after `meet`. False: this start is not the one on record any more."""
        ...

    def answered(self, peer: int) -> None:
        """A peer that has recorded this start has answered."""
        ...

    def objected(self, peer: int, code: MismatchCode) -> None:
        """A peer refuses this start."""
        ...

    def connected(self, peer: int, nonce: int) -> None: ...

    def disconnected(self, peer: int, nonce: int) -> None: ...


class OpenGate:
    """Hears every store. For measurements, and for tests of links alone."""

    def __init__(self, store: int = 0) -> None:
        self._greeting = Greeting(incarnation=Incarnation(store=store, counter=1, nonce=1, base=0), position=0)
        self.position: Callable[[], int] = lambda: 0

    def greeting(self, peer: int) -> Greeting:  # noqa: ARG002
        return self._greeting

    def told(self, peer: int, known: Sighting | None) -> None: ...

    def meet(self, peer: int, greeting: Greeting, told: Sighting | None) -> StoreMismatch | None:  # noqa: ARG002
        return None

    def hear(self, peer: int, nonce: int, position: int) -> bool:  # noqa: ARG002
        return True

    def answered(self, peer: int) -> None: ...

    def objected(self, peer: int, code: MismatchCode) -> None: ...

    def connected(self, peer: int, nonce: int) -> None: ...

    def disconnected(self, peer: int, nonce: int) -> None: ...
