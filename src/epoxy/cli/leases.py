"""`epoxy renew` and `epoxy session`: values that expire, and what they end with."""

import re

import click

from epoxy.cli import output, target
from epoxy.cli.groups import SETTINGS, Group
from epoxy.client import SessionInfo

UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")


class TimeSpan(click.ParamType[float]):
    """A number with its unit, in seconds."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = TIME.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is no time; write 500ms, 30s, 5m, 2h or 1d", param, ctx)
        return float(found[1]) * UNITS_S[found[2]]


ttl_option = click.option("--ttl", type=TimeSpan(), help="It expires after this time, as 30s or 500ms.")
session_option = click.option("--session", metavar="ID", help="It ends with this session.")


def left(ttl: float | None) -> str:
    """What is left of a time to live, for a line of text."""
    return f"expires in {ttl:.1f} s" if ttl is not None else "does not expire"


@click.command(context_settings=SETTINGS, short_help="Let a value expire later, or never.")
@target.key_argument
@click.option("--ttl", type=TimeSpan(), help="From now, as 30s or 500ms.")
@click.option("--never", is_flag=True, help="It does not expire any more.")
@click.option("--if-version", type=click.IntRange(min=0), metavar="N", help="Only if N is the current version.")
@target.call_options
def renew(key: bytes, ttl: float | None, never: bool, if_version: int | None, call: target.NodeCall) -> None:
    """Let the value of KEY expire that much later. The value stays, and gets a new version.

    Exit status: 0 renewed; 4 there is no value, perhaps because it expired; 3 the current version is another one, or
    the name is reserved; 1 failed.

    \b
    Examples:
      epoxy renew job/7 --ttl 30s --if-version 4
      epoxy renew job/7 --never
    """
    if (ttl is None) is not never:
        raise click.UsageError("give --ttl TIME, or --never")
    with call.client(writes=True) as client:
        result = client.renew(key, ttl, if_version=if_version)
    if call.as_json:
        told = {"renewed": result.renewed, "version": result.version, "ttl": result.ttl}
        output.emit_json({"key": target.key_json(key), **told})
    elif result.renewed:
        click.secho("renewed: ", fg="green", bold=True, nl=False)
        click.echo(f"{output.text_of(key)}, version {result.version}, {left(result.ttl)}")
    else:
        click.echo(f"epoxy: there is nothing to renew under {output.text_of(key)}", err=True)
    raise click.exceptions.Exit(0 if result.renewed else target.NOT_FOUND)


@click.group(cls=Group, context_settings=SETTINGS, short_help="Sessions, with which many keys end.")
def session() -> None:
    """Sessions: many keys, one heartbeat. Keys that are put with --session end with it.

    \b
    Examples:
      S=$(epoxy session new --ttl 1m)
      epoxy put worker/7 up --session $S
      epoxy session renew $S
      epoxy session end $S
    """


@session.command(short_help="Begin a session, and print its id.")
@click.option("--ttl", type=TimeSpan(), default="30s", show_default=True, help="How long it lasts after each renewal.")
@target.call_options
def new(ttl: float, call: target.NodeCall) -> None:
    """Begin a session that lasts for a time, as 30s, 5m or 2h, and for as long again after each renewal. Its id is
    printed alone on stdout. Who knows it, and may write, may renew and end it.

    \b
    Examples:
      S=$(epoxy session new --ttl 1m)
    """
    with call.client(writes=True) as client:
        begun = client.begin_session(ttl)
    tell(begun, call, begun.id)


@session.command(name="renew", short_help="Let a session last for its whole time again.")
@click.argument("id")
@target.call_options
def renew_session(id: str, call: target.NodeCall) -> None:  # noqa: A002 (what the argument is called)
    """Let the session ID last for its whole time again.

    Exit status: 0 renewed; 4 it is over; 1 failed.
    """
    with call.client(writes=True) as client:
        renewed = client.renew_session(id)
    tell(renewed, call, f"renewed: lasts for {renewed.remaining:.1f} s")


@session.command(short_help="Whether a session lasts.")
@click.argument("id")
@target.call_options
def show(id: str, call: target.NodeCall) -> None:  # noqa: A002 (what the argument is called)
    """Whether the session ID lasts, and for how long.

    Exit status: 0 it lasts; 4 it is over; 1 failed.
    """
    with call.client() as client:
        shown = client.show_session(id)
    tell(shown, call, f"lasts for another {shown.remaining:.1f} s; {shown.ttl:g} s after each renewal")


@session.command(short_help="End a session, and after it its keys.")
@click.argument("id")
@target.call_options
def end(id: str, call: target.NodeCall) -> None:  # noqa: A002 (what the argument is called)
    """End the session ID. The keys that name it end after it, one after the other.

    Exit status: 0 ended; 4 it is over already; 1 failed.
    """
    with call.client(writes=True) as client:
        ended = client.end_session(id)
    tell(ended, call, "ended")


def tell(shown: SessionInfo, call: target.NodeCall, words: str) -> None:
    if call.as_json:
        output.emit_json({"session": shown.id, "ttl": shown.ttl, "remaining": shown.remaining})
    else:
        click.echo(words)
