"""`epoxy secret`: makes the cluster's secret, and replaces it step by step, without a stop."""

import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import click

from epoxy.cli import output
from epoxy.cli.groups import SETTINGS, Group
from epoxy.model.errors import ConfigError
from epoxy.node.process.exits import EXIT_CONFIG
from epoxy.node.process.secret_files import secrets_in
from epoxy.transport.peers.keyring import fingerprint_of

RANDOM_BYTES = 32

OWNER_ONLY = stat.S_IRUSR | stat.S_IWUSR

file_argument = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
json_option = click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")


@click.group(cls=Group, context_settings=SETTINGS, short_help="Make the cluster's secret, or replace it.")
def secret() -> None:
    """The file of `cluster.secret_file`: one line or two, each a secret. A node speaks the first and accepts both. It
    reads the file again by itself, a few seconds after it has changed, or on SIGHUP.

    To replace a secret without a stop, do each step on all nodes before the next; `epoxy doctor` says when all have it:

    \b
      epoxy secret new new-secret                  once; copy the file to all nodes
      epoxy secret add secret new-secret           1. on all nodes: the new one is accepted
      epoxy secret switch secret                   2. on all nodes: the new one is spoken
      epoxy secret drop secret                     3. on all nodes: the old one is refused

    Secrets are never printed, only their fingerprints.

    Exit status: 0 done, 78 a file cannot be used.
    """


@secret.command(context_settings=SETTINGS, short_help="Make a file with a new secret.")
@file_argument
@json_option
def new(file: Path, as_json: bool) -> None:
    """Make FILE with a secret of 256 random bits, readable by its owner alone. A file that exists is not touched.

    \b
    Example:
      epoxy secret new secret
    """
    if file.exists():
        refuse(f"{file}: exists already; `epoxy secret add` adds another secret to it")
    write(file, [secrets.token_urlsafe(RANDOM_BYTES).encode()])
    tell(file, as_json)


@secret.command(context_settings=SETTINGS, short_help="1: accept another secret, too.")
@file_argument
@click.argument("other", type=click.Path(path_type=Path, dir_okay=False))
@json_option
def add(file: Path, other: Path, as_json: bool) -> None:
    """Add the secret in OTHER to FILE, as the one that is accepted and not spoken.

    \b
    Example:
      epoxy secret add secret new-secret
    """
    (spoken, *rest), (added, *more) = read(file), read(other)
    if more:
        refuse(f"{other}: has two secrets; one is added at a time")
    if added in (spoken, *rest):
        refuse(f"{file}: has the secret {fingerprint_of(added)} already")
    if rest:
        refuse(f"{file}: has two secrets already; `epoxy secret drop` removes the second")
    write(file, [spoken, added])
    tell(file, as_json)


@secret.command(context_settings=SETTINGS, short_help="2: speak the other secret.")
@file_argument
@json_option
def switch(file: Path, as_json: bool) -> None:
    """Exchange the two secrets in FILE: the other one is spoken, and both are accepted.

    \b
    Example:
      epoxy secret switch secret
    """
    write(file, read_two(file)[::-1])
    tell(file, as_json)


@secret.command(context_settings=SETTINGS, short_help="3: accept only the spoken secret.")
@file_argument
@json_option
def drop(file: Path, as_json: bool) -> None:
    """Remove the second secret from FILE. What nodes still do with it ends.

    \b
    Example:
      epoxy secret drop secret
    """
    write(file, read_two(file)[:1])
    tell(file, as_json)


@secret.command(context_settings=SETTINGS, short_help="Print the fingerprints of the secrets in a file.")
@file_argument
@json_option
def show(file: Path, as_json: bool) -> None:
    """Print the fingerprints of the secrets in FILE, as `epoxy status --json` and `epoxy doctor` name them.

    \b
    Example:
      epoxy secret show secret --json
    """
    read(file)
    tell(file, as_json)


def read(file: Path) -> Sequence[bytes]:
    try:
        return secrets_in("the file", file)
    except ConfigError as error:
        refuse(str(error).removeprefix("the file "))


def read_two(file: Path) -> Sequence[bytes]:
    found = read(file)
    if len(found) == 1:
        refuse(f"{file}: has one secret; `epoxy secret add` adds another")
    return found


def write(file: Path, lines: Sequence[bytes]) -> None:
    """A node reads the old file or the new one, never a part of one. Owner and rights of a file that exists stay."""
    target = file.resolve()
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        before = target.stat() if target.exists() else None
        made = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY)
        try:
            with os.fdopen(made, "wb") as out:
                if before is not None:
                    os.fchown(made, before.st_uid, before.st_gid)
                    os.fchmod(made, stat.S_IMODE(before.st_mode))
                out.write(b"\n".join(lines) + b"\n")
                out.flush()
                os.fsync(made)
            fresh.rename(target)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise
    except OSError as error:
        refuse(f"{file}: cannot be written: {error.strerror}")


def tell(file: Path, as_json: bool) -> None:
    spoken, *accepted = [fingerprint_of(each) for each in read(file)]
    if as_json:
        output.emit_json({"file": str(file), "spoken": spoken, "accepted": [spoken, *accepted]})
        return
    output.row("spoken", spoken)
    for other in accepted:
        output.row("accepted, too", other)


def refuse(words: str) -> NoReturn:
    click.echo(f"epoxy: {words}", err=True)
    raise click.exceptions.Exit(EXIT_CONFIG)
