"""The example as a newcomer runs it: beside a cluster, with nothing but an address."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from epoxy.cli.demo.cluster import DemoCluster
from tests.end_to_end.recorder import PATIENCE_S

ROOMS = Path(__file__).resolve().parents[2] / "examples" / "chat" / "rooms.py"


def say(page: str, region: str, line: str) -> dict[str, Any]:
    """Until it is heard; then perhaps twice."""
    address = f"{page}/say?{urlencode({'region': region, 'room': 'lobby'})}"
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            with urlopen(Request(address, data=line.encode()), timeout=PATIENCE_S) as answer:
                told: dict[str, Any] = json.load(answer)
                return told
        except HTTPError as error:
            error.close()
            if error.code != 503 or time.monotonic() > deadline:
                raise


def test_a_room_is_the_same_in_every_region(trio: DemoCluster) -> None:
    command = [sys.executable, str(ROOMS), "--url", trio.nodes[0].url, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            page = process.stdout.readline().split()[-1]
            here, there, elsewhere = (node.datacenter for node in trio.nodes)
            first = say(page, here, "ada: hello")
            assert (first["room"], first["region"], set(first["lines"])) == ("lobby", here, {"ada: hello"})
            second = say(page, there, "bob: hi")
            assert second == say(page, elsewhere, "")
            assert set(second["lines"]) == {"ada: hello", "bob: hi"}
            with urlopen(f"{page}/", timeout=PATIENCE_S) as answer:
                assert b"<title>Chat rooms</title>" in answer.read()
            with urlopen(f"{page}/regions", timeout=PATIENCE_S) as answer:
                assert sorted(json.load(answer)) == sorted([here, there, elsewhere])
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE_S)
            finally:
                process.kill()
