"""A node without grants that asks for none."""

from collections.abc import Callable, Iterable

from epoxy.model.access import AccessTable
from epoxy.model.transactions import Txn, TxnOutcome
from epoxy.model.writes import Outcome
from epoxy.node.access.control import Edit, Edited
from epoxy.protocol.access.principal import Principal


class OpenAccess:
    """No tokens are asked for, and there are none."""

    def __init__(self) -> None:
        self.is_open = True
        self.generation = 0
        self.table = AccessTable()
        self.version = 0
        self.watchers: list[Callable[[], None]] = []

    def of_token(self, token: bytes) -> Principal | None:  # noqa: ARG002
        return None

    def of_certificate(self, names: Iterable[str]) -> Principal | None:  # noqa: ARG002
        return None

    def change(self, edit: Edit, answered: Callable[[Edited], None]) -> None:
        self.table = edit(self.table)
        answered(self.table)


class NoQuotas:
    def wait_s(self, principal: Principal) -> float:  # noqa: ARG002
        return 0.0

    def refusal(self, principal: Principal, more_bytes: int) -> str | None:  # noqa: ARG002
        return None

    def charge(self, principal: Principal, key: bytes, outcome: Outcome) -> None:
        pass

    def charging(
        self,
        principal: Principal,  # noqa: ARG002
        txn: Txn,  # noqa: ARG002
        answered: Callable[[TxnOutcome], None],
    ) -> Callable[[TxnOutcome], None]:
        return answered
