"""What can be asked about actors, and what the answers mean, without IO."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar
from urllib.parse import urlencode

from msgspec import Struct, json
from msgspec.structs import replace

from epoxy.client.calls import JSON, Call, fail, read_json, says_absent
from epoxy.client.http1 import HttpResponse
from epoxy.model.api import DEFAULT as DEFAULT
from epoxy.model.api import ActorInfo as ActorInfo
from epoxy.model.api import ActorOrder, Drained, EnvoyPage
from epoxy.model.api import ActorPage as ActorPage
from epoxy.model.api import EnvoyInfo as EnvoyInfo

T = TypeVar("T")


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


def get_or_create(order: ActorOrder) -> Call[ActorInfo]:
    def read(answer: HttpResponse) -> ActorInfo:
        created = answer.status == 201
        return replace(read_json(ActorInfo, answer, status=201 if created else 200, writes=True), created=created)

    # A second try finds what the first one made, so it does no harm.
    return ensure(order, read, writes=False)


def create(order: ActorOrder) -> Call[ActorInfo | None]:
    """None: there is one already."""

    def read(answer: HttpResponse) -> ActorInfo | None:
        if answer.status == 409 and answer.headers.get("epoxy-error") == "exists":
            return None
        return replace(read_json(ActorInfo, answer, status=201, writes=True), created=True)

    return ensure(replace(order, mode="create"), read, writes=True)


def ensure(order: ActorOrder, read: Callable[[HttpResponse], T], *, writes: bool) -> Call[T]:
    body = json.encode(order)
    return Call(method="POST", target="/v2/actors", body=body, content_type=JSON, accept=JSON, writes=writes, read=read)


def get(which: Which) -> Call[ActorInfo | None]:
    return Call(method="GET", target=f"/v2/actors?{which.query()}", accept=JSON, read=found)


def destroy(which: Which) -> Call[ActorInfo | None]:
    read = partial(found, writes=True)
    return Call(method="DELETE", target=f"/v2/actors?{which.query()}", accept=JSON, writes=True, read=read)


def found(answer: HttpResponse, *, writes: bool = False) -> ActorInfo | None:
    return None if says_absent(answer) else read_json(ActorInfo, answer, writes=writes)


def page(namespace: str, name: str | None, after: str | None, limit: int | None) -> Call[ActorPage]:
    asked: dict[str, str | int] = {"namespace": namespace}
    asked |= {"name": name} if name is not None else {}
    asked |= {"after": after} if after is not None else {}
    asked |= {"limit": limit} if limit is not None else {}
    return Call(method="GET", target=f"/v2/actors?{urlencode(asked)}", accept=JSON, read=partial(read_json, ActorPage))


def request(which: Which, body: bytes, pool: str | None) -> Call[bytes]:
    """With a pool the actor is made, if there is none."""

    def read(answer: HttpResponse) -> bytes:
        if answer.status != 200:
            fail(answer, writes=True)
        return answer.body

    query = which.query() if pool is None else which.query(pool=pool, create="true")
    return Call(method="POST", target=f"/v2/actors/request?{query}", body=body, writes=True, read=read)


def envoys(namespace: str, pool: str) -> Call[list[EnvoyInfo]]:
    query = urlencode({"namespace": namespace, "pool": pool})
    read = partial(read_json, EnvoyPage)
    return Call(method="GET", target=f"/v2/envoys?{query}", accept=JSON, read=lambda answer: read(answer).envoys)


def drain(namespace: str, envoy: str, *, undo: bool) -> Call[bool]:
    """False: no such envoy is active at this node."""

    def read(answer: HttpResponse) -> bool:
        return not says_absent(answer) and read_json(Drained, answer, writes=True) is not None

    query = urlencode({"namespace": namespace, "envoy": envoy, "undo": "true" if undo else "false"})
    return Call(method="POST", target=f"/v2/envoys/drain?{query}", body=b"", accept=JSON, writes=True, read=read)
