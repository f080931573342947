"""What happens to a datacenter: to its nodes, and to its database."""

import random
import time
from collections.abc import Callable

from epoxy import Client, EpoxyError
from epoxy.model.shards import SYSTEM_SHARD, shard_of
from epoxy.testing.datacenter_cluster import Datacenter, DatacenterCluster, DatacenterProcess
from tests.end_to_end.recorder import PATIENCE_S

MOST_NODES = 3
"""Of one datacenter: a machine for tests has few cores."""

ANSWER_S = 8.0
"""For one write of a probe. Longer than a request waits for an owner."""

POLL_S = 0.05


class Faults:
    """Each leaves the datacenter as it was: all nodes running and ready, and all shards spread. `waits`: for each kind,
    how long keys of the node it struck were not written through the other nodes."""

    def __init__(self, cluster: DatacenterCluster, dice: random.Random) -> None:
        self._cluster = cluster
        self._dice = dice
        self._writes = 0
        self.waits: dict[str, list[float]] = {}

    def strike(self, kind: str) -> str:
        where = self._dice.choice(self._cluster.datacenters)
        told = KINDS[kind](self, where)
        for node in where.nodes:
            if not node.running:
                node.start(wait=False)
        self._cluster.wait_until_connected()
        where.wait_until_spread()
        return told

    # Nodes

    def kill_shard_node(self, where: Datacenter) -> str:
        return self._kill("kill a shard node", where, self._dice.choice(where.shard_nodes))

    def kill_gateway(self, where: Datacenter) -> str:
        return self._kill("kill a gateway", where, where.gateway)

    def _kill(self, kind: str, where: Datacenter, victim: DatacenterProcess) -> str:
        keys = self._keys_of(where, victim)
        victim.kill()
        return f"{victim.name}; {self._written(kind, where, victim, keys)}"

    def kill_all(self, where: Datacenter) -> str:
        for node in where.nodes:
            node.kill()
        return where.name

    def pause_shard_node(self, where: Datacenter) -> str:
        return self._pause("pause a shard node past its lease", where, self._dice.choice(where.shard_nodes))

    def pause_gateway(self, where: Datacenter) -> str:
        return self._pause("pause a gateway past its lease", where, where.gateway)

    def _pause(self, kind: str, where: Datacenter, victim: DatacenterProcess) -> str:
        """Until its keys are written through others: it wakes up with an old memory."""
        keys = self._keys_of(where, victim)
        victim.pause()
        try:
            return f"{victim.name}; {self._written(kind, where, victim, keys)}"
        finally:
            victim.resume()

    def doze(self, where: Datacenter) -> str:
        victim, seconds = self._dice.choice(where.nodes), self._dice.uniform(0.2, 0.9) * where.lease_ms / 1000
        victim.pause()
        time.sleep(seconds)
        victim.resume()
        return f"{victim.name}, {seconds:.1f} s"

    def stop_node(self, where: Datacenter) -> str:
        victim = self._dice.choice(where.nodes)
        victim.stop()
        return victim.name

    def add_node(self, where: Datacenter) -> str:
        """Or one leaves for good, if there are enough."""
        if len(where.nodes) < MOST_NODES:
            return self._cluster.add_node(where).name
        leaving = where.nodes[-1]
        leaving.stop()
        where.nodes.remove(leaving)
        self._cluster.gone.append(leaving)
        return f"{leaving.name} leaves"

    # Databases

    def restart_database(self, where: Datacenter) -> str:
        where.database.restart("immediate")
        return where.name

    def stop_database(self, where: Datacenter) -> str:
        """For longer than a lease: all sessions' leases end, and none of them may be fenced for that alone."""
        where.database.stop("fast")
        seconds = self._dice.uniform(0.5, 1.5) * where.lease_ms / 1000
        time.sleep(seconds)
        where.database.start()
        return f"{where.name}, {seconds:.1f} s"

    def fail_over(self, where: Datacenter) -> str:
        if where.standby is None:
            return "no standby is left"
        where.fail_over()
        return where.name

    # Inside

    def _keys_of(self, where: Datacenter, victim: DatacenterProcess) -> list[bytes]:
        """Some keys of shards that the victim owns."""
        owners = where.owners()
        mine = {shard for shard, url in owners.items() if url == victim.url and shard != SYSTEM_SHARD}
        found: list[bytes] = []
        number = 0
        while mine and len(found) < 3:
            number += 1
            if shard_of(key := b"probe/%d" % number) in mine:
                found.append(key)
        return found

    def _written(self, kind: str, where: Datacenter, victim: DatacenterProcess, keys: list[bytes]) -> str:
        """Write them through the other nodes of the datacenter, until each was written."""
        began_s = time.monotonic()
        urls = [node.url for node in where.nodes if node is not victim and node.running]
        with Client(urls, timeout=ANSWER_S) as client:
            for key in keys:
                while not self._write(client, key):
                    assert time.monotonic() - began_s < PATIENCE_S, f"{key!r} is not written without {victim.name}"
                    time.sleep(POLL_S)
        waited_s = time.monotonic() - began_s
        self.waits.setdefault(kind, []).append(waited_s)
        return f"its keys are written again after {waited_s:.2f} s"

    def _write(self, client: Client, key: bytes) -> bool:
        self._writes += 1
        try:
            client.put(key, b"%d" % self._writes)
        except EpoxyError:
            return False
        return True


KINDS: dict[str, Callable[[Faults, Datacenter], str]] = {
    "kill a shard node": Faults.kill_shard_node,
    "kill a gateway": Faults.kill_gateway,
    "kill all nodes": Faults.kill_all,
    "pause a shard node past its lease": Faults.pause_shard_node,
    "pause a gateway past its lease": Faults.pause_gateway,
    "pause a node for less than its lease": Faults.doze,
    "stop a node": Faults.stop_node,
    "add a node": Faults.add_node,
    "restart a database": Faults.restart_database,
    "stop a database for a while": Faults.stop_database,
    "promote a standby": Faults.fail_over,
}
