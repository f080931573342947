"""What people have in their hands already: redis-py and redis-cli, as scripts would use them."""

import re
import subprocess
from collections.abc import Iterator

import pytest
import redis

from epoxy.cli.demo.cluster import DemoCluster
from tests.end_to_end.recorder import PATIENCE_S
from tools.programs import redis_cli

TOOK = re.compile(r"\(\d+\.\d+s\)")


@pytest.fixture
def here(trio: DemoCluster) -> Iterator["redis.Redis"]:
    with redis.Redis(port=trio.nodes[0].resp_port, decode_responses=True) as client:
        yield client


@pytest.fixture
def there(trio: DemoCluster) -> Iterator["redis.Redis"]:
    with redis.Redis(port=trio.nodes[1].resp_port, decode_responses=True, protocol=3) as client:
        yield client


def test_a_lock_is_taken_once_until_it_is_released(here: "redis.Redis", there: "redis.Redis") -> None:
    assert here.set("lock/a", "here", nx=True) is True
    assert there.set("lock/a", "there", nx=True) is None
    assert there.set("lock/a", "there", nx=True, get=True) == "here"
    assert there.setnx("lock/a", "there") is False
    assert here.delete("lock/a") == 1
    assert there.setnx("lock/a", "there") is True
    assert here.getset("lock/a", "again") == "there"


def test_a_name_is_taken_for_ever(here: "redis.Redis", there: "redis.Redis") -> None:
    assert reserve(here, "name/a", "here") == "OK"
    assert reserve(there, "name/a", "there") == "here"
    assert reserve(there, "name/a", "here") == "OK", "as often as it is asked for"
    assert here.get("name/a") == there.get("name/a") == "here"
    assert there.set("name/a", "there", nx=True) is None
    for change in (there.delete, there.getdel):
        with pytest.raises(redis.ResponseError, match=r"^IMMUTABLE"):
            change("name/a")


def reserve(client: "redis.Redis", name: str, value: str) -> object:
    return client.execute_command("RESERVE", name, value)  # type: ignore[no-untyped-call]


def test_a_counter_counts_every_call(here: "redis.Redis", there: "redis.Redis") -> None:
    for client in (here, there) * 5:
        client.incr("counter/a")
    there.execute_command("READCONSISTENT")  # type: ignore[no-untyped-call]
    assert there.get("counter/a") == "10"


def test_a_key_lives_changes_and_dies(here: "redis.Redis", there: "redis.Redis") -> None:
    assert here.set("cfg/a", "1") is True
    assert there.getset("cfg/a", "2") == "1"
    assert (here.exists("cfg/a"), here.type("cfg/a"), here.ttl("cfg/a")) == (1, "string", -1)
    assert there.delete("cfg/a") == 1
    here.execute_command("READCONSISTENT")  # type: ignore[no-untyped-call]
    assert here.get("cfg/a") is None


def test_a_pipeline_and_a_scan(here: "redis.Redis") -> None:
    pipeline = here.pipeline(transaction=False)
    for i in range(100):
        pipeline.set(f"scan/{i}", str(i))
    assert pipeline.execute() == [True] * 100
    assert here.mget("scan/3", "scan/99", "scan/none") == ["3", "99", None]
    assert sorted(here.scan_iter("scan/*", count=7)) == sorted(f"scan/{i}" for i in range(100))


def run_script(port: int, script: str, *flags: str) -> list[str]:
    """What it says, but for how long something took: it tells that of its own accord when it was half a second."""
    command = [str(redis_cli()), "-h", "127.0.0.1", "-p", str(port), *flags]
    done = subprocess.run(command, input=script, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return [line for line in done.stdout.splitlines() if TOOK.fullmatch(line) is None]


def test_a_script_of_redis_cli(trio: DemoCluster) -> None:
    port = trio.nodes[2].resp_port
    script = """\
PING
RESERVE cli/name ada
RESERVE cli/name bob
RESERVE cli/name ada
GET cli/name
SET cli/name bob
INCR cli/count
INCRBY cli/count 41
GET cli/count
DEL cli/count
EXISTS cli/count
NOSUCHCOMMAND
ECHO done
"""
    told = run_script(port, script, "--no-raw")
    assert told[:5] == ["PONG", "OK", '"ada"', "OK", '"ada"']
    assert told[5].startswith("(error) IMMUTABLE")
    assert told[6:11] == ["(integer) 1", "(integer) 42", '"42"', "(integer) 1", "(integer) 0"]
    assert told[11].startswith("(error) ERR unknown command")
    assert told[12] == '"done"'


def test_redis_cli_in_its_third_protocol(trio: DemoCluster) -> None:
    told = run_script(trio.nodes[0].resp_port, "SET three/a 1\nGET three/a\nGET three/none\n", "-3", "--no-raw")
    assert told == ["OK", '"1"', "(nil)"]


def test_redis_cli_loads_what_is_piped_into_it(trio: DemoCluster) -> None:
    port = trio.nodes[0].resp_port
    commands = "".join(f"*3\r\n$3\r\nSET\r\n${len(f'mass/{i}')}\r\nmass/{i}\r\n$1\r\nx\r\n" for i in range(500))
    assert "errors: 0, replies: 500" in run_script(port, commands, "--pipe")[-1]
    assert run_script(port, "GET mass/499\n") == ["x"]
    scanned = run_script(port, "", "--scan", "--pattern", "mass/*")
    assert len(scanned) == 500
