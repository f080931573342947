"""`epoxy get` and `epoxy watch`."""

import sys

import click

from epoxy.cli import output, target
from epoxy.cli.groups import SETTINGS
from epoxy.client import Change, Reading


@click.command(context_settings=SETTINGS, short_help="Print the value of a key.")
@target.key_argument
@target.read_option("consistency", "Which replicas are asked, and so how fresh the answer is.")
@click.option("-v", "--verbose", is_flag=True, help="Print version, time to live, source and latency on stderr.")
@target.call_options
def get(key: bytes, consistency: str, verbose: bool, call: target.NodeCall) -> None:
    """Print the value of KEY on stdout, byte for byte. A line break is added only on a terminal.

    Exit status: 0 found, 4 not found, 1 failed.

    \b
    Examples:
      epoxy get user/ada
      epoxy get cfg --read linearizable -v
    """
    with call.client() as client:
        result = client.read(key, read=consistency)
    if call.as_json:
        output.emit_json(reading_json(result))
    elif result.value is not None:
        sys.stdout.buffer.write(result.value + (b"\n" if sys.stdout.isatty() else b""))
        sys.stdout.buffer.flush()
    else:
        click.echo(f"epoxy: no value is committed under {output.text_of(key)}", err=True)
    if verbose and not call.as_json:
        click.echo(in_words(result), err=True)
    raise click.exceptions.Exit(0 if result.found else target.NOT_FOUND)


def in_words(result: Reading) -> str:
    kind = ("mutable" if result.mutable else "reserved") if result.found else "deleted"
    version = f"version {result.version}, {kind}, " if result.version or result.found else ""
    version = "belongs to transactions, " if result.transactional else version
    version += f"expires in {result.ttl:.1f} s, " if result.ttl is not None else ""
    return f"{version}source {result.source.value}, {result.latency_ms:.1f} ms"


def reading_json(result: Reading) -> dict[str, object]:
    return {
        "key": target.key_json(result.key),
        "found": result.found,
        **target.value_json(result.value),
        "version": result.version if not result.transactional else None,
        "mutable": result.mutable,
        "transactional": result.transactional,
        "ttl": result.ttl,
        "source": result.source.value,
        "latency_ms": round(result.latency_ms, 3),
    }


@click.command(context_settings=SETTINGS, short_help="Follow committed changes.")
@click.option("--prefix", type=target.Argument(), default="", metavar="P", help="Only keys that begin with P.")
@click.option(
    "--after", metavar="CURSOR", help="Only changes after it; `now`: only new ones.  [default: all that is kept]"
)
@click.option("--count", type=click.IntRange(min=1), metavar="N", help="Stop after N changes.  [default: on Ctrl-C]")
@click.option("--follow/--no-follow", default=True, show_default=True, help="Wait for more at the end.")
@target.url_option
@target.json_option
def watch(prefix: bytes, after: str | None, count: int | None, follow: bool, urls: list[str], as_json: bool) -> None:
    """Print changes in the order in which one node learns of them, a line for each: cursor, what happened, key, value.

    After a lost connection the command connects again and leaves nothing out. A cursor is valid at the node that gave
    it, for as long as that node keeps the changes after it: by default a million commits, and ten minutes at least.
    If they are gone, the command ends and says so.

    \b
    Examples:
      epoxy watch --prefix user/ --after now
      epoxy watch --json --no-follow
    """
    tell = tell_json if as_json else tell_words
    with target.NodeCall(urls=urls, as_json=as_json).client() as client:
        for told, change in enumerate(client.changes(prefix, after=after, follow=follow), start=1):
            tell(change)
            if told == count:
                return


def tell_words(change: Change) -> None:
    what = "deleted" if change.value is None else "put" if change.mutable else "reserved"
    value = f" = {output.text_of(change.value)}" if change.value is not None else ""
    first, last = change.first_version, change.version
    versions = f"version {last}" if first == last else f"versions {first} to {last}"
    click.echo(f"{change.cursor}  {what:<8}  {output.text_of(change.key)}{value}  ({versions})")


def tell_json(change: Change) -> None:
    output.emit_json_line(
        {
            "cursor": change.cursor,
            "key": target.key_json(change.key),
            **target.value_json(change.value),
            "version": change.version,
            "first_version": change.first_version,
            "mutable": change.mutable,
        }
    )
