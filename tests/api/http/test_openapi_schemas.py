"""What generators of clients read in the OpenAPI document: every body has a schema, and no schema knows fewer values
than a node takes. `test_generated_clients` runs two of the generators."""

import base64
import ipaddress
import re
from collections.abc import Iterator
from typing import Any

import pytest

from epoxy.api.http.openapi import document
from epoxy.node.process.sections import read_url
from tests.api.http.http_bench import FakeNode, whole_api

DOCUMENT = document(whole_api(FakeNode()).routes)
SCHEMAS = DOCUMENT["components"]["schemas"]
METHODS = ("get", "put", "post", "patch", "delete")


def operations() -> Iterator[dict[str, Any]]:
    for path in DOCUMENT["paths"].values():
        yield from (operation for method, operation in path.items() if method in METHODS)


def nested(schema: Any) -> Iterator[dict[str, Any]]:
    """A schema, its parts, and what they refer to."""
    if isinstance(schema, dict):
        yield schema
        if "$ref" in schema:
            yield from nested(SCHEMAS[schema["$ref"].rpartition("/")[2]])
        for part in schema.values():
            yield from nested(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from nested(part)


def named(name: str, within: Any) -> list[dict[str, Any]]:
    """The schemas of all properties of this name."""
    return [part["properties"][name] for part in nested(within) if name in part.get("properties", {})]


def test_every_body_of_a_request_has_a_schema() -> None:
    bodies = {each["operationId"]: each["requestBody"] for each in operations() if "requestBody" in each}
    orders = {"initAuth", "createToken", "rotateToken", "makePlan"}
    paths = {"postActor", "putActor", "patchActor"}
    assert set(bodies) == {"putKey", "changeMembers", "transact", "ensureActor", "requestActor"} | orders | paths
    for name, body in bodies.items():
        ((media_type, content),) = body["content"].items()
        if name in {"putKey", "requestActor"} | paths:
            assert (media_type, content["schema"]) == (
                "application/octet-stream",
                {"type": "string", "format": "binary"},
            )
        else:
            assert media_type == "application/json"
            referred = SCHEMAS[content["schema"]["$ref"].rpartition("/")[2]]
            assert referred["type"] == "object", name
            assert "anyOf" not in referred, "a generator makes a union of nothing out of conditions between properties"


def test_every_reference_leads_somewhere_and_every_choice_has_a_type() -> None:
    for part in nested(DOCUMENT):
        if "$ref" in part:
            assert part["$ref"].rpartition("/")[2] in SCHEMAS
        if isinstance(part.get("enum"), list):
            assert part["type"] == "string", part


def test_base64_is_any_base64() -> None:
    given = named("value_base64", SCHEMAS["TxnJson"])
    assert len(given) == 3, "in a compare, and in the puts of both cases"
    lists = [each["items"] for each in named("one_of_base64", SCHEMAS["TxnJson"])]
    for schema in (*given, *lists):
        assert "enum" not in schema
        assert schema["contentEncoding"] == "base64"
        pattern = re.compile(schema["pattern"])
        for size in range(70):
            assert pattern.fullmatch(base64.b64encode(bytes(range(180, 180 + size))).decode())
        for wrong in ("a", "ab", "abc", "ab=", "abc==", "=", "ab-_", "ab c", "abcd=", "abcde==="):
            assert not pattern.fullmatch(wrong), wrong


def url_pattern() -> re.Pattern[str]:
    """Of members that are added and of those that move."""
    added, moved = (schema["pattern"] for schema in named("url", SCHEMAS["MembersOrder"]))
    assert added == moved
    return re.compile(added)


@pytest.mark.parametrize(
    "address",
    [
        *(f"http://10.0.0.1:{port}" for port in (1, 80, 7800, 9999, 10000, 24800, 49152, 59999, 65535)),
        *("https://node-1.example.com", "http://Node_1.internal:443", "http://x", "http://[::1]:7800", "http://[::]"),
        *("https://[2001:db8::8a2e:370:7334]:443", "http://[fe80:0:0:0:1:2:3:4]", "http://[1:2:3:4:5:6:7::]"),
    ],
)
def test_an_address_the_api_takes_is_in_the_document(address: str) -> None:
    assert url_pattern().search(address)
    assert read_url(address) == address


@pytest.mark.parametrize(
    "address",
    [
        *(f"http://10.0.0.1:{port}" for port in (0, 65536, 70000, 99999, 100000)),
        *("ftp://x", "http://", "http://x/path", "http://[::1", "http://u@x", "x:7800"),
    ],
)
def test_an_address_the_document_has_not_the_api_refuses_too(address: str) -> None:
    assert not url_pattern().search(address)
    with pytest.raises(ValueError):  # noqa: PT011 (urlsplit's own words, or none)
        read_url(address)


def test_ipv6_addresses_of_the_document_are_such() -> None:
    pattern = url_pattern()
    for groups in range(1, 9):
        for gap in range(groups + 1):
            words = [format(n + 1, "x") for n in range(groups)]
            text = ":".join(words[:gap]) + "::" + ":".join(words[gap:])
            try:
                ipaddress.IPv6Address(text)
                real = True
            except ValueError:
                real = False
            assert bool(pattern.search(f"http://[{text}]")) is real, text
