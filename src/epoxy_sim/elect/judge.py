"""The judges of elections. They see every action at its true time, and know nothing of the faults."""

from typing import TYPE_CHECKING

from epoxy.protocol.elect.lists import Lists
from epoxy.protocol.elect.messages import Acceptance, Announce, Counted, Heartbeat, Message, Offer
from epoxy.protocol.elect.operator_orders import OperatorOrder
from epoxy.protocol.elect.send_queue import SendQueue
from epoxy.protocol.elect.terms import ElectRecord, Order
from epoxy_sim.simulation import Violation
from epoxy_sim.world import World

if TYPE_CHECKING:
    from epoxy_sim.elect.machine import ElectMachine


class ElectJudge:
    def __init__(self, world: World, initial: str, machines: dict[str, "ElectMachine"], begun: int = 1) -> None:
        """`begun`: the highest epoch when the run begins."""
        self.acked = 0
        self.elections = 0
        self.openings = 0
        self._world = world
        self._machines = machines
        self._winners: dict[int, str] = {1: initial, begun: initial}
        self._highest = begun
        self._votes: dict[tuple[str, int], str] = {}
        self._holders: dict[int, set[str]] = {}
        self._needed: dict[int, int] = {}
        """Copies from which on an acknowledged write must survive."""
        self._stage = 0
        self._remembered: set[str] = set()
        self._obeyed: set[str] = set()

    # Elections

    def led(self, node: str, epoch: int) -> None:
        winner = self._winners.setdefault(epoch, node)
        self.elections += winner == node
        self._world.note(f"{node} leads epoch {epoch}")
        if winner != node:
            raise Violation("two primaries of an epoch", f"{winner} and {node} both lead epoch {epoch}")

    def saved(self, node: str, record: ElectRecord) -> None:
        self._world.note(
            f"{node} saves epoch {record.epoch} {record.voted_for}, leader {record.leader_epoch} {record.leader}"
        )
        self._remembered.add(node)
        if record.epoch > self._highest + 1:
            raise Violation("an epoch without an election", f"{node} goes from {self._highest} to {record.epoch}")
        self._highest = max(self._highest, record.epoch)
        if record.lists is not None and not record.lists.is_joint and record.lists.stage > self._stage:
            self._in_force(record.lists)
        if self._winners.get(record.leader_epoch) != record.leader:
            raise Violation(
                "a leader without an election", f"{node} follows {record.leader} in epoch {record.leader_epoch}"
            )
        if record.voted_for == node:
            self._voted(node, record.epoch, node)

    def sends(self, node: str, message: Message, durable: ElectRecord | None) -> None:
        if isinstance(message, Acceptance | Offer) and (durable is None or durable.epoch < message.epoch):
            raise Violation("told before it was durable", f"{node} sends {message}, its disk has {durable}")
        if isinstance(message, Acceptance):
            self._voted(node, message.epoch, message.candidate)

    def _voted(self, node: str, epoch: int, candidate: str) -> None:
        """A candidate may withdraw the vote for itself, which no other node has counted."""
        before = self._votes.get((node, epoch), candidate)
        self._votes[node, epoch] = candidate
        if before not in (candidate, node):
            raise Violation("second vote", f"{node} votes for {before} and {candidate} in epoch {epoch}")

    def announced(self, sender: str, to: str, message: Announce, queue: SendQueue) -> None:
        waiting = queue.take()
        for each in waiting:
            queue.put(each)
        if not any(isinstance(each, Announce) and each.epoch >= message.epoch for each in waiting):
            raise Violation("announcement dropped", f"{sender} forgets to tell {to} of epoch {message.epoch}")

    def obeyed(self, node: str, order: OperatorOrder) -> None:
        self._world.note(f"{node} takes the order {order.act} {order.target}, number {order.nonce}")
        if order.nonce in self._obeyed:
            raise Violation("an order carried out twice", f"{node}: {order.act} {order.target}, number {order.nonce}")
        self._obeyed.add(order.nonce)

    # Writes

    def opened(self, machine: "ElectMachine") -> None:
        others = [m.name for m in self._machines.values() if m is not machine and m.server.is_open]
        if others:
            raise Violation("two unfenced primaries", f"{machine.name} takes writes, and so does {', '.join(others)}")

    def promoted(self, machine: "ElectMachine", epoch: int) -> None:
        self.openings += 1
        self._world.note(f"{machine.name} takes writes as primary of epoch {epoch}, {len(machine.server.log)} entries")
        if epoch == 1:
            self.begun(machine)
        have = {number for _, number in machine.server.log}
        lost = [number for number in self._must_survive() if number not in have]
        if lost:
            raise Violation("acknowledged write lost", f"{machine.name} begins epoch {epoch} without write {lost[0]}")

    def _in_force(self, lists: Lists) -> None:
        """A new list counts alone: from now on its majorities decide what survives."""
        self._stage = lists.stage
        newest = lists.newest
        for number in self._must_survive():
            self._holders[number] = {name for name in newest.ids if self._machines[name].server.has(number)}
            self._needed[number] = newest.copies
            if len(self._holders[number]) < newest.copies:
                raise Violation(
                    "a list in force without the data", f"write {number} is on {sorted(self._holders[number])}"
                )

    def begun(self, machine: "ElectMachine") -> None:
        """From the first write on a node may be lost, so every node must have a record by then."""
        new = {node.id for node in machine.config.nodes} - self._remembered
        if new:
            raise Violation("begun too early", f"{machine.name} takes the first writes, unknown to {', '.join(new)}")

    def acknowledged(self, number: int, holders: set[str], needed: int) -> None:
        self.acked += 1
        self._holders[number] = holders
        self._needed[number] = needed
        self._world.note(f"write {number} is acknowledged, on {', '.join(sorted(holders))}")

    def wiped(self, node: str) -> None:
        """Its copies and votes are gone; fewer copies may be left than a promise needs."""
        for holders in self._holders.values():
            holders.discard(node)
        for key in [key for key in self._votes if key[0] == node]:
            del self._votes[key]

    def _must_survive(self) -> list[int]:
        return [number for number, holders in self._holders.items() if len(holders) >= self._needed[number]]

    # The trace

    def told(self, sender: "ElectMachine", to: str, message: Message, lost: bool) -> None:
        if not isinstance(message, Heartbeat):
            self._world.note(f"{sender.name} -> {to}: {say(message)}{' (lost)' if lost else ''}")

    def ordered(self, node: str, order: Order) -> None:
        self._world.note(f"{node} orders {order}")


def say(message: Message) -> str:
    if isinstance(message, Counted):
        lists = " and ".join(",".join(sorted(each.ids)) for each in message.lists)
        return f"COUNTED {message.epoch}, stage {message.stage}: {lists}, floor {message.floor_generation}"
    told = " ".join(str(getattr(message, name)) for name in message.__struct_fields__ if name != "node")
    return f"{type(message).__name__.upper()} {told}"
