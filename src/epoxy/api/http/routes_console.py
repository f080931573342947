"""The console's pages. They hold no data: everything they show, they ask for with the visitor's own token. They are for
browsers, and not in the document of the API."""

import re

from epoxy.api.console.assets import INDEX, Asset, Assets
from epoxy.api.console.sources import NoArchive
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

WORKER = "playground/worker.js"
WORKER_POLICY = POLICY + b"; script-src 'self' 'wasm-unsafe-eval'"
"""A worker has the policy that its own script is sent with. This one alone compiles WebAssembly, and it has no page, no
token and no other site within reach."""

HEADERS: tuple[Header, ...] = (
    (b"X-Content-Type-Options", b"nosniff"),
    (b"Referrer-Policy", b"no-referrer"),
    (b"Vary", b"Accept-Encoding"),
)

REVALIDATED: Header = (b"Cache-Control", b"no-cache")
"""Kept by the browser, and asked about each time: after an upgrade no page is made of old and new files."""

VERSIONED = "vendor/pyodide/"
FOR_EVER: Header = (b"Cache-Control", b"public, max-age=31536000, immutable")
"""Of files with a version in their address: another version has another one."""


NOUGHT = re.compile(rb"q *= *0(\.0*)?")


class ConsoleRoutes:
    """`panel`: the address of the demo's panel, if this node is part of one: the only other one that pages ask."""

    def __init__(self, panel: str = "", assets: Assets | None = None) -> None:
        self._assets = assets or Assets()
        self._policy = POLICY + (b"; connect-src 'self' %b" % panel.encode() if panel else b"")

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
        try:
            asset = self._assets.get(name)
        except NoArchive as missing:
            call.fail(404, "no_such_route", str(missing))
            return
        if asset is None:
            call.fail(404, "no_such_route", "the console has no such file")
        elif asset.etag in call.request.headers.get(b"if-none-match", b""):
            call.answer(304, headers=self._headers(name, asset))
        else:
            send(call, asset, self._headers(name, asset))

    def _headers(self, name: str, asset: Asset) -> tuple[Header, ...]:
        policy = WORKER_POLICY if name == WORKER else self._policy
        kept = FOR_EVER if name.startswith(VERSIONED) else REVALIDATED
        return (*HEADERS, (b"Content-Security-Policy", policy), kept, (b"ETag", asset.etag))


def takes_gzip(accepted: bytes) -> bool:
    """By `Accept-Encoding`. A weight of nought refuses it."""
    for part in accepted.lower().split(b","):
        name, _, weight = part.partition(b";")
        if name.strip() == b"gzip":
            return not NOUGHT.fullmatch(weight.strip())
    return False


def send(call: ApiCall, asset: Asset, headers: tuple[Header, ...]) -> None:
    if asset.packed and takes_gzip(call.request.headers.get(b"accept-encoding", b"")):
        packed = (*headers, (b"Content-Encoding", b"gzip"))
        call.answer(200, asset.packed, content_type=asset.content_type, headers=packed)
    elif asset.plain:
        call.answer(200, asset.plain, content_type=asset.content_type, headers=headers)
    else:
        call.fail(406, "not_acceptable", "this file is kept compressed: ask for it with Accept-Encoding: gzip")
