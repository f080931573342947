"""Who belongs to a cluster, as a client asks for it and changes it."""

from collections.abc import Sequence
from functools import partial

import msgspec

from epoxy.client.calls import JSON, Call, read_json
from epoxy.model.api import Members, MembersOrder, Newcomer, Ordered
from epoxy.model.errors import InvalidRequest


def members(*, progress: bool) -> Call[Members]:
    target = f"/v2/members?progress={str(progress).lower()}"
    return Call(method="GET", target=target, accept=JSON, read=partial(read_json, Members))


def change(add: Sequence[Newcomer], remove: Sequence[int], *, force: bool) -> Call[Ordered]:
    """An order that is sent twice is refused the second time; still it is not sent again by itself."""
    if not add and not remove:
        raise InvalidRequest("nothing to add and nothing to remove")
    body = msgspec.json.encode(MembersOrder(add=list(add), remove=list(remove), force=force))
    read = partial(read_json, Ordered, status=202, writes=True)
    return Call(method="POST", target="/v2/members", body=body, content_type=JSON, writes=True, accept=JSON, read=read)
