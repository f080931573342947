"""Clients that ask for transactions, one at a time, and record the answers."""

from collections.abc import Sequence
from itertools import count

from msgspec.structs import replace

from epoxy.model.transactions import Executed, Txn, TxnOutcome, TxnRefused
from epoxy_sim.keys.client import RETRY_US, PatientClient
from epoxy_sim.txn.history import Asked
from epoxy_sim.txn.machine import TxnLife, TxnMachine
from epoxy_sim.txn.plan import TxnClientPlan, TxnStep
from epoxy_sim.world import World

TAG = b"#"
"""Every transaction also reads a key of its own: so its execution can be recognised."""


class TxnRecorder:
    def __init__(self) -> None:
        self.asked: dict[int, Asked] = {}
        self._ticks = count(1)

    def invoke(self, client: str, txn: Txn) -> Asked:
        number = len(self.asked) + 1
        tagged = replace(txn, reads=(*txn.reads, TAG + b"%d" % number))
        self.asked[number] = Asked(number=number, client=client, txn=tagged, invoked=next(self._ticks))
        return self.asked[number]

    def answer(self, asked: Asked, outcome: TxnOutcome) -> None:
        if isinstance(outcome, Executed):
            asked.returned, asked.result = next(self._ticks), outcome
        elif isinstance(outcome, TxnRefused):
            asked.refused = True


def number_of(txn: Txn) -> int:
    return int(txn.reads[-1].removeprefix(TAG))


class TxnClient(PatientClient[TxnStep]):
    word = "transaction"

    def __init__(
        self, name: str, plan: TxnClientPlan, machines: Sequence[TxnMachine], world: World, recorder: TxnRecorder
    ) -> None:
        super().__init__(name, plan.home, plan.steps, machines, world)
        self.asks_copy = plan.copy
        self._recorder = recorder

    def _do(self, step: TxnStep) -> None:
        lives = [life for life in self._lives if isinstance(life, TxnLife)]
        life = next((each for each in lives if each.engine.is_member and each.gate.may_vote), None)
        if life is None:
            self._world.after(RETRY_US, lambda: self._do(step))
            return
        asked = self._recorder.invoke(self.name, step.txn)
        self._note(lambda: f"{self.name} asks {life.machine.name}, transaction {asked.number}: {say(step.txn)}")

        def answered(outcome: TxnOutcome) -> None:
            self._recorder.answer(asked, outcome)
            self.start()

        respond = self._await(life, asked.number, tell, answered, self.start)

        def submit() -> None:
            life.engine.txn(asked.txn, life.answering(respond))

        life.run(submit)


def say(txn: Txn) -> str:
    parts = [f"if {c.key.decode()} in {c.values}" for c in txn.compares]
    for operation in txn.then:
        told = [str(getattr(operation, name)) for name in operation.__struct_fields__[1:]]
        parts.append(" ".join([type(operation).__name__.lower(), operation.key.decode(), *told]))
    return ", ".join([*parts, *(f"read {key.decode()}" for key in txn.reads)])


def tell(outcome: TxnOutcome) -> str:
    if not isinstance(outcome, Executed):
        return str(outcome)
    values = [done.value for done in outcome.done] + list(outcome.found[:-1])
    return " ".join(["yes" if outcome.succeeded else "no", *(str(value) for value in values)])
