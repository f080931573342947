"""Writes through the HTTP API: what the node is asked, and what the writer is told, literally."""

import pytest

from epoxy.model.records import Proposal
from epoxy.model.writes import Committed, ConsensusFailed, NothingToDelete, Outcome, Path, Refused, Write
from tests.api.http.fake_api import CONFLICTS, JSON, FakeApi, ours, told, won
from tests.api.http.http_bench import proposal

# What the node is asked


@pytest.mark.parametrize(
    ("target", "key"),
    [
        ("/v2/kv/k", b"k"),
        ("/v2/kv/user/ada", b"user/ada"),
        ("/v2/kv/user%2Fada", b"user/ada"),
        ("/v2/kv/%00%ff+%25", b"\x00\xff+%"),
        ("/v2/kv/\xe9", b"\xe9"),
        ("/v2/kv/" + "k" * 1024, b"k" * 1024),
        ("/v2/kv//", b"/"),
    ],
)
def test_a_key_is_the_rest_of_the_path(fake: FakeApi, target: str, key: bytes) -> None:
    fake.write(won(), target)
    assert fake.node.writes == [Write(key=key, value=b"v")]


@pytest.mark.parametrize(
    ("target", "headers", "write"),
    [
        ("", {}, Write(key=b"k", value=b"v")),
        ("?mode=reserve", {}, Write(key=b"k", value=b"v")),
        ("?mode=put", {}, Write(key=b"k", value=b"v", mutable=True)),
        ("?", {"epoxy_mode": "put"}, Write(key=b"k", value=b"v", mutable=True)),
        ("", {"mode": "put"}, Write(key=b"k", value=b"v", mutable=True)),
        ("?mode=put", {"epoxy_mode": "put"}, Write(key=b"k", value=b"v", mutable=True)),
        ("?mode=put&if_version=0", {}, Write(key=b"k", value=b"v", mutable=True, if_version=0)),
        (
            "?if_version=18446744073709551615&mode=put",
            {},
            Write(key=b"k", value=b"v", mutable=True, if_version=2**64 - 1),
        ),
        ("?&m%6Fde=p%75t&", {}, Write(key=b"k", value=b"v", mutable=True)),
    ],
)
def test_modes_and_conditions(fake: FakeApi, target: str, headers: dict[str, str], write: Write) -> None:
    fake.write(won(), f"/v2/kv/k{target}", **headers)
    assert fake.node.writes == [write]


def test_an_empty_value_is_a_value(fake: FakeApi) -> None:
    fake.node.outcome = won()
    assert fake.ask("PUT", "/v2/kv/k", b"").status == 201
    assert fake.ask("PUT", "/v2/kv/k", transfer_encoding="chunked").status == 201
    assert [write.value for write in fake.node.writes] == [b"", b""]


@pytest.mark.parametrize(("target", "if_version"), [("", None), ("?if_version=3", 3)])
def test_delete_writes_a_tombstone(fake: FakeApi, target: str, if_version: int | None) -> None:
    fake.write(won(), f"/v2/kv/k{target}", "DELETE")
    assert fake.node.writes == [Write(key=b"k", value=None, mutable=True, if_version=if_version)]


# What a writer is told


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
    assert answer.error() == told("not_found", "there is nothing to delete under this key")
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
    words = "the outcome is unknown: no quorum after 10 retries. The write may still take effect"
    assert answer.error() == told("consensus_failed", words, definite=False)
    assert "retry-after" not in answer.headers


def test_a_refused_write_is_answered_with_429(fake: FakeApi) -> None:
    answer = fake.write(Refused(reason="256 writes are waiting for this key already"))
    assert answer.status == 429
    words = "turned away: 256 writes are waiting for this key already"
    assert answer.error() == told("overloaded", words, retry_after_ms=1000)
    assert answer.headers["retry-after"] == "1"
