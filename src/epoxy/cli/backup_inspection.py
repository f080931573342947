"""`epoxy backup inspect`: verifies a backup, and says what is in it."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from epoxy.backup.files import BackupReader
from epoxy.backup.format import BackupEnd, BackupHeader, Block, Kind, KindTotal
from epoxy.cli import output
from epoxy.cli.groups import SETTINGS
from epoxy.cli.progress import ProgressBar
from epoxy.codec import wire
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.errors import BackupError, CodecError
from epoxy.model.marks import is_owned
from epoxy.model.records import Proposal

LIMIT = 20
"""Keys that are listed unless --limit says otherwise."""


@click.command(context_settings=SETTINGS, short_help="Verify a backup, and say what is in it.")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--keys", "prefix", metavar="PREFIX", help="List the keys that begin with PREFIX; '' lists all.")
@click.option("--limit", type=click.IntRange(min=0), default=LIMIT, show_default=True, help="How many of them.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def inspect(file: Path, prefix: str | None, limit: int, as_json: bool) -> None:
    """Verify all of FILE, a backup: every block, their order, and that none is missing. Says when, where and by which
    version it was made, of which members, and how much is in it.

    \b
    Exit status:
      0  the file is whole
      1  it is damaged or incomplete: the place is named

    \b
    Examples:
      epoxy backup inspect monday.backup
      epoxy backup inspect monday.backup --keys user/ --limit 100
    """
    listed: list[dict[str, Any]] = []
    try:
        with BackupReader(file) as reader, ProgressBar(f"verifying {file.name}", reader.size) as bar:
            for block in reader.blocks():
                bar.tell(reader.read_bytes, f"{reader.read_bytes >> 20:,} MiB")
                if prefix is not None and block.kind is Kind.KEYS and len(listed) < limit:
                    listed += islice(matching(block, prefix.encode()), limit - len(listed))
            header, end, size = reader.header, reader.end, reader.size
            assert end is not None
    except (BackupError, CodecError) as error:
        raise click.ClickException(str(error)) from error
    if as_json:
        document = {"file": str(file), "bytes": size, "whole": True, "header": header, "end": end}
        output.emit_json(document | ({"keys": listed} if prefix is not None else {}))
        return
    show(file, size, header, end)
    for item in listed:
        click.echo(f"  {line_of(item)}")


def matching(block: Block, prefix: bytes) -> Iterator[dict[str, Any]]:
    """Keys of clients; those that reserve names of actors are the cluster's own."""
    for key, record in block.records:
        if key.startswith(prefix) and key < FIRST_SYSTEM_KEY:
            yield item_of(key, wire.decode_committed_record(record).committed)


def item_of(key: bytes, committed: Proposal) -> dict[str, Any]:
    item = {"key": quote(key, safe="/"), "version": committed.version, "mutable": committed.mutable}
    if is_owned(committed):
        return item | {"transactions": True}
    if committed.value is None:
        return item | {"deleted": True}
    try:
        return item | {"value": committed.value.decode()}
    except UnicodeDecodeError:
        return item | {"value_base64": committed.value}


def line_of(item: dict[str, Any]) -> str:
    if "transactions" in item:
        return f"{item['key']}  (belongs to transactions)"
    if "deleted" in item:
        return f"{item['key']}  version {item['version']}  (deleted)"
    value = item["value"].encode() if "value" in item else item["value_base64"]
    return f"{item['key']}  version {item['version']}  {output.text_of(value)}"


def show(file: Path, size: int, header: BackupHeader, end: BackupEnd) -> None:
    click.echo(f"{file}: whole, {size:,} bytes")
    output.row("made", f"{header.made_at} by `epoxy {header.method}`, Epoxy {header.version}")
    output.row("at", f"{header.datacenter} (replica {header.replica}), epoch {header.epoch}")
    members = ", ".join(f"{member.id} {member.datacenter}" for member in header.members)
    output.row("members", f"{members}; {header.quorum_policy} quorums")
    if header.cluster:
        output.row("cluster", header.cluster)
    output.row("keys", total(end.keys))
    output.row("transactions", f"{total(end.values)} of values")
    output.row("actors", f"{total(end.actors)} of rows")
    if end.missing:
        output.row("missing", f"actors of {', '.join(end.missing)}")
    output.row("digest", end.digest)


def total(found: KindTotal) -> str:
    return f"{found.records:,} ({found.bytes:,} bytes)"
