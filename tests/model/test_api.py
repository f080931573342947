"""The records of the HTTP API: what a node leaves out, and what a client tolerates."""

from typing import Any

import msgspec
import pytest

from epoxy.model import api, api_actors


def sent(record: msgspec.Struct) -> Any:
    return msgspec.json.decode(msgspec.json.encode(record))


def read(document: dict[str, Any], kind: type[Any]) -> Any:
    return msgspec.json.decode(msgspec.json.encode(document), type=kind)


def test_a_problem_says_when_to_try_again_only_if_that_is_known() -> None:
    problem = api.Problem(code="c", message="m", definite=True)
    assert sent(api.Failure(error=problem)) == {"error": {"code": "c", "message": "m", "definite": True}}
    assert sent(msgspec.structs.replace(problem, retry_after_ms=5))["retry_after_ms"] == 5


def test_a_key_has_its_value_twice_and_what_belongs_to_writes_only_after_a_write() -> None:
    record = api.KeyRecord(key="a%00", value=None, value_base64=b"\xff", version=1, mutable=False)
    plain = {"key": "a%00", "value": None, "value_base64": "/w==", "version": 1, "mutable": False, "deleted": False}
    assert sent(record) == plain
    assert sent(msgspec.structs.replace(record, mine=True)) == plain | {"mine": True}


def test_progress_is_left_out_unless_it_was_asked_for() -> None:
    row = api.MemberRow(id=1, status="active", url="", identity=0, datacenter="")
    assert sent(row) == {"id": 1, "status": "active", "url": "", "identity": 0, "datacenter": ""}
    silent = msgspec.structs.replace(row, progress=api.MemberProgress(heard=False))
    assert sent(silent)["progress"]["heard"] is False


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        (api.NodeReport, {"id": 1}),
        (api.PeerStatus, {"id": 2}),
        (api.KeyRecord, {"key": "k", "value_base64": None, "version": 1, "mutable": True}),
        (api.Ordered, {"wanted": [1], "epoch": 2, "queued": False}),
    ],
)
def test_a_client_tolerates_what_a_newer_node_adds(kind: type[Any], document: dict[str, Any]) -> None:
    assert read(document | {"newer": [1]}, kind) == read(document, kind)


@pytest.mark.parametrize(
    ("kind", "document"),
    [
        (api.MembersOrder, {"remove": [1]}),
        (api.Newcomer, {"id": 1, "url": "x"}),
        (api_actors.ActorOrder, {"name": "n", "key": "k"}),
    ],
)
def test_an_order_with_an_unknown_field_is_refused(kind: type[Any], document: dict[str, Any]) -> None:
    assert read(document, kind)
    with pytest.raises(msgspec.ValidationError, match="newer"):
        read(document | {"newer": 1}, kind)


def test_what_is_documented_is_not_enforced() -> None:
    """Limits of the document count characters, those of a node bytes, and a node refuses in its own words."""
    assert read({"id": 0, "url": "no address"}, api.Newcomer).id == 0
    (schema,), _ = msgspec.json.schema_components([api.ReplicaId])
    assert schema == {"type": "integer", "minimum": 1, "maximum": 2**32 - 1}
