"""`epoxy store migrate` of tables in a PostgreSQL: what it says and does; a failure leaves them as they are."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from epoxy.cli.store import store
from epoxy.node.process.exits import EXIT_CONFIG
from epoxy.store.postgres import schema
from epoxy.testing.postgres_server import PostgresServer
from tests.cli.test_legacy import FILE
from tests.store.postgres.playing import Place, by_hand, opened, played

STEPS = {1: "CREATE TABLE two ()", 2: "CREATE TABLE three ()"}


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


def run(config: Path, *options: str) -> Result:
    return CliRunner().invoke(store, ["migrate", "--config", str(config), *options])


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
    assert "no tables yet: the first node that starts makes them, of format 1" in run(config, "--dry-run").output
    made(place_of(config, postgres))
    told = run(config, "--dry-run")
    assert told.exit_code == 0
    assert "nothing to migrate, they have format 1" in told.output
    assert "the release before this one, 0.1, reads the same format" in told.output


def test_an_older_format_is_told_and_then_migrated(
    config: Path, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = place_of(config, postgres)
    made(place)
    monkeypatch.setattr(schema, "FORMAT", 3)
    monkeypatch.setattr(schema, "MIGRATIONS", STEPS)
    told = run(config, "--dry-run").output
    assert "would be migrated from format 1 to 3, in one transaction" in told
    assert "CREATE TABLE two ()\n  CREATE TABLE three ()" in told
    assert "release 0.1 cannot use the tables afterwards" in told
    assert state(place) == ["1"]
    facts = json.loads(run(config, "--json").stdout)
    assert (facts["from"], facts["to"], facts["migrates"]) == (1, 3, True)
    assert state(place) == ["3", "three", "two"]


def test_a_newer_format_is_refused_with_both_numbers(config: Path, postgres: PostgresServer) -> None:
    place = place_of(config, postgres)
    made(place)
    assert state(place, "9") == ["9"]
    for options in ([], ["--dry-run"]):
        told = run(config, *options)
        assert told.exit_code == EXIT_CONFIG
        assert "the tables have format 9, which is newer than this release knows: it reads format 1" in told.output
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
    monkeypatch.setattr(schema, "FORMAT", 3)
    monkeypatch.setattr(schema, "MIGRATIONS", {1: STEPS[1], 2: "this is no SQL"})
    assert run(config).exit_code != 0
    assert state(place) == ["1"]
    monkeypatch.setattr(schema, "MIGRATIONS", STEPS)
    assert run(config).exit_code == 0
    assert state(place) == ["3", "three", "two"]


def test_every_format_has_its_migration() -> None:
    assert set(schema.MIGRATIONS) == set(range(1, schema.FORMAT))
