"""Run with the address of a node and the generated package `epoxy_generated` on the path: it reserves, puts, reads and
runs a transaction with nothing but what the generator made of the document."""

import io
import sys
from typing import Any

from epoxy_generated import Client  # type: ignore[import-not-found]
from epoxy_generated.api.default import get_key, get_status, list_keys, put_key, transact  # type: ignore[import-not-found]
from epoxy_generated.models import AddJson, AddJsonOp, CompareJson, PutKeyMode, TxnJson  # type: ignore[import-not-found]
from epoxy_generated.types import File  # type: ignore[import-not-found]


def put(client: Any, key: str, value: bytes, **given: Any) -> tuple[int, dict[str, str]]:
    answer = put_key.sync_detailed(key, client=client, body=File(payload=io.BytesIO(value)), **given)
    return answer.status_code, answer.headers


def main(url: str) -> None:
    client = Client(base_url=url)
    assert put(client, "user/ada", b"eu-west-1")[0] == 201
    status, headers = put(client, "user/ada", b"us-east-1")
    assert (status, headers["epoxy-error"]) == (409, "taken")
    assert get_key.sync("user/ada", client=client).payload.read() == b"eu-west-1"

    assert put(client, "cfg", b"1", mode=PutKeyMode.PUT)[1]["epoxy-version"] == "1"
    assert put(client, "cfg", b"2", mode=PutKeyMode.PUT, if_version=1)[0] == 200
    assert put(client, "cfg", b"3", mode=PutKeyMode.PUT, if_version=1)[0] == 409
    page = list_keys.sync(client=client)
    assert [(row.key, row.value, row.mutable) for row in page.keys] == [
        ("cfg", "2", True),
        ("user/ada", "eu-west-1", False),
    ]

    transfer = TxnJson(
        compare=[CompareJson(key="frozen/a", absent=True)],
        then=[AddJson(op=AddJsonOp.ADD, key="acct/a", amount=-5), AddJson(op=AddJsonOp.ADD, key="acct/b", amount=5)],
        reads=["acct/b"],
    )
    executed = transact.sync(client=client, body=transfer)
    assert executed.succeeded
    assert [result.value for result in executed.results] == ["-5", "5"]
    assert transact.sync(client=client, body=TxnJson(reads=["acct/b"])).reads[0].value == "5"

    moved = transact.sync(client=client, body=TxnJson(reads=["cfg"]))
    assert moved.reads[0].value == "2", "a key that was written by itself"
    assert get_status.sync(client=client).ready


main(sys.argv[1])
