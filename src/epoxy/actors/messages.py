"""Questions about actors and their answers. The datacenter that owns the actor answers, to a client or to another
datacenter that relays the question."""

from msgspec import Struct

from epoxy.model.actors import MAX_INPUT_BYTES, MAX_REQUEST_BYTES, ActorEntry, ActorName, check_part
from epoxy.model.errors import InvalidRequest

Target = ActorName | str
"""A name, or an id in hexadecimal."""


class Ensure(Struct, frozen=True, kw_only=True, tag="ensure"):
    """Find the actor of a name or make it. `exclusive`: only make it."""

    name: ActorName
    pool: str
    input: bytes = b""
    exclusive: bool = False

    def __post_init__(self) -> None:
        check_part("pool", self.pool)
        if len(self.input) > MAX_INPUT_BYTES:
            raise InvalidRequest(f"input has {len(self.input)} bytes; the limit is {MAX_INPUT_BYTES}")


class GetActor(Struct, frozen=True, kw_only=True, tag="get"):
    target: Target


class Destroy(Struct, frozen=True, kw_only=True, tag="destroy"):
    target: Target


class CallActor(Struct, frozen=True, kw_only=True, tag="call"):
    """A request to the actor itself."""

    target: Target
    body: bytes

    def __post_init__(self) -> None:
        if len(self.body) > MAX_REQUEST_BYTES:
            raise InvalidRequest(f"the request has {len(self.body)} bytes; the limit is {MAX_REQUEST_BYTES}")


Question = Ensure | GetActor | Destroy | CallActor


class Found(Struct, frozen=True, kw_only=True, tag="found"):
    """`created`: by this very question."""

    actor: ActorEntry
    created: bool = False


class Exists(Struct, frozen=True, kw_only=True, tag="exists"):
    """There is one already, and a new one was asked for."""

    actor: ActorEntry


class Missing(Struct, frozen=True, kw_only=True, tag="missing"):
    """No such actor, or none any more."""


class Responded(Struct, frozen=True, kw_only=True, tag="responded"):
    """`error`: by an actor that saw the request and failed on it."""

    body: bytes
    error: bool = False


class OwnerUnavailable(Struct, frozen=True, kw_only=True, tag="unavailable"):
    """Definite: nothing was done. `final`: the owner says so, and asking elsewhere leads to it again."""

    reason: str
    final: bool = False


class Unknown(Struct, frozen=True, kw_only=True, tag="unknown"):
    """Indefinite: it may have been done, or may be done yet. To ask again for an actor (`Ensure`, `GetActor`) is safe:
    the next question finishes what this one began. A request or a destroy may then be carried out twice."""

    reason: str


Verdict = Found | Exists | Missing | Responded | OwnerUnavailable | Unknown
