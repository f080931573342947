"""The image's HEALTHCHECK, against a server that answers as told."""

import runpy
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "deploy" / "healthcheck.py"


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/healthz" else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Answering) as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{serving.server_address[1]}"
        serving.shutdown()
        thread.join()


def main() -> int:
    run: Callable[[], int] = runpy.run_path(str(SCRIPT))["main"]
    return run()


def test_a_node_that_answers_is_healthy(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EPOXY_HEALTH_URL", f"{server}/healthz")
    assert main() == 0


@pytest.mark.parametrize("wrong", ["{server}/other", "http://127.0.0.1:1/healthz", "no url"])
def test_anything_else_is_not(
    wrong: str, server: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = wrong.format(server=server)
    monkeypatch.setenv("EPOXY_HEALTH_URL", url)
    assert main() == 1
    assert url in capsys.readouterr().err
