"""`epoxy demo` as a stranger uses it: in one terminal it runs, in another it gets orders."""

import http.client
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from epoxy import Client
from epoxy.cli.demo.plan import plan
from tests.end_to_end.recorder import PATIENCE_S, PROCESS_S
from tests.end_to_end.world import draw_port_base, until

EPOXY = [sys.executable, "-m", "epoxy"]


def epoxy(*words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([*EPOXY, *words], capture_output=True, text=True, timeout=PROCESS_S, check=False)
    assert done.returncode == status, (words, done.stdout, done.stderr)
    return done


class Demo:
    """One that runs in its own process."""

    def __init__(self, process: "subprocess.Popen[str]", described: dict[str, Any]) -> None:
        self.process = process
        self.port_base = str(described["port_base"])
        self.folder = described["dir"]
        self.regions: list[dict[str, Any]] = described["regions"]

    def order(self, *words: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        return epoxy("demo", *words, "--port-base", self.port_base, status=status)

    def ps(self) -> dict[str, dict[str, Any]]:
        return {region["region"]: region for region in json.loads(self.order("ps", "--json").stdout)["regions"]}

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def client(self, place: int) -> Client:
        return Client(self.regions[place]["http"], timeout=PATIENCE_S)


@contextmanager
def running(*words: str) -> Iterator[Demo]:
    command = [*EPOXY, "demo", "--json", *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with ExitStack() as stack:
        undo = stack.enter_context(ExitStack())  # what is removed when the process has ended
        stack.callback(process.communicate, timeout=PATIENCE_S)
        stack.callback(process.kill)
        demo = Demo(process, first_document(process))
        if "--dir" not in words:  # one that is killed leaves its folder
            undo.callback(shutil.rmtree, demo.folder, ignore_errors=True)
        yield demo


def first_document(process: "subprocess.Popen[str]") -> dict[str, Any]:
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line == "}\n":
            described: dict[str, Any] = json.loads("".join(lines))
            return described
    raise AssertionError(process.communicate())


def gone(pid: int) -> bool:
    """Or dead, and not yet reaped by the process that inherited it: what that does is none of a demo's business."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state.startswith("Z")


def test_orders_from_a_second_terminal_and_a_second_life(tmp_path: Path) -> None:
    base, folder = str(draw_port_base()), str(tmp_path / "kept")
    with running("--no-wan", "--port-base", base, "--dir", folder) as demo:
        east, west, north = (region["region"] for region in demo.regions)
        with demo.client(0) as client:
            assert client.reserve(b"user/ada", b"east").won

        killed = demo.order("kill", west).stdout
        assert f"{west} is dead: SIGKILL to pid {demo.regions[1]['pid']}" in killed
        assert "2 of 3 regions go on writing; 0 more may fail." in killed
        assert (demo.ps()[west]["condition"], demo.ps()[west]["pid"]) == ("down", None)
        assert gone(demo.regions[1]["pid"])
        assert "is down already" in demo.order("kill", west, status=1).stderr
        with demo.client(2) as client:
            assert client.reserve(b"user/bob", b"north").won

        demo.order("pause", north)
        assert demo.ps()[east]["can"].startswith("cannot write: reaches 1 of 3, needs 2")
        assert "continues (pid" in demo.order("resume", north).stdout

        assert f"{west} is back with the data it had" in demo.order("revive", west).stdout
        demo.order("cut", west, east)
        assert demo.ps()[west]["condition"] == "up"
        demo.order("cut", west)
        assert demo.ps()[west]["condition"] == "cut off"
        assert "3 of 3 regions go on writing; 1 more may fail." in demo.order("heal", west).stdout
        assert "are neither cut nor slowed" in demo.order("heal", west, status=1).stderr

        slowed = demo.order("slow", west, east, "150").stdout
        assert slowed.startswith(f"Now a round trip between {west} and {east} takes 150 ms more.")
        assert f"{east} - {west}: slowed by 150 ms" in demo.order("ps").stdout
        demo.order("heal", west, east)
        told = json.loads(demo.order("race", east, west, "--json").stdout)
        assert sorted(racer["outcome"] for racer in told["race"]["racers"]) == ["taken", "won"]
        with demo.client(2) as client:
            assert client.get(told["race"]["key"]) == told["race"]["winner"].encode()
        demo.order("pause", north)
        assert f"{north} is paused; `epoxy demo resume" in demo.order("race", east, north, status=1).stderr
        demo.order("resume", north)

        assert "Did you mean" in demo.order("kill", west[:-1], status=1).stderr
        assert "no demo is running in" in epoxy("demo", "ps", "--dir", str(tmp_path), status=2).stderr
        assert east in epoxy("demo", "--dir", folder, "ps").stdout

        pids = [region["pid"] for region in demo.ps().values()]
        assert demo.end(signal.SIGINT) == 0
        assert all(map(gone, pids))
        assert f"no demo is running at --port-base {base}" in demo.order("ps", status=2).stderr

    done = epoxy("demo", "--no-wan", "--dir", folder, "--exec", "epoxy get user/ada; epoxy get user/bob")
    assert done.stdout.split() == ["eastnorth"]
    assert "holds a demo of 3 regions" in epoxy("demo", "--dir", folder, "--regions", "5", status=1).stderr


def ask_panel(demo: Demo, method: str, path: str, **headers: str) -> tuple[int, Any]:
    base = int(demo.port_base)
    with urllib.request.urlopen(f"{demo.regions[0]['http']}/v2/console/demo", timeout=PATIENCE_S) as answer:
        key = json.load(answer)
    assert key["url"] == f"http://127.0.0.1:{base + 91}"
    connection = http.client.HTTPConnection("127.0.0.1", base + 91, timeout=PROCESS_S)
    given = {"origin": demo.regions[0]["http"], "authorization": f"Bearer {key['token']}", **headers}
    body = json.dumps({"verb": "kill", "region": demo.regions[1]["region"]}) if method == "POST" else None
    try:
        connection.request(method, path, body, given)
        told = connection.getresponse()
        return told.status, json.load(told)
    finally:
        connection.close()


def test_pages_of_its_nodes_give_orders_and_others_do_not() -> None:
    with running("--no-wan", "--port-base", str(draw_port_base())) as demo:
        status, seen = ask_panel(demo, "GET", "/v1/demo")
        assert (status, len(seen["regions"]), len(seen["links"]), len(seen["measured"])) == (200, 3, 3, 6)
        assert ask_panel(demo, "POST", "/v1/orders", origin="http://evil.example")[0] == 403
        assert ask_panel(demo, "POST", "/v1/orders", host="evil.example")[0] == 421
        assert ask_panel(demo, "POST", "/v1/orders", authorization="Bearer x")[0] == 401
        assert {region["condition"] for region in demo.ps().values()} == {"up"}
        status, told = ask_panel(demo, "POST", "/v1/orders")
        assert (status, told["done"]) == (200, True)
        assert demo.ps()[demo.regions[1]["region"]]["condition"] == "down"
        assert demo.end(signal.SIGTERM) == 0


def test_a_port_of_the_panel_in_use_is_named() -> None:
    base = draw_port_base()
    with socket.create_server(("127.0.0.1", base + 91)):
        told = epoxy("demo", "--port-base", str(base), "--exec", "true", status=1).stderr
    assert f"port {base + 91}, for the orders of the console's page, cannot be used" in told


def test_a_demo_grows_and_shrinks_and_remembers_it(tmp_path: Path) -> None:
    base, folder = draw_port_base(5), str(tmp_path / "d")
    with running("--no-wan", "--port-base", str(base), "--dir", folder) as demo:
        first, second, third = demo.regions
        epoxy("reserve", "user/ada", "mine", "--url", first["http"])
        demo.order("kill", third["region"])
        assert "us-west-2 has copied everything and is a member, replica 4" in demo.order("add", "us-west-2").stdout
        assert "is a member already" in demo.order("add", "us-west-2", status=1).stderr
        assert "unknown region" in demo.order("add", "atlantis", status=1).stderr
        assert demo.ps()["us-west-2"]["http"] == f"http://127.0.0.1:{base + 30}"
        assert epoxy("get", "user/ada", "--url", demo.ps()["us-west-2"]["http"]).stdout == "mine"
        assert "is back with the data it had" in demo.order("revive", third["region"]).stdout

        demo.order("kill", second["region"])
        gone_for_good = demo.order("remove", second["region"]).stdout
        assert f"{second['region']} is no member any more" in gone_for_good
        assert "3 of 3 regions go on writing; 1 more may fail." in gone_for_good
        assert second["region"] not in demo.ps()
        assert demo.end(signal.SIGTERM) == 0

    done = epoxy("demo", "--no-wan", "--dir", folder, "--exec", "epoxy members list --json; epoxy get user/ada")
    document, end = json.JSONDecoder().raw_decode(done.stdout)
    assert [row["id"] for row in document["replicas"]] == [1, 3, 4]
    assert done.stdout[end:].strip() == "mine"


def test_a_command_gets_the_addresses_and_gives_the_status(tmp_path: Path) -> None:
    base = draw_port_base()
    seen = tmp_path / "seen"
    listed = f"epoxy demo --port-base {base} ps --json > {shlex.quote(str(seen))}"
    script = f'echo "$EPOXY_URL $EPOXY_URLS $EPOXY_PAGE_PORT"; {listed}; exit 7'
    done = epoxy("demo", "--port-base", str(base), "--exec", script, status=7)
    urls = [f"http://127.0.0.1:{base + 10 * i}" for i in range(3)]
    assert done.stdout == f"{urls[0]} {','.join(urls)} {base + 90}\n"
    described = json.loads(seen.read_text())
    assert [region["floor_ms"] for region in described["regions"]] == [70.5, 70.5, 152.4]
    assert all(gone(region["pid"]) for region in described["regions"])
    assert not Path(described["dir"]).exists()
    assert [line.split()[0] for line in done.stderr.splitlines() if " ms " in line] == [
        "us-east-1",
        "eu-west-1",
        "ap-northeast-1",
    ]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_no_region_outlives_its_demo(number: signal.Signals) -> None:
    with running("--no-wan", "--port-base", str(draw_port_base())) as demo:
        demo.order("pause", demo.regions[0]["region"])
        assert demo.end(number) == (0 if number is signal.SIGTERM else -number)
        until(lambda: all(gone(region["pid"]) for region in demo.regions), "gone")


def test_a_region_that_somebody_else_ended_is_told_and_comes_back() -> None:
    with running("--no-wan", "--port-base", str(draw_port_base())) as demo:
        west = demo.regions[1]
        os.kill(west["pid"], signal.SIGKILL)
        until(lambda: bool(demo.ps()[west["region"]]["condition"] == "down"), "seen")
        demo.order("revive", west["region"])
        assert demo.ps()[west["region"]]["pid"] not in (None, west["pid"])
        assert demo.end(signal.SIGTERM) == 0
        assert demo.process.stderr is not None
        assert f"{west['region']} was ended by signal 9." in demo.process.stderr.read()


def test_a_port_in_use_is_named() -> None:
    base = draw_port_base()
    with socket.create_server(("127.0.0.1", base + 11)):
        told = epoxy("demo", "--port-base", str(base), "--exec", "true", status=1).stderr
    assert told.startswith(f"epoxy: port {base + 11}, for RESP of eu-west-1, cannot be used: Address already in use.")
    assert told.count("\n") == 1


def test_a_region_that_ends_at_start_says_why(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    plan(folder, regions=3, port_base=draw_port_base(), wan=False).lay_out()
    (folder / "eu-west-1").mkdir()
    (folder / "eu-west-1" / "format").write_text('{"format": 99}')
    told = epoxy("demo", "--dir", str(folder), "--exec", "true", status=1).stderr
    assert "epoxy: node 2 ended before it was ready:" in told
    assert "format 99, which is newer than this release knows: it reads format 5" in told
