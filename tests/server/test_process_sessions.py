"""Several processes of one node. What they do together is in `tests/end_to_end/test_processes.py`."""

import asyncio
import socket
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from epoxy.model.quorum import QuorumPolicy
from epoxy.node.process.config import load
from epoxy.node.process.exits import EXIT_BUSY
from epoxy.server.process_sessions import HostedRows, PrivateListener, settings_of_child
from epoxy.testing import clean_environment, lay_out
from epoxy.transport.http.exchange import Exchange
from epoxy.transport.limits import NODES_PATH
from tests.store.local.linked import local_database
from tests.store.postgres.playing import played

PATIENCE_S = 60.0


def test_a_process_has_a_name_and_an_audit_log_of_its_own(tmp_path: Path) -> None:
    (node,) = lay_out(tmp_path, 1, QuorumPolicy.OPTIMAL)
    settings = load(node.config, flags={"node.processes": "3"})
    second, third = settings_of_child(settings, 2), settings_of_child(settings, 3)
    assert second.access.audit_file == settings.node.data_dir / "audit-2.jsonl"
    assert len({each.node.advertise_url for each in (settings, second, third)}) == 3
    assert {urlsplit(each.node.advertise_url).hostname for each in (settings, second, third)} == {"127.0.0.1"}
    given = load(node.config, flags={"access.audit_file": str(tmp_path / "acts.log")})
    assert settings_of_child(given, 2).access.audit_file == tmp_path / "acts-2.log"


@played
async def test_a_private_listener_serves_links_alone() -> None:
    listener, accepted = PrivateListener(), list[bytes]()
    url = await listener.open()

    def accept(exchange: Exchange) -> None:
        accepted.append(exchange.request.path)
        exchange.fail(400, "bad_request", "seen")

    def get(path: str) -> int:
        connection = HTTPConnection(urlsplit(url).netloc, timeout=PATIENCE_S)
        connection.request("GET", path)
        try:
            return connection.getresponse().status
        finally:
            connection.close()

    assert await asyncio.to_thread(get, NODES_PATH.decode()) == 404
    listener.accept = accept
    assert await asyncio.to_thread(get, NODES_PATH.decode()) == 400
    assert await asyncio.to_thread(get, "/v2/status") == 404
    assert accepted == [NODES_PATH]
    listener.close()


@played
async def test_the_first_process_tells_the_others_the_epoch() -> None:
    async with local_database() as (_, database):
        rows, called = HostedRows(database), list[str]()
        rows.config_epoch = 3
        rows.config_epoch = 2
        assert (rows.config_epoch, database.config_epoch) == (3, 3)
        rows.own((1, 2), lambda: called.append("own"))
        rows.disown((1,))
        assert called == ["own"]


@pytest.mark.parametrize("processes", [1, 2])
def test_an_address_of_another_program_is_refused(tmp_path: Path, processes: int) -> None:
    """Also where the other one shares its address, as this one would with its processes."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(("127.0.0.1", 0))
        other.listen()
        (node,) = lay_out(tmp_path, 1, QuorumPolicy.OPTIMAL)
        command = [sys.executable, "-m", "epoxy", "serve", "--config", str(node.config)]
        command += ["--resp", f"127.0.0.1:{other.getsockname()[1]}", "--set", f"node.processes={processes}"]
        done = subprocess.run(command, env=clean_environment({}), capture_output=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == EXIT_BUSY
    assert b"node.resp: cannot listen" in done.stderr
