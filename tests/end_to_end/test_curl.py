"""The HTTP door from a shell. Where there is no curl, Python asks in its words."""

import http.client
import shutil
import subprocess
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from epoxy.cli.demo.cluster import DemoCluster
from tests.end_to_end.recorder import PATIENCE_S

Ask = Callable[[str, str, str | None], tuple[int, str]]
CURL = shutil.which("curl")


def with_curl(method: str, url: str, body: str | None) -> tuple[int, str]:
    command = [str(CURL), "--silent", "--write-out", "\n%{http_code}", "--request", method, url]
    command += ["--data-binary", body] if body is not None else []
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    text, _, status = done.stdout.rpartition("\n")
    return int(status), text


def with_python(method: str, url: str, body: str | None) -> tuple[int, str]:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE_S)
    try:
        connection.request(method, f"{parts.path}?{parts.query}" if parts.query else parts.path, body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("ask", [with_python, *([with_curl] if CURL else [])])
def test_a_name_a_setting_and_a_mistake(trio: DemoCluster, ask: Ask) -> None:
    east, west, _ = (node.url for node in trio.nodes)
    name, setting = f"/v2/kv/{ask.__name__}%2Fada", f"/v2/kv/{ask.__name__}-cfg"
    assert ask("PUT", east + name, "eu-west-1")[0] == 201
    assert ask("PUT", west + name, "eu-west-1")[0] == 200
    assert ask("PUT", west + name, "us-east-1") == (409, "eu-west-1")
    assert ask("GET", west + name + "?read=linearizable", None) == (200, "eu-west-1")
    assert ask("PUT", east + setting + "?mode=put", "1")[0] == 201
    assert ask("PUT", west + setting + "?mode=put&if_version=1", "2")[0] == 200
    assert ask("PUT", east + setting + "?mode=put&if_version=1", "3")[0] == 409
    assert ask("DELETE", west + setting, None)[0] in (200, 204)
    assert ask("GET", east + setting + "?read=linearizable", None)[0] == 404
    status, told = ask("GET", east + name + "?read=guess", None)
    assert (status, '"definite":true' in told) == (400, True)
    assert ask("GET", east + "/readyz", None)[0] == 200
    assert "epoxy_proposals_total" in ask("GET", east + "/metrics", None)[1]
