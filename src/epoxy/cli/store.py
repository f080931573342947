"""`epoxy store`: the data directory of a node that is not running."""

import os
import sys
from pathlib import Path
from typing import NoReturn

import click
import msgspec

from epoxy.cli import output
from epoxy.cli.groups import SETTINGS, Group
from epoxy.cli.progress import ProgressBar
from epoxy.model.errors import EpoxyError, StoreFailed
from epoxy.model.versions import EARLY_DIRECTORY, LAST_DIRECTORY, LAST_RELEASE, LAST_TABLES
from epoxy.node.process.config import Settings, load
from epoxy.node.process.exits import EXIT_CONFIG, EXIT_STORE
from epoxy.node.process.fatal_signals import end_with_a_line
from epoxy.store.embedded.datadir import FORMAT, DataDir, check_format, holding, read_description, return_to_previous
from epoxy.store.embedded.files import FORMAT_FILE, SYSTEM_FILES
from epoxy.store.embedded.migration import FROM_FORMAT, MigrationPlan, plan

config_option = click.option(
    "--config", "path", type=click.Path(path_type=Path), required=True, help="The node's epoxy.toml."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


@click.group(cls=Group, context_settings=SETTINGS, short_help="Migrate a node's data directory, or go back.")
def store() -> None:
    """The data directory of a node that is not running."""


@store.command(context_settings=SETTINGS, short_help="Migrate it to the format of this version.")
@config_option
@click.option("--dry-run", is_flag=True, help="Say what would be done, how long it takes and what it needs.")
@json_option
def migrate(path: Path, dry_run: bool, as_json: bool) -> None:
    """Migrate the data directory to the format of this version, with the node stopped. `epoxy serve` does the same by
    itself; here it can be done at a time of your choice, and undone: what was migrated is kept until a node of this
    version writes to the directory, which it does as soon as it starts.

    With store.driver = "postgres" it is the tables in the database, in one transaction, with all nodes of the
    datacenter stopped.

    The old files are only read. The new ones are made beside them, so there must be room for both. Interrupted, it
    leaves the directory as it was; run it again.

    \b
    Exit status:
      0   the directory is of this version's format
      74  the disk failed
      78  a setting or the directory is wrong, there is no room, or a node is using it

    \b
    Example:
      epoxy store migrate --config epoxy.toml --dry-run
    """
    try:
        settings = load(path, flags={}, environ=os.environ)
        if settings.store.driver == "postgres":
            migrate_tables(settings, dry_run, as_json)
            return
        end_with_a_line(settings.node.data_dir)
        found, planned = survey(settings)
        if planned is not None and not dry_run:
            with ProgressBar("migrating", planned.rows) as bar:
                DataDir.open(
                    settings.node.data_dir,
                    replica=settings.node.id,
                    name="epoxy store migrate",
                    tell=lambda done, rows: bar.tell(done, f"{done:,} of {rows:,} rows"),
                ).close()
    except StoreFailed as error:
        end(error, EXIT_STORE)
    except EpoxyError as error:
        end(error, EXIT_CONFIG)
    if as_json:
        facts = msgspec.structs.asdict(planned) if planned is not None else {}
        told = {"from": found, "to": FORMAT, "dry_run": dry_run, "migrates": planned is not None}
        output.emit_json({**told, "way_back": way_back(found, planned is not None), **facts})
    else:
        click.echo(summary(settings.node.data_dir, found, planned, dry_run=dry_run))


def migrate_tables(settings: Settings, dry_run: bool, as_json: bool) -> None:
    from epoxy.cli import store_tables  # asyncpg is for nodes that have a PostgreSQL

    planned = store_tables.survey(settings)
    if planned.migrates and not dry_run:
        store_tables.migrate(settings)
    if as_json:
        told = {"from": planned.found, "to": planned.format, "dry_run": dry_run, "migrates": planned.migrates}
        output.emit_json({**told, "way_back": planned.way_back, "steps": planned.steps, "in_use": planned.in_use})
    else:
        click.echo(store_tables.summary(planned, dry_run=dry_run))


def tables_back(settings: Settings, as_json: bool) -> None:
    from epoxy.cli import store_tables

    found = store_tables.go_back(settings)
    if as_json:
        output.emit_json({"from": found, "to": min(found, LAST_TABLES) if found is not None else None})
    else:
        click.echo(store_tables.summary_of_way_back(found))


def survey(settings: Settings) -> tuple[int, MigrationPlan | None]:
    """The directory's format, and what there is to do."""
    path = settings.node.data_dir
    with holding(path, "epoxy store migrate"):
        found = read_description(path / FORMAT_FILE, SYSTEM_FILES).format
        check_format(path, found)
        return found, plan(path, SYSTEM_FILES) if found == FROM_FORMAT else None


def way_back(found: int, migrates: bool) -> str:
    """Whether the release before this one can open the directory afterwards."""
    if found == EARLY_DIRECTORY:
        return (
            f"release {LAST_RELEASE} refuses the directory, because its node did not end in order: start it once more "
            "with this release, while all other members are up, and stop it with SIGTERM"
        )
    if FORMAT == LAST_DIRECTORY and not migrates:
        return f"the release before this one, {LAST_RELEASE}, reads the same format: it can open the directory again"
    if FORMAT == LAST_DIRECTORY:
        return (
            f"release {LAST_RELEASE} can open the directory afterwards; earlier ones cannot, except after `epoxy store "
            "back`, which works until a node has started on it"
        )
    return (
        f"release {LAST_RELEASE} cannot open the directory afterwards, except after `epoxy store back`, which works "
        "until a node has started on it; then it can come back only as a replacement, with an empty disk"
    )


def summary(path: Path, found: int, planned: MigrationPlan | None, *, dry_run: bool) -> str:
    if planned is None:
        back = way_back(found, migrates=False)
        return f"{path}: nothing to migrate, it is of format {found}\nthe way back: {back}"
    rows = f"{output.plural(planned.rows, 'row')} and the log"
    if not dry_run:
        return (
            f"{path}: migrated from format {FROM_FORMAT} to {FORMAT}, {rows}; "
            "until a node of this version is started, `epoxy store back` undoes it\n"
            f"the way back: {way_back(found, migrates=True)}"
        )
    return (
        f"{path}: {rows} would be migrated from format {FROM_FORMAT} to {FORMAT}, in about {planned.seconds:.0f} s; "
        f"{planned.needed_bytes >> 20:,} MiB must be free, and {planned.free_bytes >> 20:,} MiB are\n"
        "what changes: each row gets a checksum; log and tree are made anew beside the old ones, which stay until a "
        f"node writes\nthe way back: {way_back(found, migrates=True)}"
    )


@store.command(context_settings=SETTINGS, short_help="Undo a migration, for the version before this one.")
@config_option
@json_option
def back(path: Path, as_json: bool) -> None:
    """Bring back the data directory as it was before its migration, for the version before this one.

    This works until a node of this version has started on it: a start writes, and the old files lack that write. After
    that, a node of the version before can come back only as a replacement of this member, with an empty disk.

    With store.driver = "postgres" it is the tables in the database, which get the format of the version before, with
    all that was written since. It works at any time when all nodes of the datacenter are stopped.

    \b
    Exit status:
      0   the directory is as it was
      74  the disk failed
      78  there is no way back, or a node is using the directory

    \b
    Example:
      epoxy store back --config epoxy.toml
    """
    try:
        settings = load(path, flags={}, environ=os.environ)
        if settings.store.driver == "postgres":
            tables_back(settings, as_json)
            return
        return_to_previous(settings.node.data_dir)
    except StoreFailed as error:
        end(error, EXIT_STORE)
    except EpoxyError as error:
        end(error, EXIT_CONFIG)
    if as_json:
        output.emit_json({"from": FORMAT, "to": FROM_FORMAT})
    else:
        click.echo(f"{settings.node.data_dir}: of format {FROM_FORMAT} again, as it was before its migration")


def end(error: EpoxyError, status: int) -> NoReturn:
    click.echo(f"epoxy: {error}", err=True)
    sys.exit(status)
