"""What can be asked about actors, and what the answers mean, without IO."""

from functools import partial
from urllib.parse import urlencode

from msgspec import Struct, json

from epoxy.client.calls import JSON, Call, decoded, fail
from epoxy.client.http1 import HttpResponse

DEFAULT = "default"


class ActorInfo(Struct, kw_only=True):
    """An actor. `datacenter` owns it; `envoy` is the worker it runs on, if it does. `created`: by this very call."""

    id: str
    namespace: str
    name: str
    key: str
    pool: str
    state: str
    datacenter: str
    envoy: str | None
    generation: int
    create_ts: int
    created: bool = False


class ActorPage(Struct, frozen=True, kw_only=True):
    """`next` is what `after` takes for the page behind this one."""

    actors: list[ActorInfo]
    next: str | None


class EnvoyInfo(Struct, frozen=True, kw_only=True):
    namespace: str
    pool: str
    key: str
    version: int
    slots: int
    capacity: int
    weight: int
    last_ping_ts: int
    last_rtt_ms: int
    connected: bool
    draining: bool


class EnvoyPage(Struct, frozen=True, kw_only=True):
    envoys: list[EnvoyInfo]


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


def ensure(name: str, key: str, namespace: str, pool: str, given: str, *, exclusive: bool) -> Call[ActorInfo | None]:
    """None: there is one already, and a new one was wanted."""

    def read(answer: HttpResponse) -> ActorInfo | None:
        if answer.status == 409 and answer.headers.get("epoxy-error") == "exists":
            return None
        if answer.status not in (200, 201):
            fail(answer, writes=True)
        actor = decoded(answer, ActorInfo)
        actor.created = answer.status == 201
        return actor

    mode = "create" if exclusive else "get_or_create"
    body = {"name": name, "key": key, "namespace": namespace, "pool": pool, "input": given, "mode": mode}
    # A second try finds what the first one made, so it does no harm; unless it was to be the first.
    return Call(
        method="POST",
        target="/v2/actors",
        body=json.encode(body),
        content_type=JSON,
        accept=JSON,
        writes=exclusive,
        read=read,
    )


def get(which: Which) -> Call[ActorInfo | None]:
    read = partial(found, writes=False)
    return Call(method="GET", target=f"/v2/actors?{which.query()}", accept=JSON, read=read)


def destroy(which: Which) -> Call[ActorInfo | None]:
    read = partial(found, writes=True)
    return Call(method="DELETE", target=f"/v2/actors?{which.query()}", accept=JSON, writes=True, read=read)


def found(answer: HttpResponse, *, writes: bool) -> ActorInfo | None:
    if answer.status == 404 and answer.headers.get("epoxy-error") == "not_found":
        return None
    if answer.status != 200:
        fail(answer, writes=writes)
    return decoded(answer, ActorInfo)


def page(namespace: str, name: str | None, after: str | None, limit: int | None) -> Call[ActorPage]:
    asked: dict[str, str | int] = {"namespace": namespace}
    asked |= {"name": name} if name is not None else {}
    asked |= {"after": after} if after is not None else {}
    asked |= {"limit": limit} if limit is not None else {}
    return Call(method="GET", target=f"/v2/actors?{urlencode(asked)}", accept=JSON, read=read_page)


def read_page(answer: HttpResponse) -> ActorPage:
    if answer.status != 200:
        fail(answer, writes=False)
    return decoded(answer, ActorPage)


def request(which: Which, body: bytes, pool: str | None) -> Call[bytes]:
    """With a pool the actor is made, if there is none."""

    def read(answer: HttpResponse) -> bytes:
        if answer.status != 200:
            fail(answer, writes=True)
        return answer.body

    query = which.query() if pool is None else which.query(pool=pool, create="true")
    return Call(method="POST", target=f"/v2/actors/request?{query}", body=body, writes=True, read=read)


def envoys(namespace: str, pool: str) -> Call[list[EnvoyInfo]]:
    def read(answer: HttpResponse) -> list[EnvoyInfo]:
        if answer.status != 200:
            fail(answer, writes=False)
        return decoded(answer, EnvoyPage).envoys

    query = urlencode({"namespace": namespace, "pool": pool})
    return Call(method="GET", target=f"/v2/envoys?{query}", accept=JSON, read=read)


def drain(namespace: str, envoy: str, *, undo: bool) -> Call[bool]:
    """False: no such envoy is active at this node."""

    def read(answer: HttpResponse) -> bool:
        if answer.status == 404 and answer.headers.get("epoxy-error") == "not_found":
            return False
        if answer.status != 200:
            fail(answer, writes=True)
        return True

    query = urlencode({"namespace": namespace, "envoy": envoy, "undo": "true" if undo else "false"})
    return Call(method="POST", target=f"/v2/envoys/drain?{query}", body=b"", accept=JSON, writes=True, read=read)
