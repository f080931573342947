"""`epoxy serve`: one datacenter's node."""

import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import click
import msgspec

from epoxy.cli.groups import SETTINGS
from epoxy.cli.output import emit_json
from epoxy.model.errors import CannotListen, EpoxyError, StoreFailed
from epoxy.node.process.config import Settings, in_force, load
from epoxy.node.process.exits import EXIT_BUSY, EXIT_CONFIG, EXIT_STORE

log_level_option = click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)


@click.command(context_settings=SETTINGS, short_help="Run one datacenter's node.")
@click.option("--config", "path", type=click.Path(path_type=Path), required=True, help="The node's epoxy.toml.")
@click.option("--id", "node_id", help="Overrides node.id.")
@click.option("--data-dir", help="Overrides node.data_dir.")
@click.option("--http", help="Overrides node.http, as 127.0.0.1:7800.")
@click.option("--resp", help="Overrides node.resp, as 127.0.0.1:7801.")
@click.option("--peers", help="Overrides node.peers, as 10.0.0.1:7802.")
@click.option("--admin", help="Overrides node.admin, as 127.0.0.1:7803.")
@click.option("--set", "settings", multiple=True, metavar="SECTION.KEY=VALUE", help="Overrides any other setting.")
@log_level_option
@click.option("--print-config", is_flag=True, help="Print the resulting settings as JSON, and exit.")
@click.option("--check", is_flag=True, help="Say whether a node would start with these settings, and exit.")
@click.option("--json", "as_json", is_flag=True, help="With --check: print the result as JSON.")
def serve(
    path: Path,
    settings: tuple[str, ...],
    log_level: str,
    print_config: bool,
    check: bool,
    as_json: bool,
    **named: str | None,
) -> None:
    """Run one datacenter's node until SIGTERM or Ctrl-C. Then it accepts no requests, finishes those it has, and exits.

    Settings come from the file; EPOXY_SECTION_KEY variables override it, and flags override both.

    --check reads what a start would read (the file, the secret, the certificates, whose data directory it is), also
    while the node runs, and changes nothing. It is for files that are about to be deployed.

    \b
    Exit status:
      0   ended by a signal
      74  the disk failed; nothing unsynced was acknowledged
      75  an address is taken; it may be free again soon
      78  a setting, an address or the data directory is wrong; one line says how
    """
    flags = {f"node.{name.removeprefix('node_')}": value for name, value in named.items() if value is not None}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise click.BadParameter(f"{setting!r} is not SECTION.KEY=VALUE", param_hint="--set")
        flags[name] = value
    try:
        loaded = load(path, flags=flags, environ=os.environ)
        if print_config:
            click.echo(shown(loaded))
            return
        if check:
            checked(loaded, path, as_json=as_json)
            return
        status = run(loaded, log_level)
    except EpoxyError as error:
        status = refused(error)
    sys.exit(status)


def checked(settings: Settings, path: Path, *, as_json: bool) -> None:
    from epoxy.server.settings_validation import validate

    found = validate(settings)
    if as_json:
        emit_json(found)
        return
    directory = f"of format {found.format}" if found.format is not None else "not there yet"
    if settings.store.driver != "embedded":
        directory = "for the audit log"
    click.echo(f"{path}: {found.datacenter} (replica {found.replica}) would start; {found.data_dir} is {directory}")
    for words in found.warnings:
        click.echo(f"warning: {words}", err=True)


def shown(settings: Settings) -> str:
    return msgspec.json.format(msgspec.json.encode(in_force(settings))).decode()


def run(settings: Settings, log_level: str) -> int:
    """Imports the server only here: other commands start faster without it."""
    from epoxy.server.serve import serve as serving

    return run_process(lambda: serving(settings), log_level)


def run_process(serving: Callable[[], Coroutine[Any, Any, int]], log_level: str) -> int:
    """Runs `serving` on an event loop with logging set up; returns the exit status."""
    import uvloop

    from epoxy.node.process import logs

    logs.set_up(log_level)
    try:
        return uvloop.run(serving())
    except StoreFailed as error:
        click.echo(f"epoxy: {error}", err=True)
        return EXIT_STORE


def refused(error: EpoxyError) -> int:
    click.echo(f"epoxy: {error}", err=True)
    return EXIT_BUSY if isinstance(error, CannotListen) else EXIT_CONFIG
