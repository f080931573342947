"""The messages between a node and an envoy."""

from msgspec import Struct

from epoxy.model.actors import ActorName
from epoxy.model.exchanges import Credit, Head, Headers, HeldSocket, Piece, RequestHead, Reset
from epoxy.model.versions import ENVOY_WIRE

PROTOCOL_VERSION = ENVOY_WIRE

# From an envoy to a node.


class ActorKind(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What an envoy has code for. `local`: the state of these actors stays in their datacenter."""

    name: str
    local: bool = False


class EnvoyHello(Struct, frozen=True, kw_only=True, tag="hello"):
    """The first message. `running` are the actors it hosts, from an earlier connection. `incarnation` tells this
    process from another with the same key, and is shown to operators. Empty: an SDK without incarnations."""

    namespace: str
    pool: str
    envoy_key: str
    version: int = 1
    protocol_version: int = PROTOCOL_VERSION
    weight: int = 1
    slots: int = 0
    incarnation: str = ""
    running: tuple["Held", ...] = ()
    kinds: tuple[ActorKind, ...] = ()


class Held(Struct, frozen=True):
    actor_id: str
    generation: int


class Ping(Struct, frozen=True, kw_only=True, tag="ping"):
    """`sent_ms` comes back in the pong; `rtt_ms` is the round trip of the ping before."""

    sent_ms: int
    rtt_ms: int = 0


class Running(Struct, frozen=True, kw_only=True, tag="running"):
    actor_id: str
    generation: int


class Stopped(Struct, frozen=True, kw_only=True, tag="stopped"):
    """`failed`: it did not end by itself, and is to be started again. `cancelled`: its worker stopped it, not an error
    of its code, so it is started again without a pause. `asleep`: it is started again when it is needed, and its node
    holds these `sockets` meanwhile. `destroyed`: its code wants it to end for ever."""

    actor_id: str
    generation: int
    failed: bool = False
    cancelled: bool = False
    asleep: bool = False
    sockets: tuple[HeldSocket, ...] = ()
    destroyed: bool = False


class Draining(Struct, frozen=True, kw_only=True, tag="draining"):
    """It takes no new actors, and those it has should move."""


class Goodbye(Struct, frozen=True, kw_only=True, tag="goodbye"):
    """It will not connect again."""


class Response(Struct, frozen=True, kw_only=True, tag="response"):
    """An actor's response. `error`: it failed; the body has the message. `refused`: its code never saw the request.
    `busy`: because too much waits for the actor, so that to give it again would not help."""

    request_id: int
    body: bytes = b""
    error: bool = False
    refused: bool = False
    busy: bool = False
    status: int = 200
    headers: Headers = ()


class SaveState(Struct, frozen=True, kw_only=True, tag="save"):
    """The state of an actor, which builds on `version`. `number` counts the saves of its generation. One is under way
    at a time."""

    actor_id: str
    generation: int
    number: int
    version: int
    document: bytes
    alarm_ms: int = 0


class ActorAsk(Struct, frozen=True, kw_only=True, tag="ask", omit_defaults=True):
    """An actor's request to another. `reply` false: it waits for no answer. `pool`: the other is made, if there is
    none."""

    call: int
    actor_id: str
    generation: int
    name: ActorName
    head: RequestHead
    body: bytes = b""
    reply: bool = True
    pool: str = ""


FromEnvoy = (
    EnvoyHello
    | Ping
    | Running
    | Stopped
    | Draining
    | Goodbye
    | Response
    | SaveState
    | ActorAsk
    | Head
    | Piece
    | Credit
    | Reset
)


# From a node to an envoy.


class Start(Struct, frozen=True, kw_only=True, tag="start", omit_defaults=True):
    """`state` None: it has none yet. `version` is what its first save builds on. `alarm_ms`: its alarm; `sockets`:
    those that were held for it while it was asleep."""

    actor_id: str
    generation: int
    namespace: str
    name: str
    key: str
    input: bytes = b""
    state: bytes | None = None
    version: int = 0
    alarm_ms: int = 0
    sockets: tuple[HeldSocket, ...] = ()


class Welcome(Struct, frozen=True, kw_only=True, tag="welcome"):
    """The reply to `hello`. An envoy without an answer to any ping of the last `lost_after_ms` must stop its actors:
    soon after that, others start them."""

    datacenter: str
    ping_every_ms: int
    lost_after_ms: int


class Pong(Struct, frozen=True, kw_only=True, tag="pong"):
    sent_ms: int


class Stop(Struct, frozen=True, kw_only=True, tag="stop"):
    actor_id: str
    generation: int


class ActorRequest(Struct, frozen=True, kw_only=True, tag="request", omit_defaults=True):
    """A request whose body is whole; its answer is a `Response`, or `Head` and `Piece`s for a stream of that number."""

    request_id: int
    actor_id: str
    generation: int
    body: bytes
    head: RequestHead | None = None


class Opened(Struct, frozen=True, kw_only=True, tag="opened", omit_defaults=True):
    """A stream: a request whose body comes in pieces, `body` being the first, or a WebSocket."""

    stream: int
    actor_id: str
    generation: int
    head: RequestHead
    body: bytes = b""
    fin: bool = False


class Saved(Struct, frozen=True, kw_only=True, tag="saved"):
    actor_id: str
    generation: int
    number: int
    version: int


class SaveRefused(Struct, frozen=True, kw_only=True, tag="save_refused"):
    """`fenced`: a later generation has begun, so this one must end, and no answer that rests on the save may leave.
    Otherwise nothing was written, and the save may be tried again."""

    actor_id: str
    generation: int
    number: int
    reason: str
    fenced: bool


class AlarmDue(Struct, frozen=True, kw_only=True, tag="alarm"):
    actor_id: str
    generation: int
    at_ms: int


class AskAnswer(Struct, frozen=True, kw_only=True, tag="answer", omit_defaults=True):
    """To an `ActorAsk`. `error` is the code of an error of Epoxy's, with its reason as the body; `definite`: nothing
    was done."""

    call: int
    status: int = 200
    headers: Headers = ()
    body: bytes = b""
    error: str = ""
    definite: bool = False


class Rejected(Struct, frozen=True, kw_only=True, tag="rejected"):
    """The last message before the connection is closed. `expired`: the envoy may connect again, after a pause."""

    message: str
    expired: bool = False


ToEnvoy = (
    Welcome
    | Pong
    | Start
    | Stop
    | ActorRequest
    | Opened
    | Saved
    | SaveRefused
    | AlarmDue
    | AskAnswer
    | Rejected
    | Head
    | Piece
    | Credit
    | Reset
)
