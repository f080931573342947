"""`epoxy serve`: one datacenter's node."""

import os
import sys
from pathlib import Path

import click
import msgspec

from epoxy.cli.groups import SETTINGS
from epoxy.model.errors import CannotListen, EpoxyError, StoreFailed
from epoxy.node.config import Settings, in_force, load

EXIT_BUSY = 75
"""EX_TEMPFAIL: whoever holds the address may be about to let it go, the process before this one for instance."""

EXIT_CONFIG = 78
"""sysexits' EX_CONFIG: starting it again without changing something is pointless."""


@click.command(context_settings=SETTINGS, short_help="Run one datacenter's node.")
@click.option("--config", "path", type=click.Path(path_type=Path), required=True, help="The node's epoxy.toml.")
@click.option("--id", "node_id", help="Instead of node.id.")
@click.option("--data-dir", help="Instead of node.data_dir.")
@click.option("--http", help="Instead of node.http, as 127.0.0.1:7800.")
@click.option("--resp", help="Instead of node.resp, as 127.0.0.1:7801.")
@click.option("--set", "settings", multiple=True, metavar="SECTION.KEY=VALUE", help="Instead of any other setting.")
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info", show_default=True
)
@click.option("--print-config", is_flag=True, help="Print the settings in force, as JSON, and end.")
def serve(
    path: Path,
    node_id: str | None,
    data_dir: str | None,
    http: str | None,
    resp: str | None,
    settings: tuple[str, ...],
    log_level: str,
    print_config: bool,
) -> None:
    """One datacenter's node, until SIGTERM or Ctrl-C. Then it takes no more requests, answers what it has, and ends.

    Settings come from the file; EPOXY_SECTION_KEY variables override it, and flags override both.

    \b
    Exit status:
      0   ended as told
      74  the disk failed; nothing unsynced was acknowledged
      75  an address is taken; it may be free again soon
      78  a setting or the data directory is wrong; one line says how
    """
    named = {"node.id": node_id, "node.data_dir": data_dir, "node.http": http, "node.resp": resp}
    flags = {name: value for name, value in named.items() if value is not None}
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
        status = run(loaded, log_level)
    except EpoxyError as error:
        click.echo(f"epoxy: {error}", err=True)
        status = EXIT_BUSY if isinstance(error, CannotListen) else EXIT_CONFIG
    sys.exit(status)


def shown(settings: Settings) -> str:
    return msgspec.json.format(msgspec.json.encode(in_force(settings))).decode()


def run(settings: Settings, log_level: str) -> int:
    """The servers are imported only here: every other command starts faster without them."""
    import uvloop

    from epoxy.server import logs, process

    logs.set_up(log_level)
    try:
        return uvloop.run(process.serve(settings))
    except StoreFailed as error:
        click.echo(f"epoxy: {error}", err=True)
        return process.EXIT_STORE
