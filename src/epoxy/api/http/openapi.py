"""The HTTP API for machines: an OpenAPI 3.1 document, complete with every error, checked against the running door."""

from collections.abc import Mapping
from typing import Any

import epoxy
from epoxy.api.http.inputs import MAX_VERSION
from epoxy.model.records import MAX_KEY_BYTES
from epoxy.model.transactions import MAX_PARTS, MOST
from epoxy.model.writes import Consistency, Path, Source

Json = dict[str, Any]

OCTETS: Json = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
"""Any bytes. OpenAPI 3.1 could do without the schema; generators of clients cannot."""
STRING: Json = {"type": "string"}
BOOLEAN: Json = {"type": "boolean"}
COUNT: Json = {"type": "integer", "minimum": 0}
ENGINE: Json = {"type": "string", "enum": ["transactions"]}
VERSION: Json = {"type": "integer", "minimum": 0, "maximum": MAX_VERSION}
BASE64: Json = {
    "type": "string",
    "contentEncoding": "base64",
    "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
}


HOST_NAME = "[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
GROUP = "[0-9a-fA-F]{1,4}"
IPV6 = "|".join(
    [
        f"({GROUP}:){{7}}{GROUP}",
        *(f"({GROUP}:){{1,{before}}}(:{GROUP}){{1,{7 - before}}}" for before in range(1, 7)),
        f"({GROUP}:){{1,7}}:",
        f":(:{GROUP}){{1,7}}",
        "::",
    ]
)
"""In full, or with `::` for some groups of zeros."""


def document() -> Json:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Epoxy",
            "version": epoxy.__version__,
            "summary": "Names and values that several datacenters agree on.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths(),
        "components": {"schemas": schemas()},
    }


def paths() -> Json:
    return {
        "/v2/kv/{key}": {"parameters": [key_parameter()], "get": get_key(), "put": put_key(), "delete": delete_key()},
        "/v2/kv": {"get": list_keys()},
        "/v2/changes": {"get": changes()},
        "/v2/status": {"get": asking("getStatus", "How this node and its links are doing", as_json("Status"))},
        "/v2/members": {
            "get": list_members(),
            "post": change_members(),
        },
        "/v2/inspect/{key}": {"parameters": [key_parameter()], "get": inspect()},
        "/v2/txn": {"post": transact()},
        "/metrics": {"get": asking("getMetrics", "Prometheus metrics", {"text/plain": {"schema": STRING}})},
        "/healthz": {"get": asking("getHealth", "Is the process alive", {"text/plain": {"schema": STRING}})},
        "/readyz": {"get": ready()},
        "/openapi.json": {"get": asking("getOpenapi", "This document", {"application/json": {"schema": {}}})},
    }


# Operations


def get_key() -> Json:
    read = query(
        "read",
        one_of([each.value for each in Consistency], "optimistic"),
        "How sure to be.",
    )
    headers = committed_headers() | {"Epoxy-Source": header(enum(Source), "Where the answer was found.")}
    answers = {
        "200": {"description": "The value.", "headers": headers, "content": OCTETS | as_json("Record")},
        "404": failure("Absent. A key that was deleted still has an Epoxy-Version."),
        "429": overloaded(),
    }
    return operation("getKey", "Read a key", answers) | {"parameters": [read]}


def put_key() -> Json:
    parameters = [
        query(
            "mode",
            one_of(["reserve", "put"], "reserve"),
            "Take a free name for ever, or write a version.",
        ),
        {
            **query("mode", one_of(["reserve", "put"]), "As the parameter; they must agree."),
            "in": "header",
            "name": "Epoxy-Mode",
        },
        if_version("With mode=put only."),
    ]
    answers = {
        "200": written("It was there: the same value reserved before, or a newer version of a mutable key."),
        "201": written("This write made the key."),
        "404": failure("No such route: clients resolve /../ before they send it."),
        "409": conflict(),
        "411": failure("Neither a body nor a Content-Length."),
        "429": overloaded(),
    }
    body = {"required": True, "description": "The value, up to 1 MiB.", "content": OCTETS}
    extra = {"parameters": parameters, "requestBody": body}
    return operation("putKey", "Reserve a name, or write a mutable key", answers) | extra


def delete_key() -> Json:
    answers = {
        "200": written("Deleted: the version is that of the tombstone."),
        "404": failure("There is nothing to delete."),
        "409": conflict(),
        "429": overloaded(),
    }
    extra = {"parameters": [if_version("Delete only this version.")]}
    return operation("deleteKey", "Delete a mutable key", answers) | extra


def list_keys() -> Json:
    parameters = [
        query("prefix", fragment(), "Only keys that begin with this."),
        query("after", fragment(), "Only keys beyond this one: `next` of the page before."),
        query("limit", {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}, "Keys on the page."),
    ]
    answers = {"200": {"description": "A page.", "content": as_json("Page")}}
    found = operation("listKeys", "Committed keys of this replica, in order", answers)
    return found | {"parameters": parameters}


def changes() -> Json:
    cursor = {"type": "string", "pattern": "^([0-9a-fA-F]{20}|now)?$"}
    parameters = [
        query("after", cursor, "The id of the last event seen, or now."),
        {**query("x", cursor, "The same, and it wins."), "in": "header", "name": "Last-Event-ID"},
        query("prefix", fragment(), "Only keys that begin with this."),
        query(
            "follow",
            one_of(["true", "false"], "true"),
            "Whether to wait for what comes.",
        ),
    ]
    answers = {
        "200": {"description": "Server-sent events.", "content": {"text/event-stream": {"schema": event()}}},
        "410": failure("What comes next after this cursor is no longer kept."),
        "429": failure("Too many streams are open."),
    }
    found = operation("getChanges", "What this replica learned, as it learns it", answers)
    return found | {"parameters": parameters}


def list_members() -> Json:
    progress = query("progress", one_of(["true", "false"], "false"), "Ask every member how far it is.")
    found = asking("getMembers", "Who belongs to the cluster, and how far a change is", as_json("Members"))
    found["responses"]["429"] = overloaded()
    return found | {"parameters": [progress]}


def change_members() -> Json:
    answers = {
        "202": {"description": "Written down; the members change when they can.", "content": as_json("Ordered")},
        "404": failure("One to be removed is none of the members."),
        "409": failure("Not possible: already a member, an address twice, nobody left, or too few left to decide."),
        "411": failure("Neither a body nor a Content-Length."),
        "415": not_json(),
        "429": overloaded(),
        "501": failure("The members of this node never change."),
    }
    body = {"required": True, "description": "Who comes and who goes, in one change.", "content": as_json("Order")}
    return operation("changeMembers", "Change who belongs to the cluster", answers) | {"requestBody": body}


def inspect() -> Json:
    answers = {
        "200": {"description": "What they hold.", "content": as_json("Inspection")},
        "404": failure("No such route: clients resolve /../ before they send it."),
        "429": overloaded(),
    }
    return operation("inspectKey", "What every replica holds for a key", answers)


def ready() -> Json:
    answers = {"200": {"description": "Yes.", "content": {"text/plain": {"schema": STRING}}}}
    what = {"name": "for", "in": "query", "schema": {"type": "string", "enum": ["keys", "transactions"]}}
    found = operation("getReady", "Does the node serve keys, and order transactions, if they are asked for", answers)
    return found | {"parameters": [what]}


def asking(name: str, summary: str, content: Json) -> Json:
    """Operations that only tell."""
    return operation(name, summary, {"200": {"description": summary, "content": content}})


def transact() -> Json:
    answers = {
        "200": {"description": "Executed, at one moment.", "content": as_json("Executed")},
        "409": failure("Nothing was done: some keys are outside transactions, and so never in one."),
        "413": failure("More than a transaction may hold."),
        "415": not_json(),
        "429": overloaded(),
    }
    body = {"required": True, "content": as_json("Txn")}
    return operation("transact", "A transaction over several keys", answers) | {"requestBody": body}


def operation(name: str, summary: str, answers: Json) -> Json:
    """With what may go wrong anywhere. No `default`: an answer that is not listed is a mistake, here or in the door."""
    common = {
        "400": failure("The request is outside the contract."),
        "403": failure("A web page of another origin made a browser send it."),
        "408": failure("The request took too long to arrive."),
        "413": failure("The body has more than 1 MiB."),
        "421": failure("`Host` is no name of this node: `node.allowed_hosts`."),
        "431": failure("Address and headers are too long."),
        "500": failure("A bug; the log has more. Not definite."),
        "503": failure("Not now: not ready, or no quorum. `definite` tells whether it may have happened."),
    }
    return {"operationId": name, "summary": summary, "responses": common | answers}


# Parts of operations


def query(name: str, schema: Json, words: str) -> Json:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": words}


def key_parameter() -> Json:
    words = f"The key, 1 to {MAX_KEY_BYTES} bytes, percent-encoded; a plain / may stay."
    return {
        "name": "key",
        "in": "path",
        "required": True,
        "schema": fragment() | {"minLength": 1},
        "description": words,
    }


def fragment() -> Json:
    return {"type": "string", "maxLength": MAX_KEY_BYTES}


def if_version(words: str) -> Json:
    return query("if_version", VERSION, f"Only if this is the committed version; 0: never written. {words}")


def header(schema: Json, words: str) -> Json:
    return {"schema": schema, "description": words}


def one_of(words: list[str], default: str | None = None) -> Json:
    return {"type": "string", "enum": words} | ({"default": default} if default is not None else {})


def enum(kind: type[Path] | type[Source]) -> Json:
    return one_of([each.value for each in kind])


def committed_headers() -> Json:
    return {
        "Epoxy-Version": header(
            VERSION, "The committed version; 0 is a value of the first layout, or of transactions."
        ),
        "Epoxy-Mutable": header(BOOLEAN, "Whether it can change."),
        "Epoxy-Engine": header(ENGINE, "Only of a key that belongs to transactions: it has no versions."),
    }


def write_headers() -> Json:
    return {
        "Epoxy-Path": header(enum(Path), "How far the write had to travel."),
        "Epoxy-Mine": header(BOOLEAN, "Whether this very request made what is committed."),
    }


def written(words: str) -> Json:
    headers = committed_headers() | write_headers()
    return {"description": words, "headers": headers, "content": OCTETS | as_json("Record")}


def conflict() -> Json:
    words = "Not written: taken, immutable or version_mismatch (Epoxy-Error says which). What is there is the body."
    headers = write_headers() | {"Epoxy-Error": header(STRING, "The code.")}
    return {"description": words, "headers": headers, "content": OCTETS | as_json("Conflict")}


def overloaded() -> Json:
    return failure("Turned away, nothing was done: as much is under way as the node takes on. Try again later.")


def not_json() -> Json:
    return failure("The body must be JSON and say so: Content-Type: application/json.")


def failure(words: str) -> Json:
    headers = {"Epoxy-Error": header(STRING, "The code.")}
    return {"description": words, "headers": headers, "content": as_json("Error")}


def as_json(schema: str) -> Json:
    return {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}}


# Schemas


def schemas() -> Json:
    record = {"$ref": "#/components/schemas/Record"}
    return {
        "Error": shape({"error": problem()}),
        "Conflict": shape({"error": problem(), "committed": {"anyOf": [record, {"type": "null"}]}}),
        "Record": record_shape(),
        "Page": shape({"keys": {"type": "array", "items": record}, "next": {"type": ["string", "null"]}}),
        "Status": status(),
        "Members": members(),
        "Order": order(),
        "Ordered": shape({"wanted": {"type": "array", "items": COUNT}, "epoch": COUNT, "queued": BOOLEAN}),
        "Txn": txn(),
        "Executed": executed(),
        "Inspection": shape({"key": STRING, "replicas": {"type": "array", "items": {"type": "object"}}}),
    }


def shape(properties: Mapping[str, Json], optional: Mapping[str, Json] | None = None) -> Json:
    """Everything named is there; more may come with later versions."""
    return {"type": "object", "required": list(properties), "properties": {**properties, **(optional or {})}}


def txn() -> Json:
    """Where a value is wanted it is `value`, or `value_base64`."""
    key = fragment() | {"minLength": 1, "description": "Percent-encoded."}
    values = {"type": "array", "minItems": 1, "maxItems": MAX_PARTS}
    compares = [
        {"value": STRING},
        {"value_base64": BASE64},
        {"one_of": values | {"items": STRING}},
        {"one_of_base64": values | {"items": BASE64}},
        {"absent": {"const": True}},
    ]
    operations: list[Json] = [
        {"op": {"const": "get"}},
        {"op": {"const": "delete"}},
        {"op": {"const": "put"}, "value": STRING},
        {"op": {"const": "put"}, "value_base64": BASE64},
        {"op": {"const": "add"}, "amount": {"type": "integer", "minimum": -MOST, "maximum": MOST}},
    ]
    several = {"type": "array", "maxItems": MAX_PARTS}
    compare = several | {"items": {"anyOf": [closed({"key": key, **each}) for each in compares]}}
    operation = several | {"items": {"anyOf": [closed({"key": key, **each}) for each in operations]}}
    reads = several | {"items": key, "description": "Looked up before anything is done."}
    properties = {"compare": compare, "then": operation, "else": operation, "reads": reads}
    return {"type": "object", "properties": properties, "minProperties": 1, "additionalProperties": False}


def closed(properties: Mapping[str, Json]) -> Json:
    """Nothing else is understood: a misspelt condition must not become an unconditional write."""
    return shape(properties) | {"additionalProperties": False}


def executed() -> Json:
    maybe = {"type": ["string", "null"]}
    seen = {"key": STRING, "value": maybe, "value_base64": maybe}
    several = {"type": "array", "items": shape(seen)}
    results = {"type": "array", "items": shape({"op": STRING, **seen}, {"error": STRING})}
    return shape({"succeeded": BOOLEAN, "compares": several, "results": results, "reads": several})


def problem() -> Json:
    words = "False: it may have happened, or may still."
    return shape(
        {"code": STRING, "message": STRING, "definite": BOOLEAN | {"description": words}}, {"retry_after_ms": COUNT}
    )


def record_shape() -> Json:
    exact = {"type": ["string", "null"], "contentEncoding": "base64", "description": "The value exactly."}
    text = {"type": ["string", "null"], "description": "The value as text, if it is UTF-8."}
    always = {
        "key": STRING | {"description": "Percent-encoded."},
        "value": text,
        "value_base64": exact,
        "version": VERSION,
        "mutable": BOOLEAN,
        "deleted": BOOLEAN,
    }
    return shape(always, {"mine": BOOLEAN, "path": enum(Path), "source": enum(Source), "engine": ENGINE})


def event() -> Json:
    """The schema of each event, as those read it who know of server-sent events."""
    record = {"$ref": "#/components/schemas/Record"}
    data = STRING | {"contentMediaType": "application/json", "contentSchema": record}
    return shape({"id": STRING | {"pattern": "^[0-9a-f]{20}$"}, "data": data})


def status() -> Json:
    number = {"type": ["number", "null"]}
    peer = shape({"id": COUNT, "datacenter": STRING, "rtt_ms": number, "reachable": BOOLEAN})
    return shape(
        {
            "id": COUNT,
            "datacenter": STRING,
            "pid": COUNT,
            "epoch": COUNT,
            "ready": BOOLEAN,
            "tolerated_failures": {"type": "integer"},
            "fast_path_share": number,
            "peers": {"type": "array", "items": peer},
        }
    )


def members() -> Json:
    ids = {"type": "array", "items": COUNT}
    progress = shape(
        {"heard": BOOLEAN, "epoch": COUNT, "keys": COUNT, "copied": COUNT, "sources": ids, "synced": BOOLEAN}
    )
    replica = shape(
        {"id": COUNT, "status": STRING, "url": STRING, "identity": COUNT, "datacenter": STRING}, {"progress": progress}
    )
    always = {
        "epoch": COUNT,
        "coordinator_id": COUNT,
        "quorum_policy": STRING,
        "quorums": shape({"fast": COUNT, "slow": COUNT}),
        "joint": BOOLEAN,
        "previous": {"type": ["array", "null"], "items": COUNT},
        "wanted": ids,
        "replicas": {"type": "array", "items": replica},
    }
    settled = BOOLEAN | {"description": "No change is under way. With progress=true."}
    waiting = STRING | {"description": "What the change waits for. With progress=true."}
    return shape(always, {"settled": settled, "waiting": waiting})


def order() -> Json:
    replica_id = {"type": "integer", "minimum": 1, "maximum": (1 << 32) - 1}
    url = STRING | {"pattern": f"^https?://({HOST_NAME}|\\[({IPV6})\\])(:{PORT})?$"}
    newcomer = shape({"id": replica_id, "url": url}, {"datacenter": STRING | {"maxLength": 63}})
    properties = {
        "add": {"type": "array", "items": newcomer | {"additionalProperties": False}},
        "remove": {"type": "array", "items": replica_id},
        "force": BOOLEAN | {"description": "Even if too few of those who stay can be reached now."},
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}
