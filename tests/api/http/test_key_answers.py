"""What a client that writes over HTTP is told, literally. Answers to reads: test_routes_kv_reads."""

import pytest

from epoxy.model.records import Proposal
from epoxy.model.writes import Committed, ConsensusFailed, NotAnInteger, NothingToDelete, Outcome, Path, Refused
from epoxy.node.quorum_watch import NO_QUORUM
from tests.api.http.fake_api import CONFLICTS, JSON, FakeApi, ours, told, won
from tests.api.http.http_bench import proposal


@pytest.mark.parametrize(
    ("outcome", "status", "version", "mutable", "mine"),
    [
        (won(), 201, "1", "false", "true"),
        (Committed(proposal=proposal(), mine=False, path=Path.FAST), 200, "1", "false", "false"),
        (Committed(proposal=proposal(b"v", 1, mutable=True), mine=True, path=Path.FAST), 201, "1", "true", "true"),
        (
            Committed(
                proposal=proposal(b"v", 5, mutable=True),
                mine=True,
                path=Path.FAST,
                previous=proposal(b"u", 4, mutable=True),
            ),
            200,
            "5",
            "true",
            "true",
        ),
        (
            Committed(proposal=proposal(b"v", 5), mine=True, path=Path.FAST, previous=proposal(None, 4, mutable=True)),
            201,
            "5",
            "false",
            "true",
        ),
        (Committed(proposal=proposal(b"v", 5), mine=True, path=Path.FAST), 201, "5", "false", "true"),
        (Committed(proposal=proposal(b"v", 5, mutable=True), mine=True, path=Path.FAST), 200, "5", "true", "true"),
    ],
)
def test_committed(fake: FakeApi, outcome: Committed, status: int, version: str, mutable: str, mine: str) -> None:
    answer = fake.write(outcome)
    assert (answer.status, answer.body) == (status, b"")
    assert ours(answer) == {
        "epoxy-version": version,
        "epoxy-mutable": mutable,
        "epoxy-path": "fast",
        "epoxy-mine": mine,
    }


def test_committed_as_json(fake: FakeApi) -> None:
    answer = fake.write(won(), "/v2/kv/user/%C3%A9%00", accept=f"text/html, {JSON};q=0.9")
    assert answer.status == 201
    assert answer.json() == {
        "key": "user/%C3%A9%00",
        "value": "v",
        "value_base64": "dg==",
        "version": 1,
        "mutable": False,
        "deleted": False,
        "mine": True,
        "path": "fast",
    }


@pytest.mark.parametrize("path", list(Path))
def test_the_path_is_named(fake: FakeApi, path: Path) -> None:
    outcome = Committed(proposal=proposal(), mine=False, path=path)
    assert fake.write(outcome).headers["epoxy-path"] == path.value


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize(("outcome", "code", "message", "there"), CONFLICTS)
def test_a_conflict_brings_what_is_there(
    fake: FakeApi, method: str, outcome: Outcome, code: str, message: str, there: Proposal | None
) -> None:
    answer = fake.write(outcome, method=method)
    about = {"epoxy-version": str(there.version), "epoxy-mutable": str(there.mutable).lower()} if there else {}
    assert (answer.status, answer.body) == (409, (there.value if there else None) or b"")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert ours(answer) == {"epoxy-error": code, "epoxy-path": "local", "epoxy-mine": "false"} | about

    answer = fake.write(outcome, method=method, accept=JSON)
    assert answer.status == 409
    assert ours(answer) == {"epoxy-error": code, "epoxy-path": "local", "epoxy-mine": "false"} | about
    assert answer.json()["error"] == told(code, message)
    committed = answer.json()["committed"]
    assert (committed and (committed["value"], committed["version"], committed["deleted"])) == (
        there
        and ((there.value or b"").decode() if there.value is not None else None, there.version, there.is_tombstone)
    )


def test_nothing_to_delete(fake: FakeApi) -> None:
    answer = fake.write(NothingToDelete(committed=None, path=Path.SLOW), method="DELETE")
    assert answer.status == 404
    assert answer.error() == told("not_found", "there is nothing under this key")
    assert ours(answer) == {"epoxy-error": "not_found", "epoxy-path": "slow", "epoxy-mine": "false"}
    tombstone = proposal(None, 4, mutable=True)
    answer = fake.write(NothingToDelete(committed=tombstone, path=Path.SLOW), method="DELETE", accept=JSON)
    assert answer.status == 404
    assert answer.headers["epoxy-version"] == "4"


def test_a_deleted_key(fake: FakeApi) -> None:
    outcome = Committed(
        proposal=proposal(None, 2, mutable=True), mine=True, path=Path.SLOW, previous=proposal(b"v", 1, mutable=True)
    )
    answer = fake.write(outcome, method="DELETE")
    assert (answer.status, answer.body, answer.headers["epoxy-version"]) == (200, b"", "2")
    answer = fake.write(outcome, method="DELETE", accept=JSON)
    assert answer.json() == {
        "key": "k",
        "value": None,
        "value_base64": None,
        "version": 2,
        "mutable": True,
        "deleted": True,
        "mine": True,
        "path": "slow",
    }


def test_an_unknown_outcome_is_not_definite(fake: FakeApi) -> None:
    answer = fake.write(ConsensusFailed(reason="no quorum after 10 retries"))
    assert answer.status == 503
    words = "the outcome is unknown: no quorum after 10 retries. The write may have taken effect, or may still"
    assert answer.error() == told("consensus_failed", words, definite=False)
    assert "retry-after" not in answer.headers


def test_a_write_without_a_quorum_is_refused_definitely(fake: FakeApi) -> None:
    answer = fake.write(NO_QUORUM)
    assert answer.status == 503
    assert answer.error() == told("no_quorum", NO_QUORUM.reason, retry_after_ms=1000)
    assert answer.headers["retry-after"] == "1"


def test_a_refused_write_is_answered_with_429(fake: FakeApi) -> None:
    answer = fake.write(Refused(reason="256 writes are waiting for this key already"))
    assert answer.status == 429
    words = "turned away: 256 writes are waiting for this key already"
    assert answer.error() == told("overloaded", words, retry_after_ms=1000)
    assert answer.headers["retry-after"] == "1"


def replaced(value: bytes | None, was: bytes | None) -> Committed:
    previous = proposal(was, 4, mutable=True)
    return Committed(proposal=proposal(value, 5, mutable=True), mine=True, path=Path.FAST, previous=previous)


HEADERS = {"epoxy-version": "5", "epoxy-mutable": "true", "epoxy-path": "fast", "epoxy-mine": "true"}


@pytest.mark.parametrize(("method", "value"), [("PUT", b"v"), ("DELETE", None)])
@pytest.mark.parametrize(("was", "text"), [(b"u", "u"), (b"", ""), (b"\xff", None)])
def test_returning_answers_what_was_there(
    fake: FakeApi, method: str, value: bytes | None, was: bytes, text: str | None
) -> None:
    target = "/v2/kv/k?mode=put&returning=true" if method == "PUT" else "/v2/kv/k?returning=true"
    answer = fake.write(replaced(value, was), target, method)
    assert (answer.status, answer.body) == (200, was)
    assert ours(answer) == HEADERS | {"epoxy-previous-version": "4"}
    assert answer.headers["x-content-type-options"] == "nosniff"
    answer = fake.write(replaced(value, was), target, method, accept=JSON)
    assert answer.json()["version"] == 5
    previous = answer.json()["previous"]
    assert (previous["value"], previous["version"]) == (text, 4)


@pytest.mark.parametrize(
    "outcome", [replaced(b"v", None), Committed(proposal=proposal(b"v", 1, mutable=True), mine=True, path=Path.FAST)]
)
def test_returning_tells_an_absent_value_from_an_empty_one(fake: FakeApi, outcome: Committed) -> None:
    answer = fake.write(outcome, "/v2/kv/k?mode=put&returning=true")
    assert (answer.status, answer.body) == (201, b"")
    assert "epoxy-previous-version" not in answer.headers
    answer = fake.write(outcome, "/v2/kv/k?mode=put&returning=true", accept=JSON)
    assert answer.json()["previous"] is None


def test_returning_of_a_write_that_fails(fake: FakeApi) -> None:
    answer = fake.write(NothingToDelete(committed=None, path=Path.SLOW), "/v2/kv/k?returning=true", "DELETE")
    assert (answer.status, answer.error()["code"]) == (404, "not_found")


def test_a_sum_is_the_body(fake: FakeApi) -> None:
    answer = fake.write(replaced(b"42", b"37"), "/v2/kv/k?add=5", "PATCH")
    assert (answer.status, answer.body, ours(answer)) == (200, b"42", HEADERS)
    answer = fake.write(replaced(b"5", None), "/v2/kv/k?add=5", "PATCH", accept=JSON)
    assert answer.status == 201
    assert (answer.json()["value"], answer.json()["version"]) == ("5", 5)


@pytest.mark.parametrize("reason", ["value is not an integer or out of range", "increment or decrement would overflow"])
def test_what_cannot_be_added_to_is_a_conflict(fake: FakeApi, reason: str) -> None:
    word = proposal(b"word", 3, mutable=True)
    outcome = NotAnInteger(committed=word, path=Path.SLOW, reason=reason)
    answer = fake.write(outcome, "/v2/kv/k?add=5", "PATCH")
    assert (answer.status, answer.body) == (409, b"word")
    assert (answer.headers["epoxy-error"], answer.headers["epoxy-version"]) == ("not_an_integer", "3")
    answer = fake.write(outcome, "/v2/kv/k?add=5", "PATCH", accept=JSON)
    assert answer.json()["error"] == told("not_an_integer", reason)
    assert answer.json()["committed"]["value"] == "word"
