"""`epoxy versions`: what this build speaks, and what it reads and writes."""

import click

from epoxy import __compiled__, __version__
from epoxy.cli import output
from epoxy.cli.groups import SETTINGS
from epoxy.model import versions as known


@click.command(context_settings=SETTINGS, short_help="Print the versions that this build speaks, reads and writes.")
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def versions(as_json: bool) -> None:
    """Print the release, the versions of the wire, and the formats on disks of this build. A node need not run.

    What each means, and which may run together: docs/upgrading.md.

    \b
    Example:
      epoxy versions --json
    """
    if as_json:
        output.emit_json(document())
        return
    output.row("release", f"{__version__}, {'compiled' if __compiled__ else 'interpreted'}")
    output.row("wire", f"{told(known.OLDEST_WIRE, known.NEWEST_WIRE)} between replicas")
    output.row("", f"{known.NODES_WIRE} between nodes of a datacenter, {known.RELAY_WIRE} between datacenters' actors")
    output.row("", f"{known.ENVOY_WIRE} with workers of actors")
    output.row("data directory", f"writes format {known.DIRECTORY_FORMAT}, migrates {known.OLDEST_DIRECTORY}")
    output.row("rows", f"writes format {known.RECORDS_FORMAT}, reads {known.OLDEST_RECORDS} and later ones")
    output.row("tables", f"format {known.TABLES_FORMAT}, in a PostgreSQL")
    output.row("backup", f"format {known.BACKUP_FORMAT}")


def document() -> dict[str, object]:
    return {
        "release": __version__,
        "compiled": __compiled__,
        "wire": {"oldest": known.OLDEST_WIRE, "newest": known.NEWEST_WIRE},
        "nodes_wire": known.NODES_WIRE,
        "relay_wire": known.RELAY_WIRE,
        "envoy_wire": known.ENVOY_WIRE,
        "data_directory": {"oldest": known.OLDEST_DIRECTORY, "newest": known.DIRECTORY_FORMAT},
        "rows": {"oldest": known.OLDEST_RECORDS, "newest": known.RECORDS_FORMAT},
        "tables": known.TABLES_FORMAT,
        "backup": known.BACKUP_FORMAT,
    }


def told(oldest: int, newest: int) -> str:
    return f"{newest}" if oldest == newest else f"{oldest} to {newest}"
