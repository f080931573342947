"""The console's pages. They hold no data: everything they show, they ask for with the visitor's own token. They are for
browsers, and not in the document of the API."""

from epoxy.api.console.assets import INDEX, Asset, Assets
from epoxy.api.http.calls import ApiCall, Header
from epoxy.api.http.routes import Route
from epoxy.model.access import Access

PAGES = "/ui"
FILES = "/ui/{path}"
PREFIX_BYTES = len("/ui/")

POLICY = b"; ".join(
    (
        b"default-src 'self'",
        b"base-uri 'none'",
        b"form-action 'self'",
        b"frame-ancestors 'none'",
        b"object-src 'none'",
    )
)
"""Scripts, styles and connections of this node alone, and no page around it."""

HEADERS: tuple[Header, ...] = (
    (b"X-Content-Type-Options", b"nosniff"),
    (b"Referrer-Policy", b"no-referrer"),
    (b"Cache-Control", b"no-cache"),
    (b"Vary", b"Accept-Encoding"),
)
"""`no-cache`: kept by the browser, and asked about each time: after an upgrade no page is made of old and new files."""


class ConsoleRoutes:
    """`panel`: the address of the demo's panel, if this node is part of one: the only other one that pages ask."""

    def __init__(self, panel: str = "", assets: Assets | None = None) -> None:
        self._assets = assets or Assets()
        policy = POLICY + (b"; connect-src 'self' %b" % panel.encode() if panel else b"")
        self._headers: tuple[Header, ...] = ((b"Content-Security-Policy", policy), *HEADERS)

    def table(self) -> list[Route]:
        return [
            Route(
                method="GET",
                path=PAGES,
                handler=self.index,
                kind="http_get_ui",
                access=Access.PUBLIC,
                needs_ready=False,
            ),
            Route(
                method="GET",
                path=FILES,
                handler=self.file,
                kind="http_get_ui",
                access=Access.PUBLIC,
                needs_ready=False,
            ),
        ]

    def index(self, call: ApiCall) -> None:
        self._serve(call, INDEX)

    def file(self, call: ApiCall) -> None:
        self._serve(call, call.request.path[PREFIX_BYTES:].decode("ascii", "replace") or INDEX)

    def _serve(self, call: ApiCall, name: str) -> None:
        asset = self._assets.get(name)
        if asset is None:
            call.fail(404, "no_such_route", "the console has no such file")
        elif asset.etag in call.request.headers.get(b"if-none-match", b""):
            call.answer(304, headers=(*self._headers, (b"ETag", asset.etag)))
        else:
            send(call, asset, (*self._headers, (b"ETag", asset.etag)))


def send(call: ApiCall, asset: Asset, headers: tuple[Header, ...]) -> None:
    if asset.packed and b"gzip" in call.request.headers.get(b"accept-encoding", b""):
        packed = (*headers, (b"Content-Encoding", b"gzip"))
        call.answer(200, asset.packed, content_type=asset.content_type, headers=packed)
    elif asset.plain:
        call.answer(200, asset.plain, content_type=asset.content_type, headers=headers)
    else:
        call.fail(406, "not_acceptable", "this file is kept compressed: ask for it with Accept-Encoding: gzip")
