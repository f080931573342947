"""Sessions over HTTP."""

import pytest

from epoxy.model.records import Expiry, Proposal, ProposalId
from epoxy.model.writes import (
    Committed,
    ConsensusFailed,
    NothingToDelete,
    Outcome,
    Path,
    ReadAnswer,
    ReadFailed,
    ReadResult,
    Refused,
    Source,
)
from tests.api.http.fake_api import FakeApi, told

ID = bytes(range(16)).hex()
LASTS = Proposal(
    value=b"", version=2, mutable=True, proposal_id=ProposalId(1, 7), expiry=Expiry(ttl_ms=30_000, since=2)
)
OVER = Proposal(value=None, version=3, mutable=True, proposal_id=ProposalId(1, 8))


@pytest.fixture
def fake() -> FakeApi:
    return FakeApi()


def done(proposal: Proposal) -> Committed:
    return Committed(proposal=proposal, mine=True, path=Path.FAST)


def test_begun_renewed_shown_and_ended(fake: FakeApi) -> None:
    sessions = fake.node.sessions
    sessions.outcome = done(LASTS)
    begun = fake.ask("POST", "/v2/sessions?ttl=30000")
    assert (begun.status, begun.json()) == (201, {"session": ID, "ttl": 30_000, "remaining": 1234})
    assert fake.ask("PUT", f"/v2/sessions/{ID}").json() == begun.json()
    fake.node.reading = ReadResult(committed=LASTS, source=Source.QUORUM)
    assert fake.ask("GET", f"/v2/sessions/{ID}").json() == begun.json()
    sessions.outcome = done(OVER)
    ended = fake.ask("DELETE", f"/v2/sessions/{ID}")
    assert (ended.status, ended.json()["remaining"]) == (200, 0)
    assert sessions.asked == [("begin", 30_000), ("renew", bytes.fromhex(ID)), ("end", bytes.fromhex(ID))]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize(
    ("outcome", "status", "code", "definite"),
    [
        (NothingToDelete(committed=None, path=Path.SLOW), 404, "no_session", True),
        (ConsensusFailed(reason="no quorum"), 503, "consensus_failed", False),
        (Refused(reason="full"), 429, "overloaded", True),
        (Refused(reason="too few", no_quorum=True), 503, "no_quorum", True),
    ],
)
def test_what_a_session_answers_otherwise(
    fake: FakeApi, method: str, outcome: Outcome, status: int, code: str, definite: bool
) -> None:
    fake.node.sessions.outcome = outcome
    answer = fake.ask(method, f"/v2/sessions/{ID}")
    assert (answer.status, answer.error()["code"], answer.error()["definite"]) == (status, code, definite)


@pytest.mark.parametrize(
    ("reading", "status", "code"),
    [
        (ReadResult(committed=OVER, source=Source.QUORUM), 404, "no_session"),
        (ReadResult(committed=None, source=Source.QUORUM), 404, "no_session"),
        (ReadFailed(reason="alone"), 503, "read_failed"),
        (Refused(reason="full"), 429, "overloaded"),
    ],
)
def test_a_session_that_is_over_or_not_found_out(fake: FakeApi, reading: ReadAnswer, status: int, code: str) -> None:
    fake.node.reading = reading
    answer = fake.ask("GET", f"/v2/sessions/{ID}")
    assert (answer.status, answer.error()["code"]) == (status, code)


@pytest.mark.parametrize(
    ("method", "target", "message"),
    [
        ("POST", "", "ttl is missing: how many milliseconds the session lasts, from 100 to 86400000"),
        ("POST", "?ttl=99", "ttl is a number from 100 to 86400000, not '99'"),
        ("POST", "?ttl=86400001", "ttl is a number from 100 to 86400000, not '86400001'"),
        ("PUT", "/00", "the id of a session has 32 hexadecimal digits, not '00'"),
        ("GET", f"/{ID.upper()}", f"the id of a session has 32 hexadecimal digits, not '{ID.upper()}'"),
        ("DELETE", f"/{ID}?ttl=5", "unknown parameter 'ttl'; there are: none"),
    ],
)
def test_bad_input_reaches_no_session(fake: FakeApi, method: str, target: str, message: str) -> None:
    answer = fake.ask(method, f"/v2/sessions{target}")
    assert (answer.status, answer.error()) == (400, told("bad_parameter", message))
    assert fake.node.sessions.asked == []
