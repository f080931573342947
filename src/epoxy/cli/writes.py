"""`epoxy reserve`, `put`, `add` and `delete`."""

import re

import click
from click.core import ParameterSource

from epoxy.cli import output, target
from epoxy.cli.groups import SETTINGS
from epoxy.cli.leases import TimeSpan, session_option, ttl_option
from epoxy.client import Client, Deletion, Reservation, Sum, Written
from epoxy.model.errors import ClientError
from epoxy.model.integers import LEAST_INTEGER, MOST_INTEGER
from epoxy.model.writes import Path

if_version_option = click.option(
    "--if-version",
    type=click.IntRange(min=0),
    metavar="N",
    help="Write only if N is the current version; 0: only if the key was never written.",
)


class SignedAmount(click.IntRange):
    """With a name that reads well in an error message."""

    name = "integer"


NEGATIVE = re.compile("-[0-9]+")


class AddCommand(click.Command):
    """Negative amounts are no options; whatever else begins with a dash is one, so that a mistyped option is not taken
    for a key and counted up."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        amounts = [] if "--" in args else [arg for arg in args if NEGATIVE.fullmatch(arg)]
        if not amounts:
            return super().parse_args(ctx, args)
        rest = super().parse_args(ctx, [*[arg for arg in args if arg not in amounts], "--", *amounts])
        if ctx.get_parameter_source("amount") is ParameterSource.DEFAULT:
            raise click.MissingParameter(ctx=ctx, param=self.params[0])
        return rest


returning_option = click.option("--returning", is_flag=True, help="Show what was there before, too.")

TRAVELLED = {
    Path.LOCAL: "local: no message was sent",
    Path.FAST: "fast: one round trip to the nearest quorum",
    Path.SLOW: "slow: another write of the key was under way, or too few replicas answered in time",
}


@click.command(context_settings=SETTINGS, short_help="Take a name for ever, if it is free.")
@target.key_argument
@target.value_argument
@target.call_options
def reserve(key: bytes, value: bytes, call: target.NodeCall) -> None:
    """Take the name KEY for ever, with VALUE, if it is free. VALUE `-` reads stdin.

    Exit status: 0 won, or the name has this very value already; 3 lost, the name has another value; 1 failed.

    \b
    Examples:
      epoxy reserve user/ada eu-west-1
      epoxy reserve licence - < licence.bin
    """
    with call.client(writes=True) as client:
        floor_ms = floor_of(client)
        result = client.reserve(key, value)
    tell = reserve_json if call.as_json else reserve_words
    tell(result, floor_ms)
    raise click.exceptions.Exit(0 if result.agreed else target.LOST)


def outcome_of(result: Reservation) -> str:
    return "won" if result.won else "same value" if result.agreed else "lost"


def reserve_words(result: Reservation, floor_ms: float | None) -> None:
    colour = "green" if result.agreed else "yellow"
    forever = "" if result.mutable else ", for ever"
    click.secho(f"{outcome_of(result)}: ", fg=colour, bold=True, nl=False)
    click.echo(f"{output.text_of(result.key)} is {output.text_of(result.value)}{forever}")
    output.row("version", str(result.version))
    journey(result.path, result.latency_ms, floor_ms)


def reserve_json(result: Reservation, floor_ms: float | None) -> None:
    output.emit_json(
        {
            "key": target.key_json(result.key),
            "outcome": outcome_of(result),
            "won": result.won,
            **target.value_json(result.value),
            "version": result.version,
            "mutable": result.mutable,
            **journey_json(result.path, result.latency_ms, floor_ms),
        }
    )


@click.command(context_settings=SETTINGS, short_help="Write the next version of a key.")
@target.key_argument
@target.value_argument
@if_version_option
@click.option("--if-absent", is_flag=True, help="Write only if the key has no value.")
@ttl_option
@click.option("--keep-ttl", is_flag=True, help="It expires when the value before would have.")
@session_option
@returning_option
@target.call_options
def put(
    *,
    key: bytes,
    value: bytes,
    if_version: int | None,
    if_absent: bool,
    ttl: float | None,
    keep_ttl: bool,
    session: str | None,
    returning: bool,
    call: target.NodeCall,
) -> None:
    """Write VALUE as the next version of KEY. VALUE `-` reads stdin.

    Exit status: 0 written; 3 not written: the current version is another one, or there is a value (--if-absent), or
    the name is reserved; 4 the session is over; 1 failed.

    \b
    Examples:
      epoxy put cfg 1
      epoxy put cfg 2 --if-version 1
      epoxy put cfg 3 --returning
      epoxy put job/7 me --if-absent --ttl 30s
    """
    with call.client(writes=True) as client:
        floor_ms = floor_of(client)
        result = client.put(
            key,
            value,
            if_version=if_version,
            if_absent=if_absent,
            ttl=ttl,
            keep_ttl=keep_ttl,
            session=session,
            returning=returning,
        )
    if call.as_json:
        told = {**written_json(result, floor_ms), "created": result.created, "ttl": result.ttl}
        output.emit_json(told | previous_json(result, returning=returning))
        return
    click.secho("written: ", fg="green", bold=True, nl=False)
    click.echo(f"{output.text_of(key)}, version {result.version}{', a new key' if result.created else ''}")
    if result.ttl is not None:
        output.row("expires", f"in {result.ttl:.1f} s")
    was(result, returning=returning)
    journey(result.path, result.latency_ms, floor_ms)


@click.command(cls=AddCommand, context_settings=SETTINGS, short_help="Add to a number.")
@target.key_argument
@click.argument("amount", metavar="[N]", type=SignedAmount(LEAST_INTEGER, MOST_INTEGER), default=1)
@if_version_option
@click.option("--ttl", type=TimeSpan(), help="If this makes the key: it expires after this time, as 1m.")
@target.call_options
def add(key: bytes, amount: int, if_version: int | None, ttl: float | None, call: target.NodeCall) -> None:
    """Add N (1, if it is not given; it may be negative) to the decimal number under KEY. An absent key counts as 0. The
    expiry of a key that is there stays as it is.

    Exit status: 0 added; 3 not added: the value is no number of 64 bits, or the sum would be none, or the current
    version is another one, or the name is reserved; 1 failed.

    \b
    Examples:
      epoxy add visits
      epoxy add stock/42 -3
      epoxy add seats 10 --if-version 7
      epoxy add rate/ada --ttl 1m
    """
    with call.client(writes=True) as client:
        floor_ms = floor_of(client)
        result = client.add(key, amount, if_version=if_version, ttl=ttl)
    if call.as_json:
        output.emit_json({**written_json(result, floor_ms), "number": result.number, "created": result.created})
        return
    click.secho("added: ", fg="green", bold=True, nl=False)
    fresh = ", a new key" if result.created else ""
    click.echo(f"{output.text_of(key)} is {result.number}, version {result.version}{fresh}")
    journey(result.path, result.latency_ms, floor_ms)


@click.command(context_settings=SETTINGS, short_help="Delete a key that was put.")
@target.key_argument
@if_version_option
@returning_option
@target.call_options
def delete(key: bytes, if_version: int | None, returning: bool, call: target.NodeCall) -> None:
    """Delete KEY. A reserved name cannot be deleted.

    Exit status: 0 deleted; 4 there was nothing to delete; 3 the current version is another one, or the name is
    reserved; 1 failed.

    \b
    Examples:
      epoxy delete cfg --if-version 2
      epoxy delete job/7 --returning
    """
    with call.client(writes=True) as client:
        floor_ms = floor_of(client)
        result = client.delete(key, if_version=if_version, returning=returning)
    if call.as_json:
        told = {**written_json(result, floor_ms), "deleted": result.deleted}
        output.emit_json(told | previous_json(result, returning=returning))
    elif result.deleted:
        click.secho("deleted: ", fg="green", bold=True, nl=False)
        click.echo(f"{output.text_of(key)}, version {result.version} is a tombstone")
        was(result, returning=returning)
        journey(result.path, result.latency_ms, floor_ms)
    else:
        click.echo(f"epoxy: there is nothing to delete under {output.text_of(key)}", err=True)
    raise click.exceptions.Exit(0 if result.deleted else target.NOT_FOUND)


def was(result: Written | Deletion, *, returning: bool) -> None:
    if returning:
        output.row("before", output.text_of(result.previous) if result.previous is not None else "nothing")


def previous_json(result: Written | Deletion, *, returning: bool) -> dict[str, object]:
    if not returning:
        return {}
    return {"previous": target.value_json(result.previous) if result.previous is not None else None}


def written_json(result: Written | Deletion | Sum, floor_ms: float | None) -> dict[str, object]:
    return {
        "key": target.key_json(result.key),
        "version": result.version,
        **journey_json(result.path, result.latency_ms, floor_ms),
    }


def floor_of(client: Client) -> float | None:
    """The node's commit floor. Asking before the write also opens the connection, so that the latency of the write does
    not include it. A failure is ignored: the write will report it."""
    try:
        return client.status(timeout=1.0).floor_ms
    except ClientError:
        return None


def journey(path: Path, latency_ms: float, floor_ms: float | None) -> None:
    output.row("path", TRAVELLED[path])
    against = f", {latency_ms - floor_ms:+.1f} to the floor of {floor_ms:.1f} ms" if floor_ms is not None else ""
    output.row("latency", f"{latency_ms:.1f} ms{against if path is not Path.LOCAL else ''}")


def journey_json(path: Path, latency_ms: float, floor_ms: float | None) -> dict[str, object]:
    return {"path": path.value, "latency_ms": round(latency_ms, 3), "floor_ms": floor_ms}
