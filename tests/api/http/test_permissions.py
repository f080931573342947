"""What a grant with prefixes may do with single keys, names and pages of them."""

import asyncio
from typing import Any

import msgspec
import pytest

from epoxy.api.http.event_feeds import EventFeeds
from epoxy.api.http.inputs import BadRequest
from epoxy.api.http.permissions import check_call, check_call_all, check_list, may_call, missing_role
from epoxy.model.access import Access, AccessRole, Grant
from epoxy.model.actors import ActorName
from epoxy.protocol.access.principal import OPEN, STRANGER, Principal
from tests.api.http.access_bench import Guarded, bearer
from tests.api.http.http_bench import Wire, proposal, request

READER, WRITER, CALLER = AccessRole.READER, AccessRole.WRITER, AccessRole.CALLER
FORBIDDEN = (403, "forbidden")
JSON = {"content_type": "application/json"}


def limited(*roles: AccessRole, prefixes: tuple[bytes, ...] = (b"user/",)) -> Guarded:
    here = Guarded()
    here.node.give(1, *roles, prefixes=prefixes)
    return here


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("GET", "/v2/kv/{key}", None),
        ("GET", "/v2/kv/{key}?read=linearizable", None),
        ("HEAD", "/v2/kv/{key}", None),
        ("PUT", "/v2/kv/{key}", b"v"),
        ("PUT", "/v2/kv/{key}?mode=put", b"v"),
        ("PUT", "/v2/kv/{key}?mode=put&returning=true", b"v"),
        ("PATCH", "/v2/kv/{key}?add=1", None),
        ("DELETE", "/v2/kv/{key}", None),
        ("GET", "/v2/inspect/{key}", None),
        ("GET", "/v2/kv?prefix={key}", None),
    ],
)
def test_keys_outside_of_the_prefixes(method: str, target: str, body: bytes | None) -> None:
    here = limited(WRITER)
    assert here.ask(method, target.format(key="user/ann"), body, by=1).status in (200, 201)
    assert here.ask(method, target.format(key="us%65r%2Fann"), body, by=1).status in (200, 201)
    done = len(here.node.writes), len(here.node.reads)
    for key in ("other/ann", "use", "user", "User/ann", "%2Fuser/ann"):
        assert here.code(method, target.format(key=key), body, by=1) == FORBIDDEN, key
    assert (len(here.node.writes), len(here.node.reads)) == done, "nothing was done"


def test_a_refusal_says_what_the_grant_is_limited_to() -> None:
    told = limited(READER).ask("GET", "/v2/kv/other", by=1).error()["message"]
    assert told == "the grant 'client-1' is limited to 'user/': it does not read 'other'"
    told = limited(READER).ask("GET", "/v2/kv", by=1).error()["message"]
    assert told == "the grant 'client-1' is limited to 'user/': without prefix= this is wider"


def txn(**parts: Any) -> bytes:
    return msgspec.json.encode(parts)


@pytest.mark.parametrize(
    "parts",
    [
        {"compare": [{"key": "other", "value": "x"}], "then": [{"op": "put", "key": "user/a", "value": "1"}]},
        {"then": [{"op": "put", "key": "user/a", "value": "1"}, {"op": "put", "key": "other", "value": "1"}]},
        {"then": [{"op": "put", "key": "user/a", "value": "1"}], "else": [{"op": "delete", "key": "other"}]},
        {"then": [{"op": "put", "key": "user/a", "value": "1"}, {"op": "get", "key": "other"}]},
        {"then": [{"op": "put", "key": "user/a", "value": "1"}], "reads": ["other"]},
    ],
)
def test_every_key_of_a_transaction_counts(parts: dict[str, Any]) -> None:
    here = limited(WRITER)
    assert here.code("POST", "/v2/txn", txn(**parts), by=1, **JSON) == FORBIDDEN
    assert here.node.txns == []
    inside = msgspec.json.encode(parts).replace(b'"other"', b'"user/b"')
    assert here.code("POST", "/v2/txn", inside, by=1, **JSON) == (429, "overloaded")
    assert len(here.node.txns) == 1


def test_changes_are_filtered_and_the_cursor_moves_on() -> None:
    async def test() -> None:
        here = limited(READER)
        for key in (b"other", b"user/a", b"other/user/b", b"user/b"):
            here.node.commit(key, proposal())
        wire = Wire(request("GET", "/v2/changes?follow=false", authorization=bearer(1)))
        here.api(wire.exchange)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [b'"key":"%b"' % key in wire.sent for key in (b"other", b"user/a", b"other/user/b", b"user/b")] == [
            False,
            True,
            False,
            True,
        ]
        assert wire.sent.endswith(b"0\r\n\r\n")

    asyncio.run(test())


@pytest.mark.parametrize("change", ["revoked", "ended", "another role", "narrowed"])
def test_a_stream_of_changes_ends_with_its_grant(change: str) -> None:
    async def test() -> None:
        here = limited(READER, prefixes=())
        wire = Wire(request("GET", "/v2/changes", authorization=bearer(1)))
        here.api(wire.exchange)
        await asyncio.sleep(0)
        here.node.commit(b"user/before", proposal())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert b"user/before" in wire.sent
        match change:
            case "revoked":
                here.node.revoke(1)
            case "ended":
                here.node.end(1)
            case "another role":
                here.node.give(1, AccessRole.OPERATOR)
            case _:
                here.node.give(1, READER, prefixes=(b"user/",))
        here.node.commit(b"later", proposal())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert b"later" not in wire.sent
        assert wire.sent.endswith(b"0\r\n\r\n") is (change != "narrowed")
        here.api.close()

    asyncio.run(test())


def test_planted_a_stream_that_does_not_look_again_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EventFeeds, "_look_again", lambda _self: None)
    with pytest.raises(AssertionError, match="later"):
        test_a_stream_of_changes_ends_with_its_grant("revoked")


# Actors


def principal(*prefixes: bytes) -> Principal:
    return Principal(Grant(name="bot", roles=(CALLER,), prefixes=prefixes))


def test_names_of_actors_are_matched_as_one_text() -> None:
    bot = principal(b"chat/room/")
    check_call(bot, ActorName("chat", "room", "lobby"))
    check_call(bot, ActorName("chat", "room", "a/b"))
    check_call_all(bot, "chat", "room")
    for name in (ActorName("chat", "rooms", "x"), ActorName("chat", "roo", "m/x"), ActorName("other", "room", "x")):
        with pytest.raises(BadRequest, match="limited to 'chat/room/'"):
            check_call(bot, name)
    with pytest.raises(BadRequest, match="does not list 'chat/'"):
        check_call_all(bot, "chat", None)
    check_call_all(principal(b"chat/"), "chat", None)


def test_a_slash_in_a_namespace_or_name_is_no_border() -> None:
    bot = principal(b"chat/room/")
    assert not may_call(bot, "chat/room", "x", "y")
    assert not may_call(bot, "chat", "room/x", "y")
    assert may_call(principal(), "chat/room", "x", "y"), "a grant without prefixes has all names"
    assert not may_call(STRANGER, "a", "b", "c")


def test_an_open_node_has_all_rights_and_a_stranger_none() -> None:
    check_list(OPEN, b"")
    with pytest.raises(BadRequest):
        check_list(STRANGER, b"")
    assert missing_role(STRANGER, Access.OPERATE) == "this needs the role operator; the grant '' has none"
