"""`epoxy rescue`: a backup from the data directories that are left."""

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

import click
import msgspec

from epoxy.backup.format import BackupEnd
from epoxy.backup.open_writes import Doubt, OpenWrite
from epoxy.backup.rescue import RescueSurvey, RescueWriter, survey
from epoxy.cli import output
from epoxy.cli.groups import SETTINGS
from epoxy.cli.progress import ProgressBar
from epoxy.model.errors import BackupError, EpoxyError, StoreFailed
from epoxy.node.process.exits import EXIT_CONFIG, EXIT_STORE
from epoxy.node.process.fatal_signals import end_with_a_line
from epoxy.store.embedded.offline import StoppedStore

LISTED = ".missing"
"""The ending of the list's name, after that of the backup."""

SHOWN = 5
"""Lines of the list that are also printed."""

MEANING = {
    Doubt.VOTE: "voted for, not known to be decided",
    Doubt.PROMISE: "was being decided",
    Doubt.TRANSACTION: "written by a transaction that is not decided",
    Doubt.ROTTEN: "its row is damaged",
    Doubt.CONFLICT: "another value for the same version",
}

NO_TRACE = (
    "A write that only the lost members saw has left no trace, and is not in the list: of writes that were "
    "acknowledged in the last moments before the loss, some may be missing silently."
)
NEVER_AGAIN = (
    "The old cluster must never run again beside the new one: the nodes of both refuse each other, but clients would "
    "find two clusters under one name. Erase the disks of lost members before those machines start."
)


@click.command(context_settings=SETTINGS, short_help="Make a backup from the data directories that are left.")
@click.argument("dirs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="DIR...")
@click.option("--out", required=True, type=click.Path(path_type=Path), metavar="FILE", help="The backup to write.")
@click.option("--lost", metavar="IDS", help="The members that are lost, as 2,3; without it they are asked for.")
@click.option(
    "--open-votes",
    type=click.Choice(["take", "leave"]),
    default="take",
    show_default=True,
    help="Votes for writes that may have been acknowledged.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def rescue(dirs: tuple[Path, ...], out: Path, lost: str | None, open_votes: str, as_json: bool) -> None:
    """Write a backup, FILE, from the data directories DIR of nodes that do not run: all that are left of a cluster that
    lost its majority, or copies of all, to make another cluster of them. They are not changed. Then run `epoxy restore
    FILE` for each node of a new cluster.

    If a quorum of the members is given, no acknowledged write of a key is missing, but a transaction may be that none
    of them knows to be decided. FILE.missing lists the keys whose last writes may be missing, one JSON object on each
    line, with what was made of each. Without a quorum, a vote for a write that may or may not have been acknowledged is
    taken: its client was not told that it failed. `--open-votes leave` keeps the last version that is known to be
    committed.

    Prefer waiting: as long as the lost disks may come back, starting those nodes loses nothing.

    \b
    Exit status:
      0   FILE is complete; nothing is missing
      1   a file cannot be written, or `--lost` does not name the lost members
      5   FILE is complete; writes may be missing
      74  a disk failed
      78  a directory is in use, damaged, or of another cluster

    \b
    Examples:
      epoxy rescue /var/lib/epoxy --out rescued.backup
      epoxy rescue /copies/1 /copies/2 /copies/3 --out staging.backup --lost ''
    """
    listed = out.with_name(out.name + LISTED)
    try:
        for path in (out, listed):
            if path.exists():
                raise BackupError(f"{path} exists; a backup is never overwritten")
        check_once(dirs)
        end_with_a_line(" or ".join(map(str, dirs)))
        with ExitStack() as held:
            stores = [held.enter_context(StoppedStore(path)) for path in dirs]
            found = survey(stores, take=open_votes == "take")
            explain(found)
            confirm(found, lost)
            writer = RescueWriter(found)
            with ProgressBar("rescuing", None) as bar:
                end = writer.write(
                    out, lambda doubts: write_list(listed, doubts), lambda keys: bar.tell(keys, f"{keys:,} keys")
                )
    except StoreFailed as error:
        stop(error, EXIT_STORE)
    except BackupError as error:
        stop(error, 1)
    except EpoxyError as error:
        stop(error, EXIT_CONFIG)
    may_miss = bool(writer.doubts) or not found.survivors.quorum
    report(found, end, writer.doubts, out, as_json=as_json)
    sys.exit(5 if may_miss else 0)


def check_once(dirs: tuple[Path, ...]) -> None:
    """The second one would find the locks of the first taken, and be told that a node runs."""
    resolved = [path.resolve() for path in dirs]
    twice = [path for path in dirs if resolved.count(path.resolve()) > 1]
    if twice:
        raise click.UsageError(f"{twice[0]} is given twice")


def stop(error: EpoxyError, status: int) -> NoReturn:
    click.echo(f"epoxy: {error}", err=True)
    sys.exit(status)


def named(found: RescueSurvey, ids: tuple[int, ...]) -> str:
    return ", ".join(f"{replica} ({found.datacenter(replica)})" for replica in ids)


def explain(found: RescueSurvey) -> None:
    """What is given and what is not, before anything is asked or written."""
    config = found.config
    given = tuple(each.id for each in found.stores)
    click.echo(f"epoch {config.epoch}, {output.plural(len(config.replica_ids), 'member')}", err=True)
    click.echo(f"given: {named(found, given)}", err=True)
    if found.lost:
        click.echo(f"lost: {named(found, found.lost)}", err=True)
    for replica, reason in found.behind.items():
        click.echo(f"replica {replica} is not what it was: {reason}", err=True)
    if found.survivors.quorum:
        click.echo("these are a quorum: every acknowledged write of a key is in them", err=True)
    else:
        click.echo("these are no quorum: acknowledged writes may be missing", err=True)


def confirm(found: RescueSurvey, lost: str | None) -> None:
    """The operator types the members that are lost."""
    wanted = ",".join(map(str, found.lost))
    if not wanted and not lost:
        return
    if lost is None:
        if not is_terminal():
            raise BackupError(f"without a terminal, name the lost members: --lost {wanted}")
        click.echo(NEVER_AGAIN, err=True)
        lost = click.prompt("Type the ids of the members that are lost for good, separated by commas", err=True)
    if sorted(lost.replace(" ", "").split(",")) != sorted(map(str, found.lost)):
        raise BackupError(
            f"the members that are not given are {wanted or 'none'}, not {lost.strip() or 'none'}; nothing was written"
        )


def is_terminal() -> bool:
    return sys.stdin.isatty()


def write_list(path: Path, doubts: list[OpenWrite]) -> None:
    """Nothing in doubt: no list."""
    if not doubts:
        return
    try:
        with path.open("xb") as file:
            os.fchmod(file.fileno(), 0o600)
            file.writelines(msgspec.json.encode(document(doubt)) + b"\n" for doubt in doubts)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise BackupError(f"{path}: {error.strerror}") from error


def document(doubt: OpenWrite) -> dict[str, Any]:
    found: dict[str, Any] = {"key": quote(doubt.key, safe=""), "why": doubt.doubt.value, "replicas": doubt.replicas}
    if doubt.version:
        found["version"] = doubt.version
    if doubt.doubt in (Doubt.VOTE, Doubt.CONFLICT):
        found |= value_of(doubt.value)
        found["taken"] = doubt.taken
    return found


def value_of(value: bytes | None) -> dict[str, Any]:
    try:
        return {"value": value.decode() if value is not None else None}
    except UnicodeDecodeError:
        return {"value_base64": value}


def report(found: RescueSurvey, end: BackupEnd, doubts: list[OpenWrite], out: Path, *, as_json: bool) -> None:
    if as_json:
        output.emit_json(
            {
                "file": str(out),
                "quorum": found.survivors.quorum,
                "lost": found.lost,
                "keys": end.keys.records,
                "values": end.values.records,
                "actors": end.actors.records,
                "in_doubt": len(doubts),
                "list": str(out) + LISTED if doubts else None,
            }
        )
        return
    click.echo(
        f"{out}: {output.plural(end.keys.records, 'key')}, {output.plural(end.values.records, 'value')} of "
        f"transactions, {output.plural(end.actors.records, 'row')} of actors"
    )
    if end.missing:
        click.echo(f"actors of {', '.join(end.missing)} are lost; their names stay reserved")
    for doubt in doubts[:SHOWN]:
        taken = {True: ": taken", False: ": left"}[doubt.taken] if doubt.doubt is Doubt.VOTE else ""
        click.echo(f"  {output.text_of(doubt.key)}: {MEANING[doubt.doubt]} ({held(doubt)}){taken}")
    if doubts:
        click.echo(f"{output.plural(len(doubts), 'write')} in doubt: {out}{LISTED}")
    if not found.survivors.quorum:
        click.echo(NO_TRACE)
    click.echo(f"next: epoxy restore {out} --config epoxy.toml, for each node of the new cluster")
    if found.lost:
        click.echo(NEVER_AGAIN)


def held(doubt: OpenWrite) -> str:
    return f"replica {', '.join(map(str, doubt.replicas))}"
