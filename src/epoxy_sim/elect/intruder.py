"""An intruder that knows names, addresses, config and protocol, but not the secret; and a member that sends an
impossible epoch."""

from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING

from msgspec.structs import replace

from epoxy.protocol.elect import heartbeats
from epoxy.protocol.elect.elector import Elector
from epoxy.protocol.elect.handshake import HandshakeRefused
from epoxy.protocol.elect.messages import Announce
from epoxy_sim.elect.tampering import TappedLink

if TYPE_CHECKING:
    from epoxy.protocol.elect.handshake import Party
    from epoxy_sim.elect.machine import ElectMachine
    from epoxy_sim.elect.simulation import ElectSimulation

PACE_US = 700_000
EPOCHS = 100
"""The first epoch it claims to lead."""


LAST_EPOCH = 2**64 - 1
SMALLER_EPOCH = 2**40
"""One that a majority would be believed."""


def babble(cluster: "ElectSimulation") -> None:
    """Every node receives from every other, once, a heartbeat with the last epoch there is; then, from one node alone,
    a smaller one that no election has made either."""
    machines = list(cluster.machines.values())
    for listener in machines:
        for speaker in machines:
            tell(listener, speaker, LAST_EPOCH)
    highest = max([machine.record.epoch for machine in machines if machine.record is not None], default=1)
    for listener in machines:
        tell(listener, machines[-1], highest + SMALLER_EPOCH)


def tell(listener: "ElectMachine", speaker: "ElectMachine", epoch: int) -> None:
    agent = speaker.agent
    if speaker is not listener and isinstance(agent, Elector):
        said = heartbeats.heartbeat_of(agent, speaker.local_ms(), echo=0)
        listener.receive(replace(said, epoch=epoch), listener.life)


class Stranger:
    def __init__(self, cluster: "ElectSimulation") -> None:
        self._cluster = cluster
        self._epoch = EPOCHS
        self._dice = Random(0)

    def speak(self) -> None:
        """To every node, in the name of every other."""
        for listener in self._cluster.machines.values():
            for victim in self._cluster.machines.values():
                party = replace(victim.party, secrets=(b"a guess",))
                if victim is not listener:
                    self._claim(party, listener)
        self._cluster.world.after(PACE_US, self.speak)

    def _claim(self, party: "Party", listener: "ElectMachine") -> None:
        """To lead the next epoch, over a connection of its own."""
        self._epoch += 1
        claim = Announce(epoch=self._epoch, node=party.me, address="stranger:1")
        with suppress(HandshakeRefused):
            for message in TappedLink(self._dice).carry(claim, (party, listener.party), 0.0):
                listener.receive(message, listener.life)
