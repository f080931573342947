"""The part of the OpenAPI document that is about actors and envoys, and the whole of it."""

from epoxy.api.http import openapi
from epoxy.api.http.openapi import (
    BOOLEAN,
    COUNT,
    OCTETS,
    STRING,
    Json,
    as_json,
    closed,
    failure,
    not_json,
    one_of,
    operation,
    query,
    shape,
)
from epoxy.model.actors import MAX_NAME_BYTES, ActorState

NAME: Json = {"type": "string", "minLength": 1, "maxLength": MAX_NAME_BYTES}
ID: Json = {"type": "string", "pattern": "^01[0-9a-f]{36}$"}
SWITCH: Json = one_of(["true", "false"], "false")
LIMIT: Json = {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}


def document() -> Json:
    base = openapi.document()
    schemas = {"schemas": base["components"]["schemas"] | actor_schemas()}
    return base | {"paths": base["paths"] | paths(), "components": base["components"] | schemas}


def paths() -> Json:
    return {
        "/v2/actors": {"post": ensure(), "get": get(), "delete": destroy()},
        "/v2/actors/request": {"post": request()},
        "/v2/envoys": {"get": envoys()},
        "/v2/envoys/drain": {"post": drain()},
    }


def who() -> list[Json]:
    return [
        query("id", ID, "The actor's id."),
        query("namespace", NAME | {"default": "default"}, "Where its name is looked for."),
        query("name", NAME, "With key, instead of id."),
        query("key", NAME, "With name, instead of id."),
    ]


def ensure() -> Json:
    answers = {
        "200": {"description": "It was there.", "content": as_json("Actor")},
        "201": {"description": "This request made it.", "content": as_json("Actor")},
        "415": not_json(),
        "409": {"description": "It was there, and a new one was wanted.", "content": as_json("Actor")},
    }
    body = {"required": True, "content": as_json("ActorWish")}
    return operation("ensureActor", "Find the one actor of a name, or make it", answers) | {"requestBody": body}


def get() -> Json:
    either = {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in ("Actor", "ActorPage")]}
    answers = {
        "200": {
            "description": "The actor; without id and key a page of this datacenter's.",
            "content": {"application/json": {"schema": either}},
        },
        "404": failure("There is no such actor."),
    }
    page = [query("after", ID, "The last id of the page before."), query("limit", LIMIT, "Actors on the page.")]
    return operation("getActors", "An actor, or a page of them", answers) | {"parameters": [*who(), *page]}


def destroy() -> Json:
    answers = {
        "200": {"description": "Ended.", "content": as_json("Actor")},
        "404": failure("There is no such actor."),
    }
    return operation("destroyActor", "End an actor", answers) | {"parameters": who()}


def request() -> Json:
    answers = {
        "200": {"description": "What the actor answers.", "content": OCTETS},
        "404": failure("There is no such actor."),
        "502": failure("The actor failed, or gave no answer."),
    }
    made = [
        query("create", SWITCH, "Make the actor first, if there is none."),
        query("pool", NAME | {"default": "default"}, "With create: who may host it."),
    ]
    body = {"required": True, "description": "For the actor, up to 1 MiB.", "content": OCTETS}
    extra = {"parameters": [*who(), *made], "requestBody": body}
    return operation("requestActor", "Ask an actor something", answers) | extra


def envoys() -> Json:
    answers = {"200": {"description": "The envoys of a pool.", "content": as_json("EnvoyPage")}}
    parameters = [query(name, NAME | {"default": "default"}, f"The {name}.") for name in ("namespace", "pool")]
    return operation("listEnvoys", "The envoys of this datacenter", answers) | {"parameters": parameters}


def drain() -> Json:
    answers = {
        "200": {"description": "So be it.", "content": as_json("Drained")},
        "404": failure("No such envoy is active in this datacenter."),
    }
    parameters = [
        query("namespace", NAME | {"default": "default"}, "The namespace."),
        query("envoy", NAME, "Its key.") | {"required": True},
        query("undo", SWITCH, "It stays after all."),
    ]
    return operation("drainEnvoy", "Move an envoy's actors elsewhere", answers) | {"parameters": parameters}


def actor_schemas() -> Json:
    nullable = {"type": ["string", "null"]}
    state = {"type": "string", "enum": [each.value for each in ActorState]}
    names = dict.fromkeys(("namespace", "name", "key", "pool", "datacenter"), STRING)
    actor = shape({"id": ID, "state": state, "envoy": nullable, "generation": COUNT, "create_ts": COUNT, **names})
    counts = ("version", "slots", "capacity", "weight", "last_ping_ts", "last_rtt_ms")
    envoy = shape(
        {
            **dict.fromkeys(("namespace", "pool", "key"), STRING),
            **{name: {"type": "integer"} for name in counts},
            **dict.fromkeys(("connected", "draining"), BOOLEAN),
        }
    )
    actors, listed = {"$ref": "#/components/schemas/Actor"}, {"$ref": "#/components/schemas/Envoy"}
    return {
        "Actor": actor,
        "ActorPage": shape({"actors": {"type": "array", "items": actors}, "next": nullable}),
        "ActorWish": wish(),
        "Envoy": envoy,
        "EnvoyPage": shape({"envoys": {"type": "array", "items": listed}}),
        "Drained": shape({"envoy": STRING, "draining": BOOLEAN}),
    }


def wish() -> Json:
    named = closed({"name": NAME, "key": NAME})
    optional: Json = {
        "namespace": NAME | {"default": "default"},
        "pool": NAME | {"default": "default"},
        "input": {"type": "string", "maxLength": 65536, "description": "What it is given to begin with."},
        "mode": one_of(["get_or_create", "create"], "get_or_create"),
    }
    return named | {"properties": named["properties"] | optional}
