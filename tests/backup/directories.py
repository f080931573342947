"""Data directories of stopped nodes, made from transactions on a store in memory."""

from collections.abc import Callable
from pathlib import Path

from epoxy.model.cluster import CONFIG_KEY, ClusterConfig
from epoxy.model.records import FRESH, KeyState
from epoxy.node.members.config_record import to_proposal
from epoxy.ports import Transaction
from epoxy.store.embedded.bulk import DataDirBuilder
from epoxy.store.keyspace import Keyspace
from epoxy.store.memory import MemoryStore

Fill = Callable[[Transaction], object]


def directory(path: Path, replica: int, *fills: Fill, config: ClusterConfig | None = None, cluster: str = "") -> Path:
    store = MemoryStore()
    for fill in fills:
        store.transact(fill)
    if config is not None:
        state = KeyState(committed=to_proposal(config))
        store.transact(lambda tx: Keyspace(replica).save(tx, CONFIG_KEY, FRESH, state))
    rows = dict(store.newest().range(b"", b"\xff", limit=10_000))
    with DataDirBuilder(path, replica=replica, cluster=cluster, name="a test") as builder:
        builder.write(dict(rows))
        builder.finish()
    return path
