"""The HTTP API for machines: an OpenAPI 3.1 document, generated from the table of routes and the records they use."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_args

import msgspec
from msgspec import UNSET

import epoxy
from epoxy.api.http.routes import OCTETS, Parameter, Route, RouteAnswer, refusal
from epoxy.model.access import Access

Json = dict[str, Any]

REFERENCE = "#/components/schemas/{name}"

BINARY: Json = {"type": "string", "format": "binary"}
"""Any bytes. OpenAPI 3.1 could do without the schema; generators of clients cannot."""

COMMON: Mapping[int, RouteAnswer] = {
    400: refusal("The request is outside the contract.", "bad_request", "bad_encoding", "bad_parameter"),
    401: refusal("No token that is in force, where one is asked for.", "unauthenticated"),
    403: refusal(
        "The token's grant does not allow it, or a web page of another origin made a browser send it.",
        *("forbidden", "quota_bytes", "cross_site"),
    ),
    408: refusal("The request took too long to arrive.", "timeout"),
    413: refusal("The body has more than 1 MiB.", "body_too_large"),
    421: refusal(
        "`Host` is no name of this node (`node.allowed_hosts`), or another of its listeners serves this.",
        *("unknown_host", "wrong_listener"),
    ),
    429: refusal("Too much at a time, of this token or of all.", "quota_requests"),
    431: refusal("Address and headers are too long.", "head_too_large"),
    500: refusal("A bug; the log has more. Not definite.", "internal"),
    503: refusal(
        "Not now: not ready, or no quorum. `definite` tells whether it may have happened.",
        *(
            "not_ready",
            "stopping",
            "removed",
            "displaced",
            "too_many_connections",
            "busy",
            "rotten_row",
            "store_unavailable",
        ),
    ),
}
"""What any request may be answered with. There is no `default`: an answer that is not listed is a mistake."""


SECURITY: Json = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token, as `epoxy auth token create` prints it."},
    "certificate": {"type": "mutualTLS", "description": "A client certificate with a name that has a grant."},
}
"""What clients show. A node that is open accepts requests without it, too, and its document says so."""


def document(routes: Iterable[Route], *, is_open: bool = False) -> Json:
    """`is_open`: of a node that asks for no tokens, except where a route is guarded."""
    shown = [route for route in routes if route.operation]
    schemas = Schemas(shown)
    paths: Json = {}
    for route in shown:
        paths.setdefault(route.path, {})[route.method.lower()] = operation(route, schemas, is_open=is_open)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Epoxy",
            "version": epoxy.__version__,
            "summary": "Names and values that several datacenters agree on.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": schemas.components, "securitySchemes": SECURITY},
    }


def operation(route: Route, schemas: "Schemas", *, is_open: bool) -> Json:
    found: Json = {"operationId": route.operation, "summary": route.summary}
    if route.access is not Access.PUBLIC:
        needs = "any grant" if route.access is Access.ANY else f"the role {route.access.value}"
        free: list[Json] = [{}] if is_open and not (route.guarded or route.signed) else []
        found |= {"security": [*free, {"token": []}, {"certificate": []}], "description": f"Needs {needs}."}
    if route.parameters:
        found["parameters"] = [parameter(each, schemas) for each in route.parameters]
    if route.body:
        told = {"description": route.body_description} if route.body_description else {}
        found["requestBody"] = {"required": True, **told, "content": content(route.body, schemas)}
    answers = all_answers(route)
    found["responses"] = {str(status): response(answers[status], schemas) for status in sorted(answers)}
    return found


def all_answers(route: Route) -> dict[int, RouteAnswer]:
    """The route's own, and what may go wrong anywhere. For a status that both have, the route's description counts."""
    found = dict(COMMON)
    for status, answer in route.answers.items():
        codes = (*answer.codes, *(COMMON[status].codes if status in COMMON else ()))
        found[status] = msgspec.structs.replace(answer, codes=codes)
    return found


def parameter(given: Parameter, schemas: "Schemas") -> Json:
    schema = schemas.of(given.type)
    if given.default is not UNSET:
        schema = schema | {"default": given.default}
    place = {"name": given.name, "in": given.place, "required": given.required or given.place == "path"}
    return {**place, "schema": schema, "description": given.description}


def response(answer: RouteAnswer, schemas: "Schemas") -> Json:
    headers = {name: header(schemas.of(kind), words) for name, (kind, words) in answer.headers.items()}
    if answer.codes:
        headers["Epoxy-Error"] = header({"type": "string", "enum": sorted(answer.codes)}, "The code.")
    found: Json = {"description": answer.description, "content": content(answer.content, schemas)}
    return found | ({"headers": headers} if headers else {})


def header(schema: Json, description: str) -> Json:
    return {"schema": schema, "description": description}


def content(types: Mapping[str, Any], schemas: "Schemas") -> Json:
    return {media: {"schema": BINARY if media == OCTETS else schemas.of(kind)} for media, kind in types.items()}


class Schemas:
    """Of all types that the routes name. A record of an answer has more required fields than msgspec says: a node sends
    every field that it does not leave out on purpose, and only a client may do without."""

    def __init__(self, routes: Iterable[Route]) -> None:
        asked, answered = list(types_asked(routes)), list(types_answered(routes))
        self._found: list[tuple[Any, Json]] = []
        self.components: Json = {}
        for kinds in (answered, asked):
            found, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
            self._found += zip(kinds, found, strict=True)
            if kinds is answered:
                for record in records_in(answered):
                    complete(components[record.__name__], record)
            self.components |= components
        give_types_to_choices([self.components, *(schema for _, schema in self._found)])

    def of(self, kind: Any) -> Json:
        if isinstance(kind, tuple):
            return {"anyOf": [self.of(each) for each in kind]}
        found: Json = next(schema for known, schema in self._found if known is kind or known == kind)
        return found


def types_asked(routes: Iterable[Route]) -> Iterator[Any]:
    for route in routes:
        yield from (each.type for each in route.parameters)
        yield from route.body.values()


def types_answered(routes: Iterable[Route]) -> Iterator[Any]:
    for route in routes:
        for answer in all_answers(route).values():
            for kind in answer.content.values():
                yield from kind if isinstance(kind, tuple) else (kind,)
            yield from (kind for kind, _ in answer.headers.values())


def records_in(kinds: Iterable[Any]) -> set[type[msgspec.Struct]]:
    """The records among these types, and inside of them."""
    found: set[type[msgspec.Struct]] = set()
    waiting = list(kinds)
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if kind not in found:
                found.add(kind)
                waiting += [field.type for field in msgspec.structs.fields(kind)]
        else:
            waiting += get_args(kind)
    return found


def complete(schema: Json, record: type[msgspec.Struct]) -> None:
    """Say which fields an answer has."""
    omits = record.__struct_config__.omit_defaults
    for field in msgspec.structs.fields(record):
        name = field.encode_name
        optional = field.default is UNSET or (omits and not field.required)
        if not optional and name not in schema["required"]:
            schema["required"].append(name)
        if optional and field.default is None:
            schema["properties"][name] = without_null(schema["properties"][name])
        if not field.required:
            schema["properties"][name].pop("default", None)


def without_null(schema: Json) -> Json:
    """The schema of a field that is left out where the record has None."""
    rest: Json = {word: value for word, value in schema.items() if word not in ("anyOf", "default")}
    (kind,) = [each for each in schema["anyOf"] if each != {"type": "null"}]
    return {**rest, **kind}


def give_types_to_choices(schema: Any) -> None:
    """msgspec leaves out what follows from the choices; generators of clients want it."""
    if isinstance(schema, list):
        for part in schema:
            give_types_to_choices(part)
    elif isinstance(schema, dict):
        if isinstance(schema.get("enum"), list):
            schema.setdefault("type", "string")
        for part in schema.values():
            give_types_to_choices(part)
