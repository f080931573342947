"""`epoxy inspect`: what every replica holds for a key."""

import json
from typing import Any

import msgspec
import pytest

from epoxy.cli.main import run
from epoxy.model.ballot import NO_BALLOT, Ballot, fast_ballot
from epoxy.model.messages import Inspected
from epoxy.model.records import Expiry, Proposal, ProposalId, Vote
from tests.client.fake import FakeNode

Captured = pytest.CaptureFixture[str]


def proposal(version: int, value: bytes | None = b"eu", *, mutable: bool = True) -> Proposal:
    return Proposal(value=value, version=version, mutable=mutable, proposal_id=ProposalId(1, 0xABC))


def holding(replica: int, committed: Proposal | None, **change: Any) -> dict[str, Any]:
    held = Inspected(epoch=1, committed=committed, lineage=(), promised=NO_BALLOT, vote=None, cached=None, changelog=())
    return {"id": replica, "datacenter": f"dc-{replica}", "held": msgspec.structs.replace(held, **change)}


def test_inspect_draws_all_replicas(node: FakeNode, capsys: Captured) -> None:
    vote = Vote(proposal=proposal(3, b"us"), ballot=fast_ballot(2), epoch=1)
    node.inspected = {
        "key": "k",
        "replicas": [
            holding(1, proposal(2), changelog=(bytes(10),) * 2),
            holding(2, proposal(1), vote=vote, promised=Ballot(4, 3)),
            {"id": 3, "datacenter": "dc-3", "held": None, "reason": "no answer in time"},
        ],
        "explanation": [{"kind": kind, "text": f"it is {kind}"} for kind in ("good", "info", "warn", "bad")],
    }
    assert run(["inspect", "k"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["datacenter", "replica", "committed"]
    assert lines[1].split() == ["dc-1", "1", "eu,", "version", "2,", "by", "1#abc", "-", "-", "-", "2", "-", "-"]
    second = "dc-2 2 eu, version 1, by 1#abc (4,3) us, version 3, by 1#abc in (1,2), fast - 0 - -"
    assert " ".join(lines[2].split()) == second
    assert "dc-3        3        did not answer: no answer in time" in lines[3]
    assert lines[-5:] == ["", "+ it is good", "- it is info", "! it is warn", "!! it is bad"]


def test_inspect_says_who_folds_the_writes_of_a_key(node: FakeNode, capsys: Captured) -> None:
    ids = ProposalId(1, 1), ProposalId(3, 2)
    fold = Proposal(value=b"9", version=9, mutable=True, proposal_id=ProposalId(3, 3), folded=ids, proposer=2)
    node.inspected = {
        "key": "k",
        "replicas": [holding(1, fold, owner=2, waiting=5), holding(2, fold, waiting=12), holding(3, fold, owner=2)],
    }
    assert run(["inspect", "k"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[-2:] == ["owner", "waiting"]
    assert "9, version 9, by 3#3, the last of 3 writes folded by 2" in lines[1]
    assert [line.split()[-2:] for line in lines[1:4]] == [["2", "5"], ["-", "12"], ["2", "-"]]


def test_inspect_of_a_key_that_no_replica_has(node: FakeNode, capsys: Captured) -> None:
    node.inspected = {"key": "k", "replicas": [holding(1, None), holding(2, None)]}
    assert run(["inspect", "k"]) == 0
    assert capsys.readouterr().out.splitlines()[2].split()[:3] == ["dc-2", "2", "-"]
    assert run(["inspect", "k", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["replicas"][1]["datacenter"] == "dc-2"


def test_inspect_shows_what_a_value_ends_with(node: FakeNode, capsys: Captured) -> None:
    timed = msgspec.structs.replace(proposal(4), expiry=Expiry(ttl_ms=1500, since=3))
    bound = msgspec.structs.replace(proposal(4), expiry=Expiry(ttl_ms=0, since=3, session=bytes(16)))
    node.inspected = {"key": "k", "replicas": [holding(1, timed), holding(2, bound)]}
    assert run(["inspect", "k"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "eu, version 4, by 1#abc, ttl 1.5 s since version 3" in lines[1]
    assert f"eu, version 4, by 1#abc, ends with session {'0' * 32}" in lines[2]
