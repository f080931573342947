"""What a demo says and plans, without starting one. tests/end_to_end has those that run."""

import os
import socket
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from epoxy.cli.demo import control, show
from epoxy.cli.demo.cluster import DemoCluster, check_ports
from epoxy.cli.demo.control import ControlSocket, DemoOrder, DemoReply
from epoxy.cli.demo.plan import REGIONS, DemoPlan, plan
from epoxy.cli.main import run
from epoxy.model.errors import ConfigError, InvalidRequest, Unavailable
from epoxy.node.process.config import load
from epoxy.transport.wan import aws

FLOORS = {3: [70, 70, 152], 5: [72, 101, 127, 152, 180]}
NOWHERE = 65_000


def a_plan(folder: Path, size: int = 3, *, wan: bool = True) -> DemoPlan:
    return plan(folder, regions=size, port_base=NOWHERE, wan=wan)


@pytest.fixture(autouse=True)
def folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Demos of other people are none of a test's business. Sockets want short paths."""
    monkeypatch.setattr(control, "folder_of_user", lambda: tmp_path)


# The plan.


@pytest.mark.parametrize("size", FLOORS)
def test_floors(tmp_path: Path, size: int) -> None:
    made = a_plan(tmp_path / "d", size)
    floors = [made.floor_ms(name, made.names) for name in made.names]
    assert [round(floor) for floor in floors if floor is not None] == FLOORS[size]


def test_the_floor_of_a_full_demo_is_the_table_s_own(tmp_path: Path) -> None:
    for size, names in REGIONS.items():
        made = a_plan(tmp_path / str(size), size)
        assert [made.floor_ms(name, names) for name in names] == [aws.floor_ms(name, names) for name in names]


def test_without_a_wan_there_is_no_floor(tmp_path: Path) -> None:
    made = a_plan(tmp_path / "d", wan=False)
    assert made.floor_ms("us-east-1", made.names) is None


@pytest.mark.parametrize("wan", [True, False])
def test_every_region_gets_settings_that_a_node_accepts(tmp_path: Path, wan: bool) -> None:
    made = a_plan(tmp_path / "d", 5, wan=wan)
    for i, node in enumerate(made.lay_out()):
        settings = load(node.config)
        assert (settings.node.id, settings.node.datacenter) == (i + 1, made.names[i])
        assert (settings.node.http.port, settings.node.resp) == (NOWHERE + 10 * i, settings.node.resp)
        assert settings.node.resp is not None
        assert settings.node.resp.port == NOWHERE + 10 * i + 1
        assert [member.datacenter for member in settings.cluster.members] == list(made.names)
        assert settings.wan.emulate is wan
        assert settings.cluster.secret_file.stat().st_mode & 0o077 == 0


def test_a_region_that_comes_later_names_the_first_ones_and_has_an_id_of_its_own(tmp_path: Path) -> None:
    made = a_plan(tmp_path / "d")
    made.lay_out()
    place = made.place_of("us-west-2")
    settings = load(made.furnish(place).config)
    assert (settings.node.id, settings.node.datacenter, settings.cluster.join) == (4, "us-west-2", True)
    assert [member.id for member in settings.cluster.members] == [1, 2, 3]
    assert (settings.node.http.port, settings.wan.emulate) == (NOWHERE + 30, True)


def test_who_came_and_who_went_is_remembered(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    made = a_plan(folder)
    made.lay_out()
    changed = made.grown(made.place_of("us-west-2")).shrunk(2)
    changed.keep()
    again = plan(folder, regions=None, port_base=None, wan=True)
    assert again == changed
    assert again.names == ("us-east-1", "ap-northeast-1", "us-west-2")
    assert [node.id for node in again.lay_out()] == [1, 3, 4]
    assert again.sizes.n == 3
    assert again.place_of("eu-west-1").id == 2, "its data knows it by that"
    assert again.grown(again.place_of("eu-west-1")).names == (*REGIONS[3], "us-west-2")
    assert again.place_of("sa-east-1").id == 5, "no id is used twice"


def test_a_folder_keeps_its_secret_its_size_and_its_ports(tmp_path: Path) -> None:
    folder = tmp_path / "d"
    a_plan(folder, 5).lay_out()
    secret = (folder / "secret").read_bytes()
    again = plan(folder, regions=None, port_base=None, wan=True)
    again.lay_out()
    assert (again.regions, again.port_base, (folder / "secret").read_bytes()) == (5, NOWHERE, secret)
    with pytest.raises(ConfigError, match="holds a demo of 5 regions, not 3"):
        plan(folder, regions=3, port_base=None, wan=True)
    with pytest.raises(ConfigError, match=f"was made with --port-base {NOWHERE}"):
        plan(folder, regions=None, port_base=7800, wan=True)


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "letter").touch()
    with pytest.raises(ConfigError, match="is not empty, and no demo was made there"):
        plan(tmp_path, regions=None, port_base=None, wan=True)
    (tmp_path / "demo.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"demo\.json cannot be read"):
        plan(tmp_path, regions=None, port_base=None, wan=True)
    (tmp_path / "demo.json").write_text('{"regions": 4, "port_base": 7800}')
    with pytest.raises(ConfigError, match="a demo of 4 regions; there are 3, 5, 7, 9"):
        plan(tmp_path, regions=None, port_base=None, wan=True)


# Orders.


@pytest.fixture
def cluster(tmp_path: Path) -> DemoCluster:
    """None of its regions was started."""
    return DemoCluster(a_plan(tmp_path / "d"))


@pytest.mark.parametrize(
    ("order", "told"),
    [
        (
            DemoOrder(verb="kill", region="eu-west-1"),
            "eu-west-1 is down already; `epoxy demo revive eu-west-1` starts it",
        ),
        (
            DemoOrder(verb="pause", region="eu-west-1"),
            "eu-west-1 is down; `epoxy demo revive eu-west-1` starts it again",
        ),
        (DemoOrder(verb="heal", region="eu-west-1"), "the links between eu-west-1 and all others are not cut"),
        (DemoOrder(verb="cut", region="eu-west-1", others=("eu-west-1",)), "eu-west-1 has no link to itself"),
        (DemoOrder(verb="kill", region="eu-west"), "unknown region 'eu-west'. Did you mean eu-west-1"),
        (DemoOrder(verb="sell", region="eu-west-1"), "unknown order 'sell'"),
    ],
)
def test_orders_that_make_no_sense_are_refused(cluster: DemoCluster, order: DemoOrder, told: str) -> None:
    answer = cluster.perform(order)
    assert not answer.done
    assert answer.lines[0].startswith(told)


def test_consequences_in_words(cluster: DemoCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    up = {"us-east-1", "eu-west-1", "ap-northeast-1"}
    for node in cluster.nodes:
        monkeypatch.setattr(type(node), "up", property(lambda self: self.datacenter in up))
    assert cluster.consequences()[0] == "3 of 3 regions go on writing; 1 more may fail."
    assert cluster.can("us-east-1") == "writes in one round trip of 70 ms"
    up.remove("eu-west-1")
    assert cluster.consequences()[0] == "2 of 3 regions go on writing; 0 more may fail."
    assert (cluster.can("us-east-1"), cluster.can("eu-west-1")) == (
        "writes in one round trip of 152 ms",
        "does not answer",
    )
    cluster.cuts.add(frozenset(("us-east-1", "ap-northeast-1")))
    assert cluster.consequences()[0].startswith("No majority is left")
    assert cluster.can("us-east-1").startswith("cannot write: reaches 1 of 3, needs 2")


def test_seven_regions_may_need_a_second_round_trip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = DemoCluster(a_plan(tmp_path / "d", 7))
    down = set(REGIONS[7][1:4])
    for node in cluster.nodes:
        monkeypatch.setattr(type(node), "up", property(lambda self: self.datacenter not in down))
    assert cluster.can("us-east-1") == "writes in two round trips: reaches 4 of 7, one round trip needs 5"


def test_a_port_in_use_is_named(cluster: DemoCluster) -> None:
    with (
        socket.create_server(("127.0.0.1", cluster.nodes[2].resp_port)),
        pytest.raises(Unavailable, match="for RESP of ap-northeast-1, cannot be used: Address already in use"),
    ):
        check_ports(cluster.nodes)


# The control.


def test_an_order_is_asked_and_answered(tmp_path: Path) -> None:
    told = DemoReply(done=True, lines=["as you wish"], demo={"dir": str(tmp_path)})
    heard: list[DemoOrder] = []

    def perform(order: DemoOrder) -> DemoReply:
        heard.append(order)
        return told

    office = ControlSocket(1234)

    def serve_two() -> None:
        for _ in range(2):
            office.serve(perform, 10.0)

    server = threading.Thread(target=serve_two, daemon=True)
    server.start()
    path = control.find(folder=tmp_path, port_base=None)
    assert control.ask(path, DemoOrder(verb="cut", region="a", others=("b",))) == told
    server.join()
    office.close()
    assert heard == [DemoOrder(verb="ps"), DemoOrder(verb="cut", region="a", others=("b",))]
    assert control.ask(path, DemoOrder(verb="ps")) is None


def test_a_demo_that_was_killed_leaves_nothing_to_believe(tmp_path: Path) -> None:
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(tmp_path / "1234.sock"))
    dead.close()
    with pytest.raises(InvalidRequest, match="no demo is running; `epoxy demo` starts one"):
        control.find(folder=None, port_base=None)
    ControlSocket(1234).close()
    assert list(tmp_path.iterdir()) == []


def test_gibberish_is_no_order() -> None:
    here, there = socket.socketpair()
    with here, there:
        there.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert control.read_order(here) == DemoOrder(verb="unreadable")


# The command line.


def test_an_order_that_is_interrupted_is_carried_out_all_the_same(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: Path, __: DemoOrder) -> DemoReply:
        raise KeyboardInterrupt

    monkeypatch.setattr(control, "find", lambda **_: Path("1234.sock"))
    monkeypatch.setattr(control, "ask", interrupt)
    assert run(["demo", "add", "us-west-2"]) == 130
    assert "interrupted; the demo still carries out the order" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--regions", "4"], "'4' is not one of '3', '5', '7', '9'"),
        (["--port-base", "80"], "80 is not in the range 1024<=x<="),
        (["kil", "eu-west-1"], "unknown command 'kil'. Did you mean kill?"),
        (["kill"], "Missing argument 'REGION'"),
        (["ps"], "no demo is running; `epoxy demo` starts one"),
        (["ps", "--port-base", "9"], "no demo is running at --port-base 9"),
    ],
)
def test_mistakes_are_one_line(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", *words]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert told in err


@pytest.mark.parametrize(
    "words", [[], *([verb] for verb in ("ps", "kill", "revive", "pause", "resume", "cut", "heal"))]
)
def test_help_with_an_example(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", *words, "-h"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(" ".join(["Usage: epoxy demo", *words]))
    assert "epoxy demo" in told.split("Example")[1]


def test_the_table_of_regions(cluster: DemoCluster) -> None:
    demo = cluster.document()
    told = show.welcome(cluster.plan, demo, 1.5, kept=True)
    assert told[0] == "3 regions are up after 1.5 s, with the round trips between their AWS regions."
    assert told[3].split() == [
        "us-east-1",
        f"http://127.0.0.1:{NOWHERE}",
        f"127.0.0.1:{NOWHERE + 1}",
        "70",
        "ms",
        "None",
    ]
    invited = "\n".join(show.invitation(cluster.plan, demo))
    assert f"reserve user/ada us-east-1 --url http://127.0.0.1:{NOWHERE}" in invited
    assert "demo kill eu-west-1" in invited
    assert msgspec.json.decode(msgspec.json.encode(demo)) == demo
    assert os.sep in demo["regions"][0]["log"]


def test_a_redis_cli_is_suggested_where_there_is_one_and_named_where_there_is_none(
    cluster: DemoCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "epoxy")])
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    demo = cluster.document()
    without = "\n".join(show.invitation(cluster.plan, demo))
    assert "SET user/ada" not in without
    assert "No redis-cli was found here; any Redis client will do. Debian and Ubuntu: apt install" in without
    (tmp_path / "redis-cli").touch()
    beside = "\n".join(show.invitation(cluster.plan, demo))
    assert f"{tmp_path / 'redis-cli'} -p {NOWHERE + 21} SET user/ada mine NX GET" in beside
    assert "No redis-cli" not in beside
