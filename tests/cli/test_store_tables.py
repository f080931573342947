"""`epoxy store migrate` of tables in a PostgreSQL: what it says and does; a failure leaves them as they are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from epoxy.cli.store import store
from epoxy.node.process.exits import EXIT_CONFIG
from epoxy.store.postgres import migration
from epoxy.testing.postgres_server import PostgresServer
from tests.cli.test_legacy import FILE
from tests.store.postgres.playing import Place, by_hand, opened, played

STEPS = {2: "CREATE TABLE two ()", 3: "CREATE TABLE three ()"}
URL = "http://10.0.0.1:7800"


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer(fsync=False) as server:
        yield server


@pytest.fixture
def config(postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "epoxy.toml"
    path.write_text(f'{FILE}\n[store]\ndriver = "postgres"\nurl = "{postgres.dsn}"\nschema = "{schema_of(tmp_path)}"\n')
    return path


def schema_of(folder: Path) -> str:
    return re.sub(r"[^a-z0-9_]", "_", folder.name.lower())


def run(config: Path, *options: str, command: str = "migrate") -> Result:
    return CliRunner().invoke(store, [command, "--config", str(config), *options])


def back(config: Path, *options: str) -> Result:
    return run(config, *options, command="back")


def place_of(config: Path, postgres: PostgresServer) -> Place:
    return Place(server=postgres, schema=schema_of(config.parent), cluster="", replica=1)


@played
async def made(place: Place) -> None:
    async with opened(place):
        pass


@played
async def written(place: Place, number: str, into: list[str]) -> None:
    """Set the format by hand, if a number is given; what it is then, and the tables beside."""
    async with by_hand(place) as hand:
        if number:
            await hand.execute("UPDATE meta SET value = $1 WHERE name = 'format'", number)
        into.append(await hand.fetchval("SELECT value FROM meta WHERE name = 'format'"))
        found = await hand.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", place.schema)
        into.extend(sorted({row["tablename"] for row in found} & {"two", "three"}))


def state(place: Place, number: str = "") -> list[str]:
    found: list[str] = []
    written(place, number, found)
    return found


def test_tables_of_this_format(config: Path, postgres: PostgresServer) -> None:
    assert "no tables yet: the first node that starts makes them, of format 2" in run(config, "--dry-run").output
    made(place_of(config, postgres))
    told = run(config, "--dry-run")
    assert told.exit_code == 0
    assert "nothing to migrate, they have format 2" in told.output
    assert "release 0.1 cannot use the tables afterwards, until `epoxy store back`" in told.output


def test_an_older_format_is_told_and_then_migrated(
    config: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of(config, postgres)
    made(place)
    monkeypatch.setattr(migration, "FORMAT", 4)
    monkeypatch.setattr(migration, "MIGRATIONS", STEPS)
    told = run(config, "--dry-run").output
    assert "would be migrated from format 2 to 4, in one transaction" in told
    assert "CREATE TABLE two ()\n  CREATE TABLE three ()" in told
    assert "release 0.1 cannot use the tables afterwards: only a backup" in told
    assert "nodes that have to stop before: none" in told
    assert state(place) == ["2"]
    facts = json.loads(run(config, "--json").stdout)
    assert (facts["from"], facts["to"], facts["migrates"]) == (2, 4, True)
    assert state(place) == ["4", "three", "two"]


def test_a_newer_format_is_refused_with_both_numbers(config: Path, postgres: PostgresServer) -> None:
    place = place_of(config, postgres)
    made(place)
    assert state(place, "9") == ["9"]
    for options in ([], ["--dry-run"]):
        told = run(config, *options)
        assert told.exit_code == EXIT_CONFIG
        assert "the tables have format 9, which is newer than this release knows: it reads format 2" in told.output
    assert state(place) == ["9"]


@pytest.mark.parametrize("number", ["x", ""])
def test_a_format_that_is_none_is_refused(config: Path, postgres: PostgresServer, number: str) -> None:
    place = place_of(config, postgres)
    made(place)
    damaged(place, number)
    told = run(config, "--dry-run")
    assert told.exit_code == EXIT_CONFIG
    assert "do not say which format they have" in told.output


@played
async def damaged(place: Place, number: str) -> None:
    async with by_hand(place) as hand:
        await hand.execute("DELETE FROM meta WHERE name = 'format'")
        if number:
            await hand.execute("INSERT INTO meta VALUES ('format', $1)", number)


def test_a_migration_that_fails_half_way_leaves_the_tables_as_they_were(
    config: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of(config, postgres)
    made(place)
    monkeypatch.setattr(migration, "FORMAT", 4)
    monkeypatch.setattr(migration, "MIGRATIONS", {2: STEPS[2], 3: "this is no SQL"})
    assert run(config).exit_code != 0
    assert state(place) == ["2"]
    monkeypatch.setattr(migration, "MIGRATIONS", STEPS)
    assert run(config).exit_code == 0
    assert state(place) == ["4", "three", "two"]


@played
async def in_force(place: Place, *, is_over: bool = False) -> None:
    """A node that uses the tables, in the release before this one or in this one; or none, any more."""
    async with by_hand(place) as hand:
        await hand.execute("UPDATE session SET fenced = true")
        if is_over:
            return
        await hand.execute(
            "INSERT INTO session (id, url, version, started, lease_end, fenced, batch, sequence) "
            "VALUES (99, $1, '0.1.0', now(), now() + interval '1 hour', false, 0, 0)",
            URL,
        )


def test_back_and_forth(config: Path, postgres: PostgresServer) -> None:
    """Neither happens while a node uses the tables; both may be asked for again."""
    place = place_of(config, postgres)
    assert back(config).output == "there are no tables yet\n"
    assert json.loads(back(config, "--json").stdout) == {"from": None, "to": None}
    made(place)
    told = back(config)
    assert (told.exit_code, state(place)) == (0, ["1"])
    assert told.output == "the tables have format 1 again: release 0.1 can use them, with all that was written\n"
    assert "nothing to undo, they have format 1" in back(config).output
    in_force(place)
    told = run(config, "--dry-run")
    assert told.exit_code == 0
    assert "would be migrated from format 1 to 2" in told.output
    assert f"nodes that have to stop before: {URL} (release 0.1.0)" in told.output
    assert json.loads(run(config, "--dry-run", "--json").stdout)["in_use"] == [f"{URL} (release 0.1.0)"]
    refused = run(config)
    assert (refused.exit_code, state(place)) == (EXIT_CONFIG, ["1"])
    assert f"these nodes use it: {URL} (release 0.1.0); they become those of format 2 when" in refused.output
    in_force(place, is_over=True)
    assert "were migrated from format 1 to 2" in run(config).output
    assert state(place) == ["2"]
    assert json.loads(back(config, "--json").stdout) == {"from": 2, "to": 1}
    assert json.loads(back(config, "--json").stdout) == {"from": 1, "to": 1}


def test_the_way_back_is_refused_with_a_node_and_for_other_tables(config: Path, postgres: PostgresServer) -> None:
    place = place_of(config, postgres)
    made(place)
    config.write_text(config.read_text().replace("id = 1", "id = 2"))
    refused = back(config)
    assert (refused.exit_code, state(place)) == (EXIT_CONFIG, ["2"])
    assert "the tables are those of replica 1, and not of replica 2" in refused.output
    assert state(place, "3") == ["3"]
    assert "format 3, which is newer than this release knows" in back(config).output
