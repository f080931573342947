"""A real Chromium for one test, and pages for it under names of their own."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tools import browser

FLAGS = ("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run")
"""A browser for tests asks no one but the pages it is given."""

PATIENCE_MS = 60_000
"""Only to end a test that would hang."""


class BlankPage(BaseHTTPRequestHandler):
    """Every address of this server is an empty page: tests bring the scripts."""

    def do_GET(self) -> None:
        body = b"<!doctype html><title>a page</title>"
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Requests are not printed."""


@contextmanager
def page_server() -> Iterator[int]:
    """The port of a server of pages on the loopback."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), BlankPage)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser that finds every name below `example` at the loopback."""
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        pytest.fail("playwright and Chromium are missing; `make browser` installs both")
    names = "--host-resolver-rules=MAP *.example 127.0.0.1"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(
            executable_path=str(browser.chromium()),
            args=[*FLAGS, names, "--no-sandbox"],
            env=browser.environment() or None,
        )
        try:
            yield launched
        finally:
            launched.close()


@contextmanager
def page_at(launched: Any, url: str) -> Iterator[Any]:
    context = launched.new_context()
    context.set_default_timeout(PATIENCE_MS)
    try:
        page = context.new_page()
        page.goto(url)
        yield page
    finally:
        context.close()
