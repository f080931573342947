"""Clients that ask for transactions, one at a time, and write down what they were told."""

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from epoxy.model.transactions import Executed, Txn, TxnOutcome, TxnRefused
from epoxy_sim.keys.client import PATIENCE_US, RETRY_US
from epoxy_sim.txn.history import Asked
from epoxy_sim.txn.machine import TxnLife, TxnMachine
from epoxy_sim.txn.plan import TxnClientPlan, TxnStep
from epoxy_sim.world import World

TAG = b"#"
"""A transaction reads a key of its own, which nobody else touches: so its execution is known for what it is."""


class TxnRecorder:
    def __init__(self) -> None:
        self.asked: dict[int, Asked] = {}
        self._ticks = 0

    def tick(self) -> int:
        self._ticks += 1
        return self._ticks

    def invoke(self, client: str, txn: Txn) -> Asked:
        number = len(self.asked) + 1
        tagged = replace(txn, reads=(*txn.reads, TAG + b"%d" % number))
        self.asked[number] = Asked(number=number, client=client, txn=tagged, invoked=self.tick())
        return self.asked[number]

    def answer(self, asked: Asked, outcome: TxnOutcome) -> None:
        if isinstance(outcome, Executed):
            asked.returned, asked.result = self.tick(), outcome
        elif isinstance(outcome, TxnRefused):
            asked.refused = True


def number_of(txn: Txn) -> int:
    return int(txn.reads[-1].removeprefix(TAG))


class TxnClient:
    """Plays its plan, then is `done`. Who hears nothing goes on under another name."""

    def __init__(
        self, name: str, plan: TxnClientPlan, machines: Sequence[TxnMachine], world: World, recorder: TxnRecorder
    ) -> None:
        self.name = name
        self.done = False
        self.unanswered = 0
        self._steps = iter(plan.steps)
        self._machines = [*machines[plan.home - 1 :], *machines[: plan.home - 1]]
        self._world = world
        self._recorder = recorder
        self._call = 0

    def start(self) -> None:
        step = next(self._steps, None)
        if step is None:
            self.done = True
        else:
            self._world.after(step.at_us - self._world.now_us, lambda: self._do(step))

    def _do(self, step: TxnStep) -> None:
        lives = [each.life for each in self._machines if isinstance(each.life, TxnLife)]
        life = next((each for each in lives if each.engine.is_member), None)
        if life is None:
            self._world.after(RETRY_US, lambda: self._do(step))
            return
        asked = self._recorder.invoke(self.name, step.txn)
        if self._world.trace is not None:
            self._world.note(f"{self.name} asks {life.machine.name}, transaction {asked.number}: {say(step.txn)}")
        respond = self._patiently(life, asked)

        def put_forward() -> None:
            life.engine.txn(asked.txn, life.answering(respond))

        life.run(put_forward)

    def _patiently(self, life: TxnLife, asked: Asked) -> Callable[[TxnOutcome], None]:
        """The answer, the end of the connection or the end of patience, whichever is first."""
        self._call += 1
        call = self._call

        def out_of_patience() -> None:
            if call == self._call:
                self._call += 1
                self.unanswered += 1
                self.name += "'"
                if self._world.trace is not None:
                    self._world.note(f"client of transaction {asked.number} hears no more")
                self.start()

        timer = self._world.after(PATIENCE_US, out_of_patience)
        life.farewells.append(out_of_patience)

        def respond(outcome: TxnOutcome) -> None:
            if call == self._call:
                self._call += 1
                timer.cancel()
                life.farewells.remove(out_of_patience)
                if self._world.trace is not None:
                    self._world.note(f"{self.name} is told, transaction {asked.number}: {tell(outcome)}")
                self._recorder.answer(asked, outcome)
                self.start()

        return respond


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
