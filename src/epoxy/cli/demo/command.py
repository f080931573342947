"""`epoxy demo`, and the commands that send orders to a running demo."""

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec import Struct

from epoxy.cli import output
from epoxy.cli.demo import control, show
from epoxy.cli.demo.control import DemoOrder
from epoxy.cli.demo.plan import HIGHEST_PORT_BASE, REGIONS, StoreDriver
from epoxy.cli.demo.postgres_region import MAX_NODES
from epoxy.cli.demo.run import DemoOptions, run_demo
from epoxy.cli.groups import SETTINGS, Group, Interrupted
from epoxy.cli.target import json_option
from epoxy.model.errors import EpoxyError, InvalidRequest
from epoxy.transport.wan.emulation import MAX_ADDED_MS

LOWEST_PORT_BASE = 1024
"""Ports below are reserved to root."""

Command = TypeVar("Command", bound=Callable[..., Any])


class DemoTarget(Struct, frozen=True, kw_only=True):
    """Which demo an order is for, and how to answer."""

    folder: Path | None = None
    port_base: int | None = None
    as_json: bool = False


folder_option = click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of the data, which is kept; an existing demo continues.  [default: a temporary folder]",
)
port_base_option = click.option(
    "--port-base",
    type=click.IntRange(LOWEST_PORT_BASE, HIGHEST_PORT_BASE),
    metavar="PORT",
    help="HTTP port of the first region; RESP is one above, the next region ten above.  [default: 7800, or as in DIR]",
)


@click.group(
    cls=Group, invoke_without_command=True, context_settings=SETTINGS, short_help="Run a whole cluster on this machine."
)
@click.option(
    "--regions",
    type=click.Choice([str(size) for size in REGIONS]),
    help="Number of regions.  [default: 3, or as in DIR]",
)
@click.option(
    "--store",
    type=click.Choice(["embedded", "postgres"]),
    help="Where regions keep their rows: on the disk of their node, or in a PostgreSQL that is started for each."
    "  [default: embedded, or as in DIR]",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, MAX_NODES),
    help=f"Nodes of each region, 1 to {MAX_NODES}; more than one need --store postgres.  [default: 1, or as in DIR]",
)
@click.option("--no-wan", is_flag=True, help="Do not emulate the round trips between AWS regions.")
@click.option(
    "--auth", is_flag=True, help="Ask clients for tokens. Four are made, in files of DIR.  [default: as in DIR]"
)
@folder_option
@port_base_option
@click.option("--exec", "command", metavar="CMD", help="Run CMD in a shell with EPOXY_URL set, then end the cluster.")
@click.option("--open", "open_console", is_flag=True, help="Open the console in the browser.")
@json_option
@click.pass_context
def demo(
    ctx: click.Context,
    regions: str | None,
    store: StoreDriver | None,
    nodes: int | None,
    no_wan: bool,
    auth: bool,
    folder: Path | None,
    port_base: int | None,
    command: str | None,
    open_console: bool,
    as_json: bool,
) -> None:
    """Run a whole cluster on this machine: a process for each region, or several on a PostgreSQL, with the real
    round-trip times between AWS regions on the links. Ctrl-C ends it. The commands below are for a second terminal,
    while it runs.

    The console, in a browser: /ui of every region, 127.0.0.1:7800/ui for the first.

    Web pages that a program serves at 127.0.0.1, 90 ports above the first (7890), may use all regions.

    With --exec, exits with the status of CMD; EPOXY_URLS has the addresses of all regions, EPOXY_PAGE_PORT the port for
    pages. With --auth, too, EPOXY_TOKEN_FILE has the token of an application, EPOXY_WORKER_TOKEN_FILE and
    EPOXY_ADMIN_TOKEN_FILE the others.

    \b
    Examples:
      epoxy demo
      epoxy demo --regions 5 --dir ./five
      epoxy demo --open
      epoxy demo --auth
      epoxy demo --store postgres --nodes 2
      epoxy demo --no-wan --exec 'epoxy reserve user/ada me && epoxy get user/ada'
      epoxy demo kill eu-west-1
      epoxy demo kill eu-west-1 gateway
    """
    if ctx.invoked_subcommand is not None:
        ctx.obj = DemoTarget(folder=folder, port_base=port_base, as_json=as_json)
        return
    size = int(regions) if regions is not None else None
    options = DemoOptions(
        regions=size,
        port_base=port_base,
        wan=not no_wan,
        auth=auth,
        folder=folder,
        command=command,
        as_json=as_json,
        open_console=open_console,
        store=store,
        nodes=nodes,
    )
    try:
        status = run_demo(options)
    except InvalidRequest as error:
        raise click.UsageError(str(error)) from error
    except (EpoxyError, OSError) as error:
        raise click.ClickException(str(error)) from error
    sys.exit(status)


def for_a_demo(command: Command) -> Command:
    """The options of every order. They may stand before its name as well."""
    folder = click.option("--dir", "folder", type=click.Path(path_type=Path), help="The demo in this folder.")
    port_base = click.option("--port-base", type=int, metavar="PORT", help="The demo at these ports.")
    return folder(port_base(json_option(command)))


def send(order: DemoOrder, **given: Any) -> None:
    before: DemoTarget = click.get_current_context().obj
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
        raise Interrupted(
            "interrupted; the demo still carries out the order, and `epoxy demo ps` shows the result"
        ) from None
    if told is None:
        raise click.ClickException("the demo ended before it answered")
    if not told.done:
        raise click.ClickException("\n".join(told.lines))
    if given["as_json"] or before.as_json:
        output.emit_json({"told": told.lines, **({"race": told.race} if told.race is not None else {}), **told.demo})
        return
    for line in told.lines or show.listing(told.demo):
        click.echo(line)


class AddedMs(click.FloatRange):
    """No number (nan) is below or above any, and passes every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{number} is not in the range 0<x<={self.max}.", param, ctx)
        return number


REGION = click.Argument(["region"])
NODE = click.Argument(["node"], required=False)
OTHERS = click.Argument(["others"], nargs=-1, metavar="[OTHER]...")
OTHER = click.Argument(["other"])
ADDED_MS = click.Argument(["added_ms"], type=AddedMs(0, MAX_ADDED_MS, min_open=True), metavar="MS")
NAME = click.Argument(["name"], required=False)


def add_order(
    verb: str, short: str, text: str, *examples: str, parameters: Sequence[click.Argument] = (REGION,)
) -> None:
    """The command that sends one order to a running demo."""

    def run(
        region: str = "",
        node: str | None = None,
        others: tuple[str, ...] = (),
        other: str = "",
        added_ms: float = 0.0,
        name: str | None = None,
        **given: Any,
    ) -> None:
        named = (other,) if other else others
        order = DemoOrder(verb=verb, region=region, node=node or "", others=named, added_ms=added_ms, name=name or "")
        send(order, **given)

    shown = "\n".join(f"  epoxy demo {verb} {example}".rstrip() for example in examples)
    made = demo.command(verb, short_help=short, help=f"{text}\n\n\b\nExample{'s' * (len(examples) > 1)}:\n{shown}")
    made(for_a_demo(run)).params[:0] = parameters


add_order(
    "ps",
    "List the regions, and what a client of each may expect.",
    "List the regions of the running demo: their state, their addresses, and what a client of each may expect.",
    "",
    parameters=(),
)
add_order(
    "kill",
    "Kill a region, or a node of it: SIGKILL, as in a power cut.",
    "Kill a region with SIGKILL, as in a power cut, and its PostgreSQL with it, or one of its nodes: NODE is the "
    "number of one, or `gateway`. `revive` starts it again with its data.",
    "eu-west-1",
    "eu-west-1 gateway",
    parameters=(REGION, NODE),
)
add_order(
    "revive",
    "Start a region or a node again that is down (or paused).",
    "Start a region again with its data, or a node of it.",
    "eu-west-1",
    "eu-west-1 2",
    parameters=(REGION, NODE),
)
add_order(
    "pause",
    "Pause a region or a node: connections stay open, but it does not answer.",
    "Pause a region, or a node of it, with SIGSTOP: its connections stay open, but it does not answer. `resume` "
    "continues it.",
    "eu-west-1",
    "eu-west-1 gateway",
    parameters=(REGION, NODE),
)
add_order(
    "resume",
    "Continue a paused region or node.",
    "Continue a paused region where it stopped, or a node of it.",
    "eu-west-1",
    "eu-west-1 2",
    parameters=(REGION, NODE),
)
add_order(
    "add",
    "Add a region: it copies everything and becomes a member.",
    "Start another region and make it a member, while clients write. Any region whose round trips are known will do; "
    "one that was removed comes back with its data.",
    "us-west-2",
    "sa-east-1",
)
add_order(
    "remove",
    "Remove a region from the cluster, dead or alive.",
    "Remove a region from the cluster, and end it.",
    "eu-west-1",
)
add_order(
    "cut",
    "Cut the links of a region to all others, or to some.",
    "Cut the links between a region and all others, or the named ones. It keeps running, and its clients reach it.",
    "eu-west-1",
    "eu-west-1 us-east-1",
    parameters=(REGION, OTHERS),
)
add_order(
    "slow",
    "Slow the link between two regions.",
    "Make every round trip between two regions take MS milliseconds more, up to two seconds. Floors rise with it where "
    "the link is needed; `heal` undoes it.",
    "us-east-1 eu-west-1 300",
    parameters=(REGION, OTHER, ADDED_MS),
)
add_order(
    "race",
    "Let two regions reserve one name at the same moment.",
    "Let two regions reserve one name at the same moment, a fresh one unless NAME is given, and print who won it, and "
    "the time of both against their floors.",
    "us-east-1 eu-west-1",
    "us-east-1 eu-west-1 user/ada",
    parameters=(REGION, OTHER, NAME),
)
add_order(
    "heal",
    "Restore links that were cut or slowed.",
    "Restore the links between a region and all others, or the named ones, whether they were cut or slowed.",
    "eu-west-1",
    "eu-west-1 us-east-1",
    parameters=(REGION, OTHERS),
)
