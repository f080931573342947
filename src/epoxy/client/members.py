"""Who belongs to a cluster, as a client asks for it and changes it."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from epoxy.client.calls import JSON, Call, decoded, fail
from epoxy.client.http1 import HttpResponse
from epoxy.model.errors import InvalidRequest


class Newcomer(Struct, frozen=True, kw_only=True):
    """Somebody to be added: a running node that waits for it."""

    id: int
    url: str
    datacenter: str = ""


class Progress(Struct, frozen=True, kw_only=True):
    """What a member says of itself; `heard` False: nothing."""

    heard: bool
    epoch: int = 0
    keys: int = 0
    copied: int = 0
    sources: tuple[int, ...] = ()
    synced: bool = False


class MemberRow(Struct, frozen=True, kw_only=True):
    """`status`: joining, learning, active or leaving."""

    id: int
    status: str
    url: str = ""
    datacenter: str = ""
    progress: Progress | None = None


class Members(Struct, frozen=True, kw_only=True):
    """`wanted`: who shall be the members. `settled` and `waiting` are told with the progress: whether all is done, and
    what a change waits for."""

    epoch: int
    coordinator_id: int
    joint: bool = False
    wanted: tuple[int, ...] = ()
    replicas: tuple[MemberRow, ...] = ()
    settled: bool = False
    waiting: str = ""


class Ordered(Struct, frozen=True, kw_only=True):
    """`queued`: another change is finished first."""

    wanted: tuple[int, ...]
    epoch: int
    queued: bool


def members(*, progress: bool) -> Call[Members]:
    def read(answer: HttpResponse) -> Members:
        if answer.status != 200:
            fail(answer, writes=False)
        return decoded(answer, Members)

    return Call(method="GET", target=f"/v2/members?progress={str(progress).lower()}", accept=JSON, read=read)


def change(add: Sequence[Newcomer], remove: Sequence[int], *, force: bool) -> Call[Ordered]:
    """An order that is sent twice is refused the second time, and says so; still it is not sent again by itself."""
    if not add and not remove:
        raise InvalidRequest("nobody to add and nobody to remove")

    def read(answer: HttpResponse) -> Ordered:
        if answer.status != 202:
            fail(answer, writes=True)
        return decoded(answer, Ordered)

    body = msgspec.json.encode({"add": list(add), "remove": list(remove), "force": force})
    return Call(method="POST", target="/v2/members", body=body, content_type=JSON, writes=True, accept=JSON, read=read)
