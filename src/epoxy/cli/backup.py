"""`epoxy backup FILE`: a backup of the whole cluster, from one node, while clients write."""

import os
import time
from pathlib import Path
from typing import NamedTuple

import click

from epoxy.backup.files import BackupWriter
from epoxy.backup.format import BackupEnd, BackupHeader, BackupMember
from epoxy.cli import output, target
from epoxy.cli.backup_progress import BackupProgress
from epoxy.cli.groups import SETTINGS, Group, Interrupted
from epoxy.client import Client
from epoxy.model.api_backups import BackupState
from epoxy.model.errors import AccessRefused, BackupError, EpoxyError, Unavailable

LOOK_S = 0.2
"""Between two looks at a backup that is not ready."""

PATIENCE_S = 45.0
"""How long a node may be out of reach, shorter than the minute after which it ends the backup. The next block is asked
for again meanwhile."""

BLOCK_TIMEOUT_S = 15.0

WITHOUT_ACTORS = 6
"""Exit code: the backup is whole but for the actors of datacenters that could not be reached."""

CREATE = "create"

STDOUT = Path("-")


class BackupGroup(Group):
    """`epoxy backup FILE` makes a backup: what is no command is the file."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.list_commands(ctx), *ctx.help_option_names):
            args = [CREATE, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in super().list_commands(ctx) if name != CREATE]


ROOMS = {"inspect": "backup_inspection"}


@click.group(
    cls=BackupGroup, rooms=ROOMS, context_settings=SETTINGS, short_help="Back up the cluster, or check a backup."
)
def backup() -> None:
    """Write a backup of the whole cluster to FILE, from one node, while clients write.

    `epoxy backup FILE` makes one; `epoxy backup FILE --help` lists its options. It has everything that was acknowledged
    before it began: keys, values of transactions as of one moment, and the actors of every datacenter. A file with the
    name of a command below needs a path, as ./inspect.

    \b
    Examples:
      epoxy backup cluster.backup
      epoxy backup --url http://10.0.2.1:7800 /mnt/backups/monday.backup
      epoxy backup inspect cluster.backup
    """


class Made(NamedTuple):
    state: BackupState
    end: BackupEnd
    seconds: float


@backup.command(CREATE, short_help="Write a backup to FILE.")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--force", is_flag=True, help="Replace FILE if it exists, once the new backup is complete.")
@target.url_option
@target.json_option
def create(file: Path, force: bool, urls: list[str], as_json: bool) -> None:
    """Write a backup of the whole cluster to FILE, from one node, while clients write. With several in
    --url, as A,B, they are tried in turn.

    FILE.partial is renamed to FILE when it is complete and synced: there is never half a FILE. If the connection
    breaks, the command goes on with the next block, for up to 45 seconds.

    \b
    Exit status:
      0  done
      1  no node could make it, or the file could not be written
      2  wrong usage, or FILE exists
      77 no token, or one without the rights of an operator
      6  done, without the actors of datacenters that could not be reached (they are named)
    \b
    Examples:
      epoxy backup cluster.backup
      epoxy backup --url http://10.0.2.1:7800 --force /mnt/backups/monday.backup
    """
    check_place(file, force=force)
    try:
        made = from_any(urls, file, force=force, quiet=as_json)
    except EpoxyError as error:
        if as_json:
            output.emit_json(target.error_json(error))
        if isinstance(error, AccessRefused):
            click.echo(f"epoxy: {target.in_words(error, writes=False)}", err=True)
            raise click.exceptions.Exit(target.exit_code_of(error)) from error
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {file} was not written, and nothing is left of it") from None
    report(file, made, as_json=as_json)
    if made.end.missing:
        names = ", ".join(made.end.missing)
        click.echo(f"epoxy: the actors of {names} are not in it: no answer from there", err=True)
        raise click.exceptions.Exit(WITHOUT_ACTORS)


def check_place(file: Path, *, force: bool) -> None:
    """Before the cluster is asked for anything. `--force` replaces a file, but no device, as /dev/null."""
    if file == STDOUT:
        raise click.UsageError("a backup is written to a file, not to the standard output; ./- is a file")
    if file.exists() and not file.is_file():
        raise click.UsageError(f"{file} is no regular file")
    if file.exists() and not force:
        raise click.UsageError(f"{file} exists; --force replaces it")
    if not file.parent.is_dir() or not os.access(file.parent, os.W_OK):
        raise click.ClickException(f"{file.parent} is no folder, or cannot be written to")


def from_any(urls: list[str], file: Path, *, force: bool, quiet: bool) -> Made:
    """From the first node that begins one."""
    for url in urls[:-1]:
        try:
            with target.connect(url, timeout=BLOCK_TIMEOUT_S) as client:
                return make(client, client.begin_backup(), file, force=force, quiet=quiet)
        except Unavailable as error:
            click.echo(f"{error}; the next one is asked", err=True)
    with target.connect(urls[-1], timeout=BLOCK_TIMEOUT_S) as client:
        return make(client, client.begin_backup(), file, force=force, quiet=quiet)


def make(client: Client, state: BackupState, file: Path, *, force: bool, quiet: bool) -> Made:
    began = time.monotonic()
    try:
        with BackupProgress(quiet=quiet) as progress:
            state = wait_until_ready(client, state, progress)
            with BackupWriter(file, header_of(state), replace=force) as writer:
                copy_blocks(client, state, writer, progress)
                state = client.backup_state(state.id)
                end = writer.finish(state.missing)
    finally:
        leave(client, state)
    return Made(state, end, time.monotonic() - began)


def leave(client: Client, state: BackupState) -> None:
    """Otherwise the node would keep the backup for a minute."""
    try:
        client.end_backup(state.id, timeout=1.0)
    except EpoxyError:
        return


def wait_until_ready(client: Client, state: BackupState, progress: BackupProgress) -> BackupState:
    patience = Patience()
    while state.phase not in ("ready", "done"):
        if state.phase == "failed":
            raise BackupError(f"{state.datacenter} could not make it: {state.reason}")
        progress.gathering(state)
        time.sleep(LOOK_S)
        try:
            state = client.backup_state(state.id)
            patience.renew()
        except Unavailable as error:
            patience.lose(error)
    return state


def copy_blocks(client: Client, state: BackupState, writer: BackupWriter, progress: BackupProgress) -> None:
    patience = Patience()
    number = 0
    while True:
        try:
            block = client.backup_block(state.id, number)
        except Unavailable as error:
            patience.lose(error)
            continue
        patience.renew()
        if block is None:
            return
        progress.copying(state, len(writer.write(block).records), len(block))
        number += 1


class Patience:
    """A connection that is lost is opened again for a while."""

    def __init__(self) -> None:
        self._heard = time.monotonic()

    def renew(self) -> None:
        self._heard = time.monotonic()

    def lose(self, error: Unavailable) -> None:
        if time.monotonic() - self._heard > PATIENCE_S:
            raise error
        time.sleep(LOOK_S)


def header_of(state: BackupState) -> BackupHeader:
    return BackupHeader(
        made_at=state.made_at,
        replica=state.replica,
        datacenter=state.datacenter,
        epoch=state.epoch,
        members=tuple(
            BackupMember(id=member.id, datacenter=member.datacenter, url=member.url) for member in state.members
        ),
        quorum_policy=state.quorum_policy,
        version=state.version,
        cluster=state.cluster,
        versioned=state.versioned,
    )


def size_of(amount: int) -> str:
    return f"{amount / 1e6:,.1f} MB" if amount >= 100_000 else f"{amount / 1e3:,.1f} kB"


def report(file: Path, made: Made, *, as_json: bool) -> None:
    size, end = file.stat().st_size, made.end
    if as_json:
        output.emit_json(
            {
                "file": str(file),
                "bytes": size,
                "seconds": round(made.seconds, 3),
                "keys": end.keys.records,
                "values": end.values.records,
                "actor_rows": end.actors.records,
                "missing_actors": end.missing,
                "asked": made.state.asked,
                "made_at": made.state.made_at,
                "datacenter": made.state.datacenter,
                "epoch": made.state.epoch,
                "digest": end.digest,
            }
        )
        return
    click.echo(f"{file}: {output.plural(end.keys.records, 'key')}, {size_of(size)}, in {made.seconds:.1f} s.")
    output.row("made by", f"{made.state.datacenter} (replica {made.state.replica}), epoch {made.state.epoch}")
    output.row("complete as of", made.state.made_at)
    output.row("members asked", ", ".join(map(str, made.state.asked)))
    output.row("of transactions", output.plural(end.values.records, "value"))
    output.row("of actors", output.plural(end.actors.records, "row"))
