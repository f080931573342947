"""Replicas of the ordered engine side by side; a test says which message reaches whom."""

from collections.abc import Iterable
from typing import Any

from epoxy.model.cluster import first_epoch
from epoxy.model.instances import Command, InstanceId, OrderedReply, OrderedRequest, PreAccept
from epoxy.model.transactions import Get, Put, Txn
from epoxy.node.txn.replica import OrderedReplica
from epoxy.protocol.effects import Context
from epoxy.protocol.txn.effects import Begin, TxnTiming
from epoxy.store.memory import MemoryStore


class Dice:
    def uniform(self) -> float:
        return 0.5

    def nonce(self) -> int:
        return 0


def write(key: bytes = b"k", value: bytes = b"v") -> Command:
    return Command(txns=(Txn(then=(Put(key=key, value=value),)),))


def read(key: bytes = b"k") -> Command:
    return Command(txns=(Txn(then=(Get(key=key),)),))


class Replicas:
    def __init__(self, n: int) -> None:
        self.config = first_epoch(tuple(range(1, n + 1)))
        self.stores = {i: MemoryStore() for i in range(1, n + 1)}
        self.at = {i: OrderedReplica(i, self.stores[i], self.config) for i in self.stores}

    def begin(self, home: int, command: Command, slot: int = 1) -> PreAccept:
        begun = self.at[home].perform(Begin(id=InstanceId(home, slot), command=command))
        assert isinstance(begun, PreAccept)
        return begun

    def tell(self, request: OrderedRequest, to: Iterable[int]) -> dict[int, OrderedReply]:
        return {i: self.at[i].handle(request) for i in to}

    def context(self, me: int) -> Context:
        return Context(me=me, config=self.config, dice=Dice(), timing=TxnTiming())

    def restart(self, i: int) -> OrderedReplica:
        self.at[i] = OrderedReplica(i, self.stores[i], self.config)
        self.at[i].start()
        return self.at[i]


def drive(flow: Any, result: Any = None) -> Any:
    """One step of a flow: the next effect, or what it returned."""
    try:
        return flow.send(result)
    except StopIteration as stop:
        return stop.value
