"""A network in which no message arrives by itself: each one is held until it is delivered, or dropped, by hand."""

from collections.abc import Callable

from epoxy_sim.keys.network import SHORTEST_US, Network
from epoxy_sim.keys.plan import ClusterPlan
from epoxy_sim.playground.cards import Card, card
from epoxy_sim.world import World


class HeldMessage:
    """`arrive` may be called more than once: networks repeat messages."""

    def __init__(self, number: int, sender: int, to: int, card: Card, arrive: Callable[[], None]) -> None:
        self.number = number
        self.sender = sender
        self.to = to
        self.card = card
        self.arrive = arrive


class HandNetwork(Network):
    """Greetings of a start and refused connections are not held: what is stepped through is the protocol of keys."""

    def __init__(self, world: World, plan: ClusterPlan) -> None:
        super().__init__(world, plan)
        self.held: dict[int, HeldMessage] = {}
        """In the order in which they were sent."""
        self._numbers = 0

    def take(self, number: int) -> HeldMessage:
        return self.held.pop(number)

    def _travel(
        self,
        sender: int,
        to: int,
        arrive: Callable[[], None],
        extra_loss: float,  # noqa: ARG002
        freight: object = None,
    ) -> None:
        self.sent += 1
        if freight is None or isinstance(freight, str):
            self._world.after(SHORTEST_US, arrive)
            return
        self._numbers += 1
        self.held[self._numbers] = HeldMessage(self._numbers, sender, to, card(freight), arrive)
