"""What can be asked about actors, and what the answers mean, without IO."""

from functools import partial
from urllib.parse import urlencode

from msgspec import Struct, json
from msgspec.structs import replace

from epoxy.client.calls import Call, get_json, post_json
from epoxy.client.http1 import HttpResponse
from epoxy.client.responses import JSON, fail, read_json, says_absent
from epoxy.model.api import DEFAULT as DEFAULT
from epoxy.model.api import ActorInfo as ActorInfo
from epoxy.model.api import ActorOrder, Drained, EnvoyPage
from epoxy.model.api import ActorPage as ActorPage
from epoxy.model.api import EnvoyInfo as EnvoyInfo


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


def found(answer: HttpResponse, *, writes: bool = False) -> ActorInfo | None:
    return None if says_absent(answer) else read_json(ActorInfo, answer, writes=writes)


def page(
    *, namespace: str = DEFAULT, name: str | None = None, after: str | None = None, limit: int | None = None
) -> Call[ActorPage]:
    asked = {"namespace": namespace, "name": name, "after": after, "limit": limit}
    query = urlencode({field: value for field, value in asked.items() if value is not None})
    return get_json(f"/v2/actors?{query}", partial(read_json, ActorPage))


def request(which: Which, body: bytes, *, pool: str | None = None) -> Call[bytes]:
    """What the actor answers. With a pool the actor is made, if there is none."""

    def read(answer: HttpResponse) -> bytes:
        if answer.status != 200:
            fail(answer, writes=True)
        return answer.body

    query = which.query() if pool is None else which.query(pool=pool, create="true")
    return Call(method="POST", target=f"/v2/actors/request?{query}", body=body, writes=True, read=read)


def envoys(*, namespace: str = DEFAULT, pool: str = DEFAULT) -> Call[list[EnvoyInfo]]:
    query = urlencode({"namespace": namespace, "pool": pool})
    read = partial(read_json, EnvoyPage)
    return get_json(f"/v2/envoys?{query}", lambda answer: read(answer).envoys)


def drain(envoy: str, *, namespace: str = DEFAULT, undo: bool = False) -> Call[bool]:
    """False: no such envoy is active at this node."""

    def read(answer: HttpResponse) -> bool:
        return not says_absent(answer) and read_json(Drained, answer, writes=True) is not None

    query = urlencode({"namespace": namespace, "envoy": envoy, "undo": "true" if undo else "false"})
    return Call(method="POST", target=f"/v2/envoys/drain?{query}", body=b"", accept=JSON, writes=True, read=read)
