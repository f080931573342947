"""Questions about actors and their answers. The datacenter that owns the actor answers, to a client or to another
datacenter that relays the question."""

from msgspec import Struct

from epoxy.model.actors import MAX_INPUT_BYTES, MAX_REQUEST_BYTES, ActorEntry, ActorName, check_part
from epoxy.model.errors import InvalidRequest
from epoxy.model.exchanges import Headers, RequestHead

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
    """A request to the actor itself. `head` None: it is nothing but bytes. `fin` false: more of the body follows, or
    this is a WebSocket."""

    target: Target
    body: bytes
    head: RequestHead | None = None
    fin: bool = True

    def __post_init__(self) -> None:
        if len(self.body) > MAX_REQUEST_BYTES:
            raise InvalidRequest(f"the request has {len(self.body)} bytes; the limit is {MAX_REQUEST_BYTES}")
        if self.head is None and not self.fin:
            raise InvalidRequest("a request that comes in pieces has a head")


class MoveActor(Struct, frozen=True, kw_only=True, tag="move"):
    """End the actor where it is and give it to another datacenter, with its state. `to`: the label of that one."""

    target: Target
    to: int


class AdoptActor(Struct, frozen=True, kw_only=True, tag="adopt"):
    """Of the home that has released a name to the datacenter that is asked: become its home."""

    target: ActorName


Question = Ensure | GetActor | Destroy | CallActor | MoveActor | AdoptActor


class Found(Struct, frozen=True, kw_only=True, tag="found"):
    """`created`: by this very question. `label`: of the datacenter that is its home; 0, in answers of older nodes: the
    one in its id."""

    actor: ActorEntry
    created: bool = False
    label: int = 0


class Exists(Struct, frozen=True, kw_only=True, tag="exists"):
    """There is one already, and a new one was asked for."""

    actor: ActorEntry
    label: int = 0


class Missing(Struct, frozen=True, kw_only=True, tag="missing"):
    """No such actor, or none any more."""


class Responded(Struct, frozen=True, kw_only=True, tag="responded"):
    """`error`: by an actor that saw the request and failed on it."""

    body: bytes
    error: bool = False
    status: int = 200
    headers: Headers = ()


class OwnerUnavailable(Struct, frozen=True, kw_only=True, tag="unavailable"):
    """Definite: nothing was done. `final`: the owner says so, and asking elsewhere leads to it again. `cycle`: the
    actor that asks would wait for itself."""

    reason: str
    final: bool = False
    cycle: bool = False


class Unknown(Struct, frozen=True, kw_only=True, tag="unknown"):
    """Indefinite: it may have been done, or may be done yet. To ask again for an actor (`Ensure`, `GetActor`) is safe:
    the next question finishes what this one began. A request or a destroy may then be carried out twice."""

    reason: str


class Elsewhere(Struct, frozen=True, kw_only=True, tag="elsewhere"):
    """To a datacenter that passed a question on: this one is not the home, and nothing was done; ask the one with this
    label. `epoch`: of the record that says so; 0: it is a guess."""

    label: int
    epoch: int = 0


Verdict = Found | Exists | Missing | Responded | OwnerUnavailable | Unknown | Elsewhere
