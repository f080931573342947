"""The HTTP API with a node behind it that says what it is told to."""

from typing import Any

from epoxy.api.http.router import Api
from epoxy.api.metrics import Metrics
from epoxy.model.records import Proposal
from epoxy.model.writes import Committed, ExpectedValueDoesNotMatch, ImmutableKey, Outcome, Path, VersionMismatch
from tests.api.http.http_bench import Answer, FakeNode, ask, proposal

JSON = "application/json"


class FakeApi:
    def __init__(self) -> None:
        self.node = FakeNode()
        self.metrics = Metrics()
        self.api: Api = Api(self.node, self.metrics)

    def ask(self, method: str, target: str, body: bytes | None = None, **headers: str) -> Answer:
        return ask(self.api, method, target, body, **headers)

    def write(self, outcome: Outcome, target: str = "/v2/kv/k", method: str = "PUT", **headers: str) -> Answer:
        self.node.outcome = outcome
        return self.ask(method, target, b"v" if method == "PUT" else None, **headers)


def ours(answer: Answer) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name.startswith("epoxy-")}


def told(code: str, message: str, **more: Any) -> dict[str, Any]:
    return {"code": code, "message": message, "definite": True} | more


def won(**more: Any) -> Committed:
    return Committed(proposal=proposal(), mine=True, path=Path.FAST, **more)


CONFLICTS: list[tuple[Outcome, str, str, Proposal | None]] = [
    (
        ExpectedValueDoesNotMatch(committed=proposal(b"other"), path=Path.LOCAL),
        "taken",
        "the name is held by another value",
        proposal(b"other"),
    ),
    (
        ImmutableKey(committed=proposal(b"kept"), path=Path.LOCAL),
        "immutable",
        "the name is reserved, for ever",
        proposal(b"kept"),
    ),
    (
        VersionMismatch(committed=proposal(b"newer", 9, mutable=True), path=Path.LOCAL),
        "version_mismatch",
        "if_version is not the committed version",
        proposal(b"newer", 9, mutable=True),
    ),
    (
        VersionMismatch(committed=proposal(None, 9, mutable=True), path=Path.LOCAL),
        "version_mismatch",
        "if_version is not the committed version",
        proposal(None, 9, mutable=True),
    ),
    (
        VersionMismatch(committed=None, path=Path.LOCAL),
        "version_mismatch",
        "if_version is not the committed version",
        None,
    ),
]
