"""`epoxy legacy import`: imports values of the first layout into the data directory of a node that is not running."""

import asyncio
import os
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NoReturn

import click
import msgspec
from msgspec import UNSET, Struct, UnsetType

from epoxy.api.http.inputs import unquote
from epoxy.cli import output
from epoxy.cli.groups import SETTINGS, Group
from epoxy.model.errors import EpoxyError, InvalidRequest, StoreFailed
from epoxy.model.records import MAX_VALUE_BYTES
from epoxy.node.process.config import Settings, load
from epoxy.node.process.exits import EXIT_CONFIG, EXIT_STORE
from epoxy.node.process.fatal_signals import end_with_a_line
from epoxy.ports import Store
from epoxy.store.embedded.datadir import DataDir
from epoxy.store.embedded.store import EmbeddedStore
from epoxy.store.legacy import Imported, LegacyImport, Pair, check_pair
from epoxy.store.memory import MemoryStore

BATCH_ROWS = 1000
BATCH_BYTES = 4 << 20
"""Of one transaction, which holds all its writes in memory: a store takes at most 16 MiB."""

MAX_LINE = 2 * MAX_VALUE_BYTES
"""Base64 adds a third; the key and the names of the fields come on top."""

TELL_EVERY = 100_000


class LegacyLine(Struct, forbid_unknown_fields=True):
    key: str
    value: str | UnsetType = UNSET
    value_base64: bytes | UnsetType = UNSET


@click.group(cls=Group, context_settings=SETTINGS, short_help="Import values of the first layout.")
def legacy() -> None:
    """Values of the first layout of the store: read as committed, never written."""


@legacy.command(name="import", context_settings=SETTINGS, short_help="Import values of the first layout.")
@click.argument("file", type=click.File("rb"), metavar="FILE")
@click.option("--config", "path", type=click.Path(path_type=Path), required=True, help="The node's epoxy.toml.")
@click.option("--dry-run", is_flag=True, help="Check each line by itself and against what is stored; import nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the counts as JSON.")
def import_values(file: BinaryIO, path: Path, dry_run: bool, as_json: bool) -> None:
    """Import FILE, one JSON object on each line, into the data directory of a node that is not running and has never
    served. FILE `-` reads stdin. Import the same file at every member before any of them serves: a key with such a
    value counts as reserved, at version 0.

    Keys are percent-encoded; a value is text in `value`, or any bytes in `value_base64`. A file that was imported in
    part may be imported again.

    \b
    Exit status:
      0   all of it is imported, durably
      1   a line is wrong or contradicts what is stored; correct it and import the file again
      74  the disk failed
      78  a setting or the data directory is wrong, or a node is using it

    \b
    Example:
      echo '{"key": "actor/lobby", "value": "eu-west-1"}' | epoxy legacy import --config epoxy.toml -
    """
    try:
        settings = load(path, flags={}, environ=os.environ)
        done = asyncio.run(import_into(settings, file, dry_run=dry_run))
    except StoreFailed as error:
        end(error, EXIT_STORE)
    except InvalidRequest as error:
        end(error, 1)
    except EpoxyError as error:
        end(error, EXIT_CONFIG)
    if as_json:
        output.emit_json({"replica": settings.node.id, "dry_run": dry_run, **msgspec.structs.asdict(done)})
        return
    verb = "would be imported" if dry_run else "imported"
    there = f"; {done.present:,} were there already" if done.present else ""
    click.echo(f"replica {settings.node.id}: {output.plural(done.written, 'value')} {verb}{there}")


def end(error: EpoxyError, status: int) -> NoReturn:
    click.echo(f"epoxy: {error}", err=True)
    sys.exit(status)


async def import_into(settings: Settings, file: BinaryIO, *, dry_run: bool) -> Imported:
    if dry_run and not settings.node.data_dir.exists():
        return check_alone(settings, file)
    loop = asyncio.get_running_loop()
    failed: asyncio.Future[None] = loop.create_future()
    name = f"epoxy legacy import into replica {settings.node.id}"
    end_with_a_line(settings.node.data_dir)
    with DataDir.open(settings.node.data_dir, replica=settings.node.id, name=name):
        store = EmbeddedStore(
            settings.node.data_dir,
            post=loop.call_soon_threadsafe,
            schedule=loop.call_soon,
            on_failure=failed.set_exception,
        )
        try:
            importing = LegacyImport(settings.node.id)
            importing.check(store.newest())
            done, told = Imported(), 0
            for line, batch in batches(file):
                done = done.plus(write(store, importing, batch, line, dry_run=dry_run))
                durable: asyncio.Future[None] = loop.create_future()
                store.when_durable(lambda durable=durable: durable.set_result(None))  # type: ignore[misc]
                await asyncio.wait((durable, failed), return_when=asyncio.FIRST_COMPLETED)
                if failed.done():
                    failed.result()
                if line // TELL_EVERY > told:
                    told = line // TELL_EVERY
                    click.echo(f"{line:,} lines", err=True)
            return done
        finally:
            store.close()
            failed.cancel()


def check_alone(settings: Settings, file: BinaryIO) -> Imported:
    """Without a data directory, which a dry run does not make: there is nothing stored to check against."""
    store, importing, done = MemoryStore(), LegacyImport(settings.node.id), Imported()
    for line, batch in batches(file):
        done = done.plus(write(store, importing, batch, line, dry_run=True))
    return done


def write(store: Store, importing: LegacyImport, batch: list[Pair], line: int, *, dry_run: bool) -> Imported:
    """One transaction."""
    try:
        if dry_run:
            return importing.write(store.begin(), batch)
        return store.transact(lambda tx: importing.write(tx, batch))
    except InvalidRequest as error:
        raise InvalidRequest(f"lines {line - len(batch) + 1:,} to {line:,} were not imported: {error}") from error


def batches(file: BinaryIO) -> Iterator[tuple[int, list[Pair]]]:
    """Each with the number of its last line."""
    lines = pairs(file)
    number = 0
    while batch := list(islice(bounded(lines), BATCH_ROWS)):
        number = batch[-1][0]
        yield number, [pair for _, pair in batch]


def bounded(lines: Iterator[tuple[int, Pair]]) -> Iterator[tuple[int, Pair]]:
    size = 0
    for number, (key, value) in lines:
        yield number, (key, value)
        size += len(key) + len(value)
        if size >= BATCH_BYTES:
            return


def pairs(file: BinaryIO) -> Iterator[tuple[int, Pair]]:
    number = 0
    while raw := file.readline(MAX_LINE + 1):
        number += 1
        try:
            yield number, decode(raw)
        except (msgspec.DecodeError, InvalidRequest) as error:
            raise InvalidRequest(f"line {number:,}: {error}") from error


def decode(raw: bytes) -> Pair:
    if len(raw) > MAX_LINE:
        raise InvalidRequest(f"longer than {MAX_LINE:,} bytes")
    line = msgspec.json.decode(raw, type=LegacyLine)
    if (line.value is UNSET) == (line.value_base64 is UNSET):
        raise InvalidRequest("needs either `value` or `value_base64`")
    value = line.value.encode() if isinstance(line.value, str) else line.value_base64
    assert isinstance(value, bytes)
    key = unquote(line.key.encode())
    check_pair(key, value)
    return key, value
