"""The versions of a key, found in the changelog."""

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from epoxy.api.http import routes_history as module
from epoxy.api.http.routes_history import MAX_HISTORIES, MOST_ROWS, SHOWN_BYTES, next_batch
from epoxy.model.access import AccessRole
from epoxy.model.errors import RottenRow
from epoxy.model.marks import OWNED
from epoxy.model.records import ChangelogEntry, Expiry, Proposal, ProposalId
from tests.api.http.access_bench import GuardedNode, bearer
from tests.api.http.http_bench import Answer, FakeNode, Wire, proposal, request, stamp, whole_api


def history(node: FakeNode, target: str = "/v2/history/k", **headers: str) -> Answer:
    """In an event loop: it is looked for in several turns."""

    async def ask() -> Answer:
        wire = Wire(request("GET", target, None, **headers))
        whole_api(node)(wire.exchange)
        while not wire.sent:
            await asyncio.sleep(0)
        return wire.answer()

    return asyncio.run(ask())


def versions(answer: Answer) -> list[int]:
    return [row["version"] for row in answer.json()["changes"]]


def test_changes_of_a_key_the_newest_first() -> None:
    node = FakeNode()
    node.commit(b"k", proposal(b"one", mutable=True))
    node.commit(b"other", proposal(b"x"))
    expiring = replace(proposal(b"two", 2, mutable=True), expiry=Expiry(ttl_ms=500, since=2))
    node.commit(b"k", expiring)
    fold = Proposal(
        value=None, version=4, mutable=True, proposal_id=ProposalId(2, 1), folded=(ProposalId(1, 9),), proposer=1
    )
    node.commit(b"k", fold)
    node.commit(b"k", proposal(OWNED, 5))
    answer = history(node)
    told = answer.json()
    assert (told["key"], told["looked_at"], told["complete"]) == ("k", 5, True)
    deleted, second, first = told["changes"]
    assert deleted == {
        "cursor": stamp(4).hex(),
        "version": 4,
        "first_version": 3,
        "value_base64": None,
        "size": 0,
        "mutable": True,
        "deleted": True,
        "writer": "dc-2",
        "ttl": None,
        "session": None,
    }
    assert (second["ttl"], base64.b64decode(second["value_base64"])) == (500, b"two")
    assert (first["version"], first["first_version"], first["size"]) == (1, 1, 3)
    assert versions(history(node, "/v2/history/k?limit=1")) == [4]
    assert history(node, "/v2/history/never").json()["changes"] == []


def test_a_long_value_is_cut_and_its_size_told() -> None:
    node = FakeNode()
    node.commit(b"k", proposal(b"x" * 5000, mutable=True))
    (row,) = history(node).json()["changes"]
    assert (len(base64.b64decode(row["value_base64"])), row["size"]) == (SHOWN_BYTES, 5000)


def test_it_is_looked_for_in_pieces_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    node = FakeNode()
    for version in range(1, 1001):
        node.commit(b"k" if version % 400 == 1 else b"other", proposal(b"v", version, mutable=True))
    assert versions(history(node)) == [801, 401, 1]
    monkeypatch.setattr(module, "MAX_LOOKED_AT", 300)
    told = history(node).json()
    assert ([row["version"] for row in told["changes"]], told["complete"]) == ([801], False)
    assert 300 <= told["looked_at"] < 300 + MOST_ROWS


def test_batches_are_short_where_values_are_long() -> None:
    rows = [(stamp(1), ChangelogEntry(key=b"k", committed=proposal(b"x" * (1 << 20), mutable=True)))] * 4
    assert next_batch(rows) == 1
    assert (
        next_batch(rows[:0]) == next_batch([(stamp(1), ChangelogEntry(key=b"k", committed=proposal(b"")))]) == MOST_ROWS
    )


def test_few_at_a_time_and_none_for_a_client_that_left() -> None:
    node = FakeNode()
    for version in range(1, 200):
        node.commit(b"other", proposal(b"v", version, mutable=True))

    async def ask() -> None:
        api = whole_api(node)
        wires = [Wire(request("GET", "/v2/history/k")) for _ in range(MAX_HISTORIES)]
        for wire in wires:
            api(wire.exchange)
        refused = Wire(request("GET", "/v2/history/k"))
        api(refused.exchange)
        assert refused.answer().error()["code"] == "overloaded"
        wires[0].abort()
        while not all(wire.sent for wire in wires[1:]):
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert wires[0].sent == b""
        again = [Wire(request("GET", "/v2/history/k")) for _ in range(MAX_HISTORIES)]
        for wire in again:
            api(wire.exchange)
        while not all(wire.sent for wire in again):
            await asyncio.sleep(0)
        assert {wire.answer().status for wire in again} == {200}

    asyncio.run(ask())


def test_a_rotten_row_on_the_way() -> None:
    class Rotten(FakeNode):
        def newest_changes(self, before: bytes | None, limit: int) -> Any:
            if before is not None:
                raise RottenRow(b"row")
            return super().newest_changes(before, limit)

    node = Rotten()
    for version in range(1, 100):
        node.commit(b"k", proposal(b"v", version, mutable=True))
    answer = history(node, "/v2/history/k?limit=90")
    assert (answer.status, answer.error()["code"]) == (503, "rotten_row")


@pytest.mark.parametrize(("target", "code"), [("/v2/history/", "bad_key"), ("/v2/history/k?limit=0", "bad_parameter")])
def test_mistakes(target: str, code: str) -> None:
    answer = history(FakeNode(), target)
    assert (answer.status, answer.error()["code"]) == (400, code)


def test_only_what_a_client_may_read() -> None:
    node = GuardedNode()
    node.give(1, AccessRole.READER, prefixes=(b"mine/",))
    node.commit(b"mine/k", proposal())
    ask: Callable[[str], Answer] = lambda target: history(node, target, authorization=bearer(1))  # noqa: E731
    assert versions(ask("/v2/history/mine/k")) == [1]
    assert ask("/v2/history/k").status == 403
    assert history(node).status == 401
