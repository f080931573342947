"""What the tests of access over HTTP share: a node that asks for tokens, with the grants that a test gives it."""

from typing import Any

from msgspec.structs import replace

from epoxy.api.http.operator_signature import OperatorSignatures
from epoxy.api.http.router import Api
from epoxy.api.http.routes import Route
from epoxy.api.http.routes_auth import AuthRoutes
from epoxy.api.http.routes_links import LinkRoutes
from epoxy.api.metrics import Metrics
from epoxy.model.access import AccessRole, AccessTable, Grant, TokenDigest
from epoxy.model.transactions import TxnRefused
from epoxy.model.writes import ReadResult, Source
from epoxy.node.access.audit import AuditLog, AuditOutcome
from epoxy.node.access.table_record import encode_table
from epoxy.protocol.access.tokens import digest_of, token_of
from epoxy.transport.peers.auth import Verifier
from epoxy.transport.wan.emulation import Link
from tests.api.http.fake_api import won
from tests.api.http.http_bench import SECRET as SECRET
from tests.api.http.http_bench import Answer, FakeNode, ask, proposal
from tests.node.access.test_control import NOW_S, Desk
from tests.transport.wan.test_emulation import JumpingClock

NOW_MS = 1_800_000_000_000


def token(number: int) -> str:
    return token_of(bytes([number] * 32))


def bearer(number: int) -> str:
    return f"Bearer {token(number)}"


class Notes(AuditLog):
    """Keeps what is recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, str]] = []

    def record(
        self, act: str, *, name: str, address: str, target: str = "", outcome: AuditOutcome = "done", detail: str = ""
    ) -> None:
        self.lines.append(
            {"act": act, "name": name, "address": address, "target": target, "outcome": outcome, "detail": detail}
        )


class GuardedNode(FakeNode):
    """Asks for tokens, by a real AccessControl. It answers every read and write."""

    def __init__(self, *, is_open: bool = False) -> None:
        super().__init__()
        self.desk = Desk(is_open=is_open)
        self.access = self.desk.access
        self.audit: Notes = Notes()
        self.outcome = won()
        self.here = ReadResult(committed=proposal(), source=Source.LOCAL)
        self.reading = self.here
        self.executed = TxnRefused(reason="as told")

    def give(self, number: int, *roles: AccessRole, **limits: Any) -> None:
        """Token `number` stands for the grant `client-<number>`, with these roles from now on."""
        digest = TokenDigest(sha256=digest_of(token(number).encode()))
        made = Grant(name=f"client-{number}", roles=roles, digests=(digest,), **limits)
        self.set(*self._others(number), made)

    def revoke(self, number: int) -> None:
        self.set(*self._others(number))

    def end(self, number: int) -> None:
        """The grant is over."""
        found = self.access.table.grant(f"client-{number}")
        assert found is not None
        self.set(*self._others(number), replace(found, expires_s=NOW_S - 1))

    def _others(self, number: int) -> list[Grant]:
        return [each for each in self.access.table.grants if each.name != f"client-{number}"]

    def set(self, *grants: Grant) -> None:
        ordered = tuple(sorted(grants, key=lambda each: each.name))
        self.desk.learn(encode_table(AccessTable(grants=ordered)), self.access.version + 1)
        assert self.desk.alarms == []


def links_routes(link: Link, verifier: Verifier) -> list[Route]:
    """Of a node whose peers are 2 and 3."""
    return LinkRoutes(link, OperatorSignatures(verifier), lambda: frozenset((2, 3))).table()


def links_api(link: Link, verifier: Verifier, node: FakeNode | None = None) -> Api:
    return Api(node or FakeNode(), Metrics(), more=links_routes(link, verifier))


def auth_routes(node: FakeNode) -> list[Route]:
    verifier = Verifier(node.me, SECRET, now_ms=lambda: NOW_MS)
    return AuthRoutes(node.access, OperatorSignatures(verifier), unix_s=lambda: NOW_S).table()


class Guarded:
    """The API of such a node."""

    def __init__(self, *, is_open: bool = False) -> None:
        self.node = GuardedNode(is_open=is_open)
        self.metrics = Metrics()
        verifier = Verifier(self.node.me, SECRET, now_ms=lambda: NOW_MS)
        more = [*auth_routes(self.node), *links_routes(Link(JumpingClock()), verifier)]
        self.api = Api(self.node, self.metrics, more=more)

    def ask(self, method: str, target: str, body: bytes | None = None, *, by: int = 0, **headers: str) -> Answer:
        """`by`: the number of the token that is shown; 0: none."""
        shown = {"authorization": bearer(by)} if by else {}
        return ask(self.api, method, target, body, **shown, **headers)

    def code(
        self, method: str, target: str, body: bytes | None = None, *, by: int = 0, **headers: str
    ) -> tuple[int, str]:
        answer = self.ask(method, target, body, by=by, **headers)
        return answer.status, answer.headers.get("epoxy-error", "")
