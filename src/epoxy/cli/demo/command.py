"""`epoxy demo` and the orders for one that runs."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec import Struct

from epoxy.cli import output
from epoxy.cli.demo import control, show
from epoxy.cli.demo.control import DemoOrder
from epoxy.cli.demo.plan import HIGHEST_PORT_BASE, REGIONS
from epoxy.cli.demo.run import Wanted, run_demo
from epoxy.cli.groups import SETTINGS, Group, Interrupted, refuse
from epoxy.cli.target import json_option
from epoxy.model.errors import EpoxyError, InvalidRequest

LOWEST_PORT_BASE = 1024
"""Below, only root may listen."""

Command = TypeVar("Command", bound=Callable[..., Any])


class Meant(Struct, frozen=True, kw_only=True):
    """Which demo an order is for, and how to answer."""

    folder: Path | None = None
    port_base: int | None = None
    as_json: bool = False


class Orders(Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            refuse(args[0], "command", self.list_commands(ctx))
        return super().resolve_command(ctx, args)

    def list_commands(self, _: click.Context) -> list[str]:
        """As they were defined: in the order in which one tries them."""
        return list(self.commands)


folder_option = click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep data there, or go on with what is there.  [default: a temporary folder]",
)
port_base_option = click.option(
    "--port-base",
    type=click.IntRange(LOWEST_PORT_BASE, HIGHEST_PORT_BASE),
    metavar="PORT",
    help="HTTP of the first region; RESP one above, the next region ten above.  [default: 7800, or what DIR has]",
)


@click.group(
    cls=Orders, invoke_without_command=True, context_settings=SETTINGS, short_help="A cluster on this machine."
)
@click.option(
    "--regions",
    type=click.Choice([str(size) for size in REGIONS]),
    help="How many.  [default: 3, or what DIR was made for]",
)
@click.option("--no-wan", is_flag=True, help="Without the round trips between AWS regions.")
@folder_option
@port_base_option
@click.option("--exec", "command", metavar="CMD", help="Run CMD in a shell with EPOXY_URL set, then end the cluster.")
@json_option
@click.pass_context
def demo(
    ctx: click.Context,
    regions: str | None,
    no_wan: bool,
    folder: Path | None,
    port_base: int | None,
    command: str | None,
    as_json: bool,
) -> None:
    """A whole cluster on this machine: one process for each region, real round-trip times between AWS regions on the
    links. Runs until Ctrl-C. The commands below are for a second terminal, while it runs.

    With --exec, exits with the status of CMD; EPOXY_URLS has the addresses of all regions.

    \b
    Examples:
      epoxy demo
      epoxy demo --regions 5 --dir ./five
      epoxy demo --no-wan --exec 'epoxy reserve user/ada me && epoxy get user/ada'
      epoxy demo kill eu-west-1
    """
    if ctx.invoked_subcommand is not None:
        ctx.obj = Meant(folder=folder, port_base=port_base, as_json=as_json)
        return
    size = int(regions) if regions is not None else None
    wanted = Wanted(regions=size, port_base=port_base, wan=not no_wan, folder=folder, command=command, as_json=as_json)
    try:
        status = run_demo(wanted)
    except InvalidRequest as error:
        raise click.UsageError(str(error)) from error
    except (EpoxyError, OSError) as error:
        raise click.ClickException(str(error)) from error
    sys.exit(status)


def for_a_demo(command: Command) -> Command:
    """The options of every order. They may stand before or after its name."""
    folder = click.option("--dir", "folder", type=click.Path(path_type=Path), help="The demo in this folder.")
    port_base = click.option("--port-base", type=int, metavar="PORT", help="The demo at these ports.")
    return folder(port_base(json_option(command)))


def send(order: DemoOrder, **given: Any) -> None:
    before: Meant = click.get_current_context().obj
    folder, port_base = given["folder"] or before.folder, given["port_base"] or before.port_base
    try:
        path = control.find(folder=folder, port_base=port_base)
    except InvalidRequest as error:
        raise click.UsageError(str(error)) from error
    try:
        told = control.ask(path, order)
    except EpoxyError as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        raise Interrupted("interrupted; the demo goes on with it, and `epoxy demo ps` shows what comes of it") from None
    if told is None:
        raise click.ClickException("the demo ended before it answered")
    if not told.done:
        raise click.ClickException("\n".join(told.lines))
    if given["as_json"] or before.as_json:
        output.emit_json({"told": told.lines, **told.demo})
        return
    for line in told.lines or show.listing(told.demo):
        click.echo(line)


region_argument = click.argument("region")
others_argument = click.argument("others", nargs=-1, metavar="[OTHER]...")


@demo.command(short_help="The regions: up or not, where, and what a client may expect.")
@for_a_demo
def ps(**given: Any) -> None:
    """The regions of the demo that runs: up or not, where they listen, and what a client of each may expect.

    \b
    Example:
      epoxy demo ps
    """
    send(DemoOrder(verb="ps"), **given)


@demo.command(short_help="A power cut: SIGKILL, no goodbye.")
@region_argument
@for_a_demo
def kill(region: str, **given: Any) -> None:
    """End a region as a power cut would. `revive` starts it again with the data it had.

    \b
    Example:
      epoxy demo kill eu-west-1
    """
    send(DemoOrder(verb="kill", region=region), **given)


@demo.command(short_help="Start a region again that is down (or paused).")
@region_argument
@for_a_demo
def revive(region: str, **given: Any) -> None:
    """Start a region again, with the data it had.

    \b
    Example:
      epoxy demo revive eu-west-1
    """
    send(DemoOrder(verb="revive", region=region), **given)


@demo.command(short_help="Neither dead nor alive: connections stay, nobody answers.")
@region_argument
@for_a_demo
def pause(region: str, **given: Any) -> None:
    """Stop a region where it stands (SIGSTOP): its connections stay, but nobody answers. `resume` lets it go on.

    \b
    Example:
      epoxy demo pause eu-west-1
    """
    send(DemoOrder(verb="pause", region=region), **given)


@demo.command(short_help="Let a paused region go on.")
@region_argument
@for_a_demo
def resume(region: str, **given: Any) -> None:
    """Let a paused region go on where it stood.

    \b
    Example:
      epoxy demo resume eu-west-1
    """
    send(DemoOrder(verb="resume", region=region), **given)


@demo.command(short_help="Grow: one more region learns everything and joins.")
@region_argument
@for_a_demo
def add(region: str, **given: Any) -> None:
    """Start another region and make it a member, while clients write. It may be any of the regions whose round trips
    are known; one that was removed comes back with the data it had.

    \b
    Examples:
      epoxy demo add us-west-2
      epoxy demo add sa-east-1
    """
    send(DemoOrder(verb="add", region=region), **given)


@demo.command(short_help="Shrink: a region leaves for good, dead or alive.")
@region_argument
@for_a_demo
def remove(region: str, **given: Any) -> None:
    """Take a region out of the cluster, and end it.

    \b
    Example:
      epoxy demo remove eu-west-1
    """
    send(DemoOrder(verb="remove", region=region), **given)


@demo.command(short_help="Cut a region off from all others, or from those named.")
@region_argument
@others_argument
@for_a_demo
def cut(region: str, others: tuple[str, ...], **given: Any) -> None:
    """Cut the links between a region and all others, or those named. It runs on, and its clients still reach it.

    \b
    Examples:
      epoxy demo cut eu-west-1
      epoxy demo cut eu-west-1 us-east-1
    """
    send(DemoOrder(verb="cut", region=region, others=others), **given)


@demo.command(short_help="Make cut links whole again.")
@region_argument
@others_argument
@for_a_demo
def heal(region: str, others: tuple[str, ...], **given: Any) -> None:
    """Make the links between a region and all others whole again, or those to the regions named.

    \b
    Examples:
      epoxy demo heal eu-west-1
      epoxy demo heal eu-west-1 us-east-1
    """
    send(DemoOrder(verb="heal", region=region, others=others), **given)
