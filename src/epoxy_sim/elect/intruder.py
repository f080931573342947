"""An intruder that knows names, addresses, config and protocol, but not the secret; and a member that sends an
impossible epoch."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from epoxy.protocol.elect import heartbeats
from epoxy.protocol.elect.elector import Elector
from epoxy.protocol.elect.messages import Announce
from epoxy_sim.elect.admission import admits

if TYPE_CHECKING:
    from epoxy_sim.elect.simulation import ElectSimulation

PACE_US = 700_000
EPOCHS = 100
"""The first epoch it claims to lead."""


LAST_EPOCH = 2**64 - 1


def babble(cluster: "ElectSimulation") -> None:
    """Every node receives from every other, once, a heartbeat with the last epoch there is."""
    for listener in cluster.machines.values():
        for speaker in cluster.machines.values():
            agent = speaker.agent
            if speaker is not listener and isinstance(agent, Elector):
                said = heartbeats.heartbeat_of(agent, speaker.local_ms(), echo=0)
                listener.receive(replace(said, epoch=LAST_EPOCH), listener.life)


class Stranger:
    def __init__(self, cluster: "ElectSimulation") -> None:
        self._cluster = cluster
        self._epoch = EPOCHS

    def speak(self) -> None:
        """To every node, in the name of every other."""
        for listener in self._cluster.machines.values():
            for victim in self._cluster.machines.values():
                party = replace(victim.party, secret=b"a guess")
                if victim is not listener and admits(party, listener.party):
                    self._epoch += 1
                    address = str(victim.config.node(victim.name).server)
                    listener.receive(Announce(epoch=self._epoch, node=victim.name, address=address), listener.life)
        self._cluster.world.after(PACE_US, self.speak)
