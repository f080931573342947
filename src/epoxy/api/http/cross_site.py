"""Refuses requests that a foreign web page makes a browser send, but for pages that the operator allows.

A browser sends simple requests (GET, HEAD, POST of plain text) to any address it can reach, for any page, and with the
certificate of its user. Three things tell such a request from one of a client:

- `Origin` and `Sec-Fetch-Site`, which no page can forge: a page of another origin is refused;
- `Content-Type: application/json` where the body is JSON (`inputs.json_body`), which no page can send across origins
  unless a preflight request allows it;
- `Host`: a page whose own name is made to resolve to a node's address (DNS rebinding) is of the same origin for its
  browser, but the name is not the node's.

Pages of the origins in `access.cors_origins` are served: their preflight requests are answered, and every answer tells
the browser (CORS) that the page may read it.
"""

from collections.abc import Callable, Iterable
from ipaddress import ip_address
from urllib.parse import urlsplit

from epoxy.api.http.inputs import BadRequest, shown
from epoxy.transport.http.request import HttpRequest
from epoxy.transport.http.response import Headers
from epoxy.transport.limits import SIGNED_PATHS

Names = Callable[[], Iterable[str]]

ANY = "*"
"""In `node.allowed_hosts`: whatever the name is."""

ANY_HOST = SIGNED_PATHS | {b"/healthz", b"/readyz"}
"""Signed requests prove more than a name, and a member that has just been added may not know its name yet. Load
balancers and supervisors probe under names of their own, and the answer is no secret."""

READING = frozenset(("GET", "HEAD"))

FRIENDLY_SITES = frozenset((b"same-origin", b"none"))
"""`none`: typed or bookmarked by the user."""

MAX_KNOWN = 1024
"""`Host` headers that were accepted, kept to save parsing the next one: clients of a node use a handful."""


PREFLIGHT_S = 600
"""How long a browser may keep the answer to a preflight request: a page that was allowed is refused that soon after the
setting changed, even if its preflight is not sent again."""

PREFLIGHT_ANSWER: Headers = (
    (b"Access-Control-Allow-Methods", b"GET, HEAD, PUT, POST, PATCH, DELETE"),
    (b"Access-Control-Allow-Headers", b"authorization, content-type, *"),
    (b"Access-Control-Max-Age", b"%d" % PREFLIGHT_S),
)
"""`*` does not stand for `authorization`."""


class CrossSiteGuard:
    """`names` are the node's host names now. Every IP address and every name of the loopback is accepted, too.
    `origins`: pages of these are served."""

    def __init__(self, names: Names, origins: Iterable[str] = ()) -> None:
        self._names = names
        self._known: set[bytes] = set()
        self._shared = {origin.encode(): shared_with(origin.encode()) for origin in origins}

    def objection(self, request: HttpRequest) -> BadRequest | None:
        """Why this request is refused; None: it is not."""
        headers = request.headers
        host = headers.get(b"host", b"")
        if host not in self._known and request.path not in ANY_HOST:
            if not self._is_ours(host):
                return wrong_host(host)
            self._remember(host)
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        if origin in self._shared:
            return None
        if origin is not None and not is_same_origin(origin, host):
            return foreign(f"a page of '{shown(origin)}'")
        if site is not None and site not in FRIENDLY_SITES and not is_followed_link(request):
            return foreign("a page of another site")
        return None

    def sharing(self, request: HttpRequest) -> Headers:
        """What the answer tells a browser that sent this for a page of an allowed origin; nothing to others."""
        return self._shared.get(request.headers.get(b"origin", b""), ())

    def _is_ours(self, host: bytes) -> bool:
        name = host_name(host)
        if name is None:
            return False
        if name in ("", "localhost") or name.endswith(".localhost") or is_ip(name):
            return True
        names = {each.lower().rstrip(".") for each in self._names()}
        return ANY in names or name in names

    def _remember(self, host: bytes) -> None:
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        self._known.add(host)


def host_name(host: bytes) -> str | None:
    """Without its port. None: this is no host. Without the header it is empty: no browser leaves it out."""
    try:
        text = host.decode("ascii")
        parts = urlsplit(f"//{text}")
        parts.port  # noqa: B018 (raises if it is none)
    except ValueError:
        return None
    if parts.netloc != text or "@" in text:
        return None
    return (parts.hostname or "").rstrip(".")


def is_ip(name: str) -> bool:
    """No page has an IP address for its name unless it was loaded from there."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def shared_with(origin: bytes) -> Headers:
    """Caches between browser and node must not give an answer for one page to another: `Vary`."""
    return (
        (b"Access-Control-Allow-Origin", origin),
        (b"Access-Control-Expose-Headers", b"*"),
        (b"Vary", b"Origin"),
    )


def is_preflight(request: HttpRequest) -> bool:
    """A browser asks whether a page may send a request. It has no token: a script's headers are not sent with it."""
    return request.method == "OPTIONS" and b"access-control-request-method" in request.headers


def is_same_origin(origin: bytes, host: bytes) -> bool:
    """The host is accepted, so a page that was loaded from it came from this node."""
    return origin in (b"http://" + host, b"https://" + host)


def is_followed_link(request: HttpRequest) -> bool:
    """A user follows a link to this node: nothing is written, and only that user sees the answer."""
    headers = request.headers
    document = headers.get(b"sec-fetch-dest") == b"document"
    return document and headers.get(b"sec-fetch-mode") == b"navigate" and request.method in READING


def foreign(whose: str) -> BadRequest:
    message = f"nothing was done: {whose} made a browser send this; access.cors_origins takes origins whose pages may"
    return BadRequest(403, "cross_site", message)


def wrong_host(host: bytes) -> BadRequest:
    message = f"nothing was done: '{shown(host)}' is no name of this node; node.allowed_hosts takes more names"
    return BadRequest(421, "unknown_host", message)
