"""What can be asked about actors, and what the answers mean, without IO."""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from msgspec import MsgspecError, Struct, json
from msgspec.structs import replace

from epoxy.client.calls import Call, get_json, post_json
from epoxy.client.http1 import HttpResponse
from epoxy.client.responses import JSON, fail, read_json, says_absent
from epoxy.model.api import DEFAULT as DEFAULT
from epoxy.model.api_actors import ActorInfo as ActorInfo
from epoxy.model.api_actors import ActorOrder, Drained, EnvoyPage, HomelessPage, PoolPage
from epoxy.model.api_actors import ActorPage as ActorPage
from epoxy.model.api_actors import EnvoyInfo as EnvoyInfo
from epoxy.model.errors import InvalidRequest, UnexpectedAnswer
from epoxy.model.exchanges import MAX_IDEMPOTENCY_KEY_BYTES

SAFE_METHODS = ("GET", "HEAD")
"""Of HTTP: they may be sent again, to another node."""

SAFE_IN_PATHS = "/%:@!$&'()*+,;=~-._"
"""What is encoded already stays as it is."""

OWN_HEADERS = frozenset(
    ("authorization", "connection", "content-length", "host", "idempotency-key", "transfer-encoding")
)


class Which(Struct, frozen=True, kw_only=True):
    """An actor by its id, or by its name."""

    id: str | None = None
    name: str | None = None
    key: str | None = None
    namespace: str = DEFAULT

    def query(self, **more: str) -> str:
        if self.id is not None:
            return urlencode({"id": self.id} | more)
        return urlencode({"namespace": self.namespace, "name": self.name or "", "key": self.key or ""} | more)


def get_or_create(
    name: str, key: str, *, namespace: str = DEFAULT, pool: str = DEFAULT, given: str = ""
) -> Call[ActorInfo]:
    """The one actor of this name in the world. `given` is what it begins with, if this call makes it."""

    def read(answer: HttpResponse) -> ActorInfo:
        created = answer.status == 201
        return replace(read_json(ActorInfo, answer, status=201 if created else 200, writes=True), created=created)

    order = ActorOrder(name=name, key=key, namespace=namespace, pool=pool, input=given)
    # A second try finds what the first one made, so it does no harm.
    return post_json("/v2/actors", json.encode(order), read, writes=False)


def create(
    name: str, key: str, *, namespace: str = DEFAULT, pool: str = DEFAULT, given: str = ""
) -> Call[ActorInfo | None]:
    """None: there is one already."""

    def read(answer: HttpResponse) -> ActorInfo | None:
        if answer.status == 409 and answer.headers.get("epoxy-error") == "exists":
            return None
        return replace(read_json(ActorInfo, answer, status=201, writes=True), created=True)

    order = ActorOrder(name=name, key=key, namespace=namespace, pool=pool, input=given, mode="create")
    return post_json("/v2/actors", json.encode(order), read)


def get(which: Which) -> Call[ActorInfo | None]:
    return get_json(f"/v2/actors?{which.query()}", found)


def destroy(which: Which) -> Call[ActorInfo | None]:
    """None: there was none."""
    read = partial(found, writes=True)
    return Call(method="DELETE", target=f"/v2/actors?{which.query()}", accept=JSON, writes=True, read=read)


def move(which: Which, to: str) -> Call[ActorInfo | None]:
    """Give an actor to the datacenter of this name, with its state. None: there is none. It may be asked again."""
    target = f"/v2/actors/move?{which.query(to=to)}"
    return Call(method="POST", target=target, body=b"", accept=JSON, writes=True, read=partial(found, writes=True))


def found(answer: HttpResponse, *, writes: bool = False) -> ActorInfo | None:
    return None if says_absent(answer) else read_json(ActorInfo, answer, writes=writes)


def page(
    *, namespace: str = DEFAULT, name: str | None = None, after: str | None = None, limit: int | None = None
) -> Call[ActorPage]:
    asked = {"namespace": namespace, "name": name, "after": after, "limit": limit}
    query = urlencode({field: value for field, value in asked.items() if value is not None})
    return get_json(f"/v2/actors?{query}", partial(read_json, ActorPage))


def request(which: Which, body: bytes, *, pool: str | None = None, idempotency_key: str = "") -> Call[bytes]:
    """What the actor answers. With a pool the actor is made, if there is none. With an idempotency key the request is
    carried out once, however often it is sent; so it is sent to another node, too, if one does not answer."""

    def read(answer: HttpResponse) -> bytes:
        if answer.status != 200:
            fail(answer, writes=True)
        return answer.body

    query = which.query() if pool is None else which.query(pool=pool, create="true")
    return Call(
        method="POST",
        target=f"/v2/actors/request?{query}",
        body=body,
        writes=not idempotency_key,
        repeatable=bool(idempotency_key),
        read=read,
        headers=checked_headers({}, idempotency_key),
    )


class ActorResponse(Struct, frozen=True, kw_only=True):
    """Of an actor, with the status it chose. Header names are lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode(errors="replace")

    def json(self) -> Any:
        """Raises UnexpectedAnswer."""
        try:
            return json.decode(self.body)
        except (MsgspecError, UnicodeDecodeError) as error:
            raise UnexpectedAnswer(f"the actor's answer is not JSON: {error}") from error


def fetch(
    which: Which,
    method: str = "POST",
    path: str = "/",
    *,
    query: str | Mapping[str, str] = "",
    headers: Mapping[str, str] | None = None,
    body: bytes | None = None,
    pool: str | None = None,
    idempotency_key: str = "",
) -> Call[ActorResponse]:
    """A request to an actor in HTTP: what it answers, whatever the status. `pool` and `idempotency_key`: as for
    `request`. Raises an EpoxyError for what is not the actor's answer."""
    if which.name is None or which.key is None:
        raise InvalidRequest("an actor is asked in HTTP by its name and key, not by its id")
    if not re.fullmatch(r"[A-Z]+", method) or not path.startswith("/"):
        raise InvalidRequest(f"a method is in capital letters, and a path begins with '/': {method!r}, {path!r}")
    asked = query if isinstance(query, str) else urlencode(query)
    ours = {"epoxy-namespace": which.namespace} if which.namespace != DEFAULT else {}
    ours |= {"epoxy-create": "false"} if pool is None else {"epoxy-pool": pool}
    given = dict(headers or {})
    kind = next((given.pop(name) for name in list(given) if name.lower() == "content-type"), None)

    def read(answer: HttpResponse) -> ActorResponse:
        if "epoxy-error" in answer.headers:
            fail(answer, writes=True)
        return ActorResponse(status=answer.status, headers=answer.headers, body=answer.body)

    at = f"/v2/actors/at/{quote(which.name, safe='')}/{quote(which.key, safe='')}"
    return Call(
        method=method,
        target=f"{at}{quote(path, safe=SAFE_IN_PATHS)}?{'&'.join(filter(None, (asked, urlencode(ours))))}",
        body=b"" if body is None and method not in SAFE_METHODS else body,
        writes=not idempotency_key and method not in SAFE_METHODS,
        repeatable=bool(idempotency_key),
        accept=next((given.pop(name) for name in list(given) if name.lower() == "accept"), "*/*"),
        content_type=kind or "application/octet-stream",
        read=read,
        headers=checked_headers(given, idempotency_key),
    )


def checked_headers(given: Mapping[str, str], idempotency_key: str) -> tuple[tuple[str, str], ...]:
    """Raises InvalidRequest for what would not be one header each."""
    if idempotency_key and not re.fullmatch(rf"[!-~]{{1,{MAX_IDEMPOTENCY_KEY_BYTES}}}", idempotency_key):
        raise InvalidRequest(f"an idempotency key has 1 to {MAX_IDEMPOTENCY_KEY_BYTES} visible ASCII characters")
    for name, value in given.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or name.lower() in OWN_HEADERS:
            raise InvalidRequest(f"a request to an actor cannot have the header {name!r}")
        if not re.fullmatch(r"[ -~]*", value):
            raise InvalidRequest(f"the header {name!r} has more than visible ASCII characters")
    more = (("Idempotency-Key", idempotency_key),) if idempotency_key else ()
    return (*given.items(), *more)


def envoys(*, namespace: str = DEFAULT, pool: str = DEFAULT) -> Call[list[EnvoyInfo]]:
    query = urlencode({"namespace": namespace, "pool": pool})
    read = partial(read_json, EnvoyPage)
    return get_json(f"/v2/envoys?{query}", lambda answer: read(answer).envoys)


def homeless() -> Call[HomelessPage]:
    """Actors whose home is gone and that no datacenter has taken over yet, as the node knows."""
    return get_json("/v2/actors/homeless", partial(read_json, HomelessPage))


def pools() -> Call[PoolPage]:
    """The pools of workers in the node's datacenter, and which every datacenter has, as its lease says."""
    return get_json("/v2/pools", partial(read_json, PoolPage))


def drain(envoy: str, *, namespace: str = DEFAULT, undo: bool = False) -> Call[bool]:
    """False: no such envoy is active at this node."""

    def read(answer: HttpResponse) -> bool:
        return not says_absent(answer) and read_json(Drained, answer, writes=True) is not None

    query = urlencode({"namespace": namespace, "envoy": envoy, "undo": "true" if undo else "false"})
    return Call(method="POST", target=f"/v2/envoys/drain?{query}", body=b"", accept=JSON, writes=True, read=read)
