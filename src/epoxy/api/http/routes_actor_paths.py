"""Requests to actors in HTTP itself: any method on `/v2/actors/at/{name}/{key}/{path}`, and WebSockets.

Method, path, query, headers and body go to the actor, and its status, headers and body come back. Bodies are passed on
as they arrive, in both directions. Errors of a node's own have the header `Epoxy-Error`; an actor's answer never has.
"""

from collections.abc import Callable

from epoxy.actors.asks import call_or_make
from epoxy.actors.messages import CallActor, Verdict
from epoxy.actors.service import ActorService
from epoxy.api.http.actor_sockets import CLOSE_TRY_LATER, MAX_SOCKETS, ActorSocket, offered
from epoxy.api.http.actor_streams import HttpStream, passed_on
from epoxy.api.http.calls import ApiCall
from epoxy.api.http.cross_site import FRIENDLY_SITES, foreign
from epoxy.api.http.inputs import BadRequest, Parameters, flag, parameters, unquote
from epoxy.api.http.permissions import check_call
from epoxy.api.http.routes import OCTETS, Parameter, Route, RouteAnswer, refusal
from epoxy.model.access import Access
from epoxy.model.actors import ActorName, check_part
from epoxy.model.api import DEFAULT, Flag, Name
from epoxy.model.exchanges import MAX_IDEMPOTENCY_KEY_BYTES, RequestHead
from epoxy.transport.http import websocket
from epoxy.transport.limits import ACTOR_PATH

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
"""And HEAD. OPTIONS is what browsers ask before a page may."""

OURS = b"epoxy-"
"""Begins the parameters that are not the actor's."""

IDEMPOTENCY_KEY = Parameter(
    "Idempotency-Key", str, "1 to 255 bytes: a request with one is carried out once.", place="header"
)

PARAMETERS = (
    Parameter("name", Name, "The actor's name.", place="path"),
    Parameter("key", Name, "Its key.", place="path"),
    Parameter("path", str, "For the actor; may contain slashes.", place="path"),
    Parameter("epoxy-namespace", Name, "Where its name is looked for.", DEFAULT),
    Parameter("epoxy-pool", Name, "Which workers host it, if it is made.", DEFAULT),
    Parameter("epoxy-create", Flag, "Make the actor first, if there is none.", "true"),
    IDEMPOTENCY_KEY,
)

SUMMARIES = {
    "GET": "Ask an actor in HTTP, or open a WebSocket to it",
    "POST": "Ask an actor in HTTP, with a body",
    "PUT": "Put something to an actor",
    "PATCH": "Change something of an actor",
    "DELETE": "Delete something of an actor",
}

Answer = Callable[[ApiCall, CallActor, Verdict], None]


class ActorPathRoutes:
    """`answer` turns verdicts into answers."""

    def __init__(self, actors: ActorService, answer: Answer) -> None:
        self._actors = actors
        self._answer = answer
        self.max_sockets = MAX_SOCKETS
        self._sockets: set[ActorSocket] = set()

    def table(self) -> list[Route]:
        answers = {
            200: RouteAnswer("What the actor answers, with the status and the headers that it likes.", {OCTETS: bytes}),
            404: refusal("There is no such actor.", "not_found"),
            426: refusal("A handshake of a WebSocket that is none.", "upgrade_required"),
            502: refusal("The actor failed, or its answer is not HTTP.", "actor_failed"),
            503: refusal(
                "Not now, or the outcome is unknown: `definite` tells.",
                *("unavailable", "not_running", "outcome_unknown"),
            ),
        }
        return [
            Route(
                method=method,
                path=f"{ACTOR_PATH.decode()}{{name}}/{{key}}/{{path}}",
                handler=self.ask,
                kind="http_actor",
                access=Access.CALL,
                operation=f"{method.lower()}Actor".replace("getActor", "fetchActor"),
                summary=SUMMARIES[method],
                parameters=PARAMETERS,
                body={OCTETS: bytes} if method in ("POST", "PUT", "PATCH") else {},
                body_description="For the actor, of any length." if method in ("POST", "PUT", "PATCH") else "",
                answers=answers,
                sockets=method == "GET",
            )
            for method in METHODS
        ]

    def ask(self, call: ApiCall) -> None:
        check_site(call)
        given, query = split_query(call.request.query)
        name, path = actor_of(call.request.path, given)
        pool, makes = text(given, b"epoxy-pool"), flag(given, b"epoxy-create", b"true")
        check_part("epoxy-pool", pool)
        check_call(call.principal, name)
        is_socket = call.request.headers.get(b"upgrade", b"").lower() == b"websocket"
        if is_socket and (reason := websocket.objection(call.exchange)) is not None:
            raise BadRequest(426, "upgrade_required", reason)
        protocols = offered(call) if is_socket else ()
        head = RequestHead(
            method=call.request.method,
            path=path,
            query=query,
            headers=passed_on(call.request.headers.items()),
            caller=call.principal.name,
            idempotency_key=idempotency_key(call),
            upgrade=is_socket,
            protocols=protocols,
        )
        fin = call.exchange.body is None and not is_socket
        question = CallActor(target=name, body=call.request.body, head=head, fin=fin)
        stream = self._socket(call, question, protocols) if is_socket else self._stream(call, question)
        if stream is None:
            return
        if makes:
            call_or_make(self._actors, question, pool, stream.answered, stream)
        else:
            self._actors.ask(question, stream.answered, stream=stream)

    def _stream(self, call: ApiCall, question: CallActor) -> HttpStream:
        return HttpStream(call, lambda verdict: self._answer(call, question, verdict))

    def _socket(self, call: ApiCall, question: CallActor, protocols: tuple[str, ...]) -> ActorSocket | None:
        socket = ActorSocket(
            call, protocols, lambda verdict: self._answer(call, question, verdict), self._sockets.discard
        )
        if len(self._sockets) >= self.max_sockets:
            socket.close(CLOSE_TRY_LATER, f"{self.max_sockets} WebSockets to actors are open at this node already")
            return None
        self._sockets.add(socket)
        return socket

    @property
    def sockets(self) -> int:
        return len(self._sockets)

    def look_again(self) -> None:
        """What is in force has changed."""
        for socket in list(self._sockets):
            socket.look_again()

    def close(self, code: int, reason: str) -> None:
        """All WebSockets."""
        for socket in list(self._sockets):
            socket.close(code, reason)


def check_site(call: ApiCall) -> None:
    """A link on a foreign page may lead to what is only read, and a GET of an actor may be more than that."""
    site = call.request.headers.get(b"sec-fetch-site")
    if site is not None and site not in FRIENDLY_SITES and not call.exchange.shared:
        raise foreign("a page of another site")


def actor_of(path: bytes, given: Parameters) -> tuple[ActorName, str]:
    """The actor in an address, and the path behind it, percent-encoded as it came."""
    name, _, rest = path.removeprefix(ACTOR_PATH).partition(b"/")
    key, _, rest = rest.partition(b"/")
    try:
        found = ActorName(text(given, b"epoxy-namespace"), unquote(name).decode(), unquote(key).decode())
    except UnicodeDecodeError:
        raise BadRequest(400, "bad_encoding", "the actor's name or key is not UTF-8") from None
    return found, "/" + rest.decode("latin-1")


def split_query(query: bytes) -> tuple[Parameters, str]:
    """Our parameters, and the query without them, as it came."""
    words = query.split(b"&") if query else []
    ours = b"&".join(word for word in words if word.startswith(OURS))
    known = frozenset(each.name.encode() for each in PARAMETERS if each.place == "query")
    return parameters(ours, known), b"&".join(word for word in words if not word.startswith(OURS)).decode("latin-1")


def idempotency_key(call: ApiCall) -> str:
    given = call.request.headers.get(b"idempotency-key")
    if given is None:
        return ""
    if not 1 <= len(given) <= MAX_IDEMPOTENCY_KEY_BYTES:
        raise BadRequest(400, "bad_request", f"Idempotency-Key has 1 to {MAX_IDEMPOTENCY_KEY_BYTES} bytes")
    return given.decode("latin-1")


def text(given: Parameters, name: bytes) -> str:
    try:
        return given.get(name, DEFAULT.encode()).decode()
    except UnicodeDecodeError:
        raise BadRequest(400, "bad_parameter", f"{name.decode()} is not UTF-8") from None
