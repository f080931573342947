"""Values that expire, over HTTP: what is asked of the node, and what its answers tell."""

from typing import Any

import pytest

from epoxy.api.http import key_answers
from epoxy.api.http.calls import ApiCall
from epoxy.model.records import Expiry, Proposal, ProposalId
from epoxy.model.writes import (
    Committed,
    ExpectedValueDoesNotMatch,
    NothingToDelete,
    Path,
    ReadResult,
    Refused,
    Source,
    Write,
)
from tests.api.http.fake_api import JSON, FakeApi, ours, told, won

SESSION = bytes(range(16))


@pytest.fixture
def fake() -> FakeApi:
    return FakeApi()


def leased(value: bytes = b"v", *, ttl_ms: int = 5000, session: bytes = b"") -> Proposal:
    expiry = Expiry(ttl_ms=ttl_ms, since=3, session=session)
    return Proposal(value=value, version=4, mutable=True, proposal_id=ProposalId(1, 7), expiry=expiry)


@pytest.mark.parametrize(
    ("method", "query", "asked"),
    [
        ("PUT", "mode=put&ttl=5000", {"value": b"v", "ttl_ms": 5000}),
        ("PUT", "mode=put&if_absent=true&ttl=1", {"value": b"v", "if_absent": True, "ttl_ms": 1}),
        ("PUT", "mode=put&if_absent=false", {"value": b"v"}),
        ("PUT", "mode=put&keep_ttl=true&if_version=3", {"value": b"v", "keep_expiry": True, "if_version": 3}),
        ("PUT", f"mode=put&session={SESSION.hex()}", {"value": b"v", "session": SESSION}),
        ("PATCH", "ttl=7&if_version=2", {"touch": True, "ttl_ms": 7, "if_version": 2}),
        ("PATCH", "ttl=0", {"touch": True}),
        ("PATCH", f"session={SESSION.hex()}", {"touch": True, "session": SESSION}),
        ("PATCH", "add=2&ttl=60000", {"amount": 2, "ttl_ms": 60000}),
    ],
)
def test_what_a_request_asks_of_the_node(fake: FakeApi, method: str, query: str, asked: dict[str, Any]) -> None:
    fake.write(won(), f"/v2/kv/k?{query}", method)
    assert fake.node.writes == [Write(**{"key": b"k", "value": None, "mutable": True} | asked)]


def test_answers_tell_what_is_left(fake: FakeApi) -> None:
    fake.node.here = ReadResult(committed=leased(), source=Source.LOCAL)
    assert ours(fake.ask("GET", "/v2/kv/k"))["epoxy-ttl"] == "1234"
    assert ours(fake.ask("HEAD", "/v2/kv/k"))["epoxy-ttl"] == "1234"
    shown = fake.ask("GET", "/v2/kv/k", accept=JSON).json()
    assert (shown["ttl"], shown["remaining"], shown["since"], "session" in shown) == (5000, 1234, 3, False)
    written = fake.write(Committed(proposal=leased(), mine=True, path=Path.FAST), "/v2/kv/k?mode=put&ttl=5000")
    assert (ours(written)["epoxy-ttl"], ours(written)["epoxy-version"]) == ("1234", "4")
    fake.node.keys = [(b"k", leased())]
    (row,) = fake.ask("GET", "/v2/kv").json()["keys"]
    assert (row["ttl"], row["remaining"]) == (5000, 1234)


def test_a_key_of_a_session_names_it_and_has_no_time_of_its_own(fake: FakeApi) -> None:
    fake.node.here = ReadResult(committed=leased(ttl_ms=0, session=SESSION), source=Source.LOCAL)
    answer = fake.ask("GET", "/v2/kv/k", accept=JSON)
    assert "epoxy-ttl" not in ours(answer)
    assert (answer.json()["session"], "ttl" in answer.json()) == (SESSION.hex(), False)


def test_a_refused_creation_tells_what_holds_the_key_and_for_how_long(fake: FakeApi) -> None:
    refused = ExpectedValueDoesNotMatch(committed=leased(b"theirs"), path=Path.FAST)
    answer = fake.write(refused, "/v2/kv/k?mode=put&if_absent=true&ttl=9")
    assert (answer.status, answer.body) == (409, b"theirs")
    assert ours(answer) == {
        "epoxy-error": "exists",
        "epoxy-path": "fast",
        "epoxy-mine": "false",
        "epoxy-version": "4",
        "epoxy-mutable": "true",
        "epoxy-ttl": "1234",
    }
    as_json = fake.write(refused, "/v2/kv/k?mode=put&if_absent=true", accept=JSON).json()
    assert as_json["error"] == told("exists", "the key has a value")
    assert as_json["committed"]["remaining"] == 1234


def test_a_creation_is_told_as_one_though_what_was_there_before_is_not_known(fake: FakeApi) -> None:
    """As of a write that was decided in a fold of another replica: a client that looks for 201 holds the lease."""
    decided = Committed(proposal=leased(), mine=True, path=Path.SLOW)
    assert fake.write(decided, "/v2/kv/k?mode=put&if_absent=true&ttl=9").status == 201
    assert fake.write(decided, "/v2/kv/k?mode=put&ttl=9").status == 200, "version 4"


def test_a_reservation_that_a_value_stands_in_the_way_of_is_told_that_the_name_is_taken(fake: FakeApi) -> None:
    answer = fake.write(ExpectedValueDoesNotMatch(committed=leased(b"theirs"), path=Path.FAST))
    assert (ours(answer)["epoxy-error"], ours(answer)["epoxy-ttl"]) == ("taken", "1234")


def test_nothing_to_renew(fake: FakeApi) -> None:
    answer = fake.write(NothingToDelete(committed=None, path=Path.SLOW), "/v2/kv/k?ttl=9", "PATCH")
    assert (answer.status, answer.error()) == (404, told("not_found", "there is nothing under this key"))


def test_a_write_that_names_a_session_which_is_over(fake: FakeApi) -> None:
    over = Refused(reason="the session is over, or never was", no_session=True)
    answer = fake.write(over, f"/v2/kv/k?mode=put&session={SESSION.hex()}")
    error = told("no_session", "the session is over, or never was")
    assert (answer.status, answer.json()) == (409, {"error": error, "committed": None})


def lasting_answers(fake: FakeApi, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether a reserved name, and a value that expires, would be answered from the response cache next time."""
    seen: list[tuple[bytes, ...]] = []
    answer = ApiCall.answer

    def watched(call: Any, *given: Any, **named: Any) -> None:
        seen.append(named.get("lasting", ()))
        answer(call, *given, **named)

    monkeypatch.setattr(ApiCall, "answer", watched)
    kept = Proposal(value=b"v", version=1, mutable=False, proposal_id=ProposalId(1, 7))
    for committed in (kept, leased()):
        fake.node.here = ReadResult(committed=committed, source=Source.LOCAL)
        fake.ask("GET", "/v2/kv/k")
    return [each != () for each in seen]


def test_no_cached_answer_outlives_an_expiry(fake: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    assert lasting_answers(fake, monkeypatch) == [True, False]


def test_planted_cached_answers_of_values_that_expire(fake: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_answers, "stays", lambda outcome: outcome.source in key_answers.HERE)
    assert lasting_answers(fake, monkeypatch) == [True, True]
