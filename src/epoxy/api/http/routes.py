"""What a route is: everything the router needs to serve it, and everything the OpenAPI document says about it."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, Struct

from epoxy.model.access import Access
from epoxy.model.api import Failure, KeyInPath
from epoxy.model.records import MAX_KEY_BYTES
from epoxy.protocol.access.principal import Principal
from epoxy.transport.http.exchange import Handler

if TYPE_CHECKING:
    from epoxy.api.http.calls import ApiCall

OCTETS = "application/octet-stream"
JSON = "application/json"
TEXT = "text/plain"

PERMITS: Mapping[Access, Callable[[Principal], bool]] = {
    Access.ANY: attrgetter("granted"),
    Access.READ: attrgetter("reads"),
    Access.WRITE: attrgetter("writes"),
    Access.WORK: attrgetter("works"),
    Access.CALL: attrgetter("calls"),
    Access.OPERATE: attrgetter("operates"),
}
"""`Principal.has`, for hot paths. What the others demand is not a principal's to have."""


class Parameter(Struct, frozen=True):
    """`type` is what msgspec makes a schema of."""

    name: str
    type: Any
    description: str
    default: Any = UNSET
    place: Literal["query", "header", "path"] = "query"
    required: bool = False


class RouteAnswer(Struct, frozen=True):
    """`content`: the type of the body by media type, or several. `codes`: of an error, what `Epoxy-Error` may say."""

    description: str
    content: Mapping[str, Any] = {}
    headers: Mapping[str, tuple[Any, str]] = {}
    codes: tuple[str, ...] = ()


def refusal(description: str, *codes: str, content: Mapping[str, Any] | None = None) -> RouteAnswer:
    """An error. `content`, if the body is not the one that all errors have."""
    return RouteAnswer(description, content or {JSON: Failure}, codes=codes)


class Route(Struct, frozen=True, kw_only=True, dict=True):
    """`path` ends with {key}, or {id}, where the rest of the address is one. `kind` is what its requests are counted
    under. `access`: what its client needs; without a default, so that a new route cannot leave it out. `body`: the type
    of the body by media type. `operation` empty: for other nodes and for envoys, not in the document. `head`: HEAD is
    served, too, as GET without the body."""

    method: str
    path: str
    handler: "Callable[[ApiCall], None]"
    kind: str
    access: Access
    operation: str = ""
    summary: str = ""
    parameters: Sequence[Parameter] = ()
    body: Mapping[str, Any] = {}
    body_description: str = ""
    answers: Mapping[int, RouteAnswer] = {}
    needs_ready: bool = True
    local: bool = False
    """Needs only what the node holds: also served by one that is not sure yet whether its store is the newest."""
    head: bool = True
    signed: bool = False
    """Instead of a token its handler accepts a signature with the cluster's secret, and refuses a request with neither,
    at a node that is open, too."""
    sockets: bool = False
    """Opens WebSockets, too, and takes a token that comes as one of their protocols."""
    guarded: bool = False
    """Needs a grant at a node that is open, too: what it changes stays when the node asks for tokens."""

    @cached_property
    def needs_grant(self) -> bool:
        """Whether it is served for those who have shown one. A signature is checked by the handler."""
        return self.access in PERMITS

    @cached_property
    def is_act(self) -> bool:
        """Of an operator, for the audit log: what is only read is none."""
        return self.access is Access.OPERATE and self.method != "GET"

    @cached_property
    def permits(self) -> Callable[[Principal], bool]:
        """Whether a principal has a role for it."""
        return PERMITS[self.access]

    @cached_property
    def query_names(self) -> frozenset[bytes]:
        return frozenset([each.name.encode() for each in self.parameters if each.place == "query"])


def signed_route(method: str, path: bytes, handler: Handler, access: Access) -> Route:
    """`handler` checks the signature of each request, and answers as it likes."""
    return Route(
        method=method,
        path=path.decode(),
        handler=lambda call: handler(call.exchange),
        kind="http_signed",
        signed=True,
        access=access,
        needs_ready=False,
        head=False,
    )


def overloaded(*codes: str) -> RouteAnswer:
    words = "Nothing was done: as much is under way as the node takes on. Try again later."
    return refusal(words, *(codes or ("overloaded",)))


NOT_JSON = refusal("The body must be JSON and say so: Content-Type: application/json.", "unsupported_media_type")
NO_LENGTH = refusal("Neither a body nor a Content-Length.", "length_required")
OTHER_PATH = refusal("No such route: many clients resolve /../ before they send it.", "no_such_route")

KEY = Parameter(
    "key", KeyInPath, f"The key, 1 to {MAX_KEY_BYTES} bytes, percent-encoded; a plain / may stay.", place="path"
)
