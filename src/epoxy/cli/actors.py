"""`epoxy actor` and `epoxy envoy`."""

import time
from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from epoxy.cli import output, target
from epoxy.cli.groups import SETTINGS, Group
from epoxy.client.actor_calls import DEFAULT, ActorInfo, Which

HEADS = ("name", "key", "state", "datacenter", "worker", "pool", "id")
ENVOY_HEADS = ("worker", "actors", "of", "weight", "version", "last ping", "round trip", "")

namespace_option = click.option("--namespace", default=DEFAULT, show_default=True)


def which_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """NAME, KEY and --namespace, which `command` gets as one `which`."""

    @wraps(command)
    def with_which(*, name: str, key: str, namespace: str, **named: Any) -> None:
        command(which=Which(name=name, key=key, namespace=namespace), **named)

    return click.argument("name")(click.argument("key")(namespace_option(with_which)))


pool_option = click.option("--pool", default=DEFAULT, show_default=True, help="The pool of workers.")


@click.group(cls=Group, context_settings=SETTINGS, short_help="Create, find, ask, move and destroy actors.")
def actor() -> None:
    """Create, find, ask, move and destroy actors. The name of an actor is reserved once in the world, and the actor
    runs on a worker of the datacenter that is its home. If that is gone for 30 s, another one takes its place.

    \b
    Examples:
      epoxy actor create chat-room lobby --pool chat
      epoxy actor get chat-room lobby --url http://127.0.0.1:7820
      epoxy actor request chat-room lobby "hello"
      epoxy actor move chat-room lobby --to eu-west-1
      epoxy actor destroy chat-room lobby
    """


@actor.command(context_settings=SETTINGS, short_help="Create an actor, or find the one that exists.")
@click.argument("name")
@click.argument("key")
@namespace_option
@pool_option
@click.option("--input", "given", default="", help="Handed to the actor when it starts.")
@click.option("--new", "exclusive", is_flag=True, help="Exit with 3 if the actor exists.")
@target.call_options
def create(name: str, key: str, namespace: str, pool: str, given: str, exclusive: bool, call: target.NodeCall) -> None:
    """Create the actor NAME/KEY in the node's datacenter, or, if it has no worker of the pool, in the nearest one that
    has; or find it if it exists in any datacenter.

    Exit status: 0 created or found, 3 it exists and --new was given, 1 failed.
    """
    with call.client(writes=True) as client:
        make = client.actors.create if exclusive else client.actors.get_or_create
        found = make(name, key, namespace=namespace, pool=pool, given=given)
    if found is None:
        click.echo(f"epoxy: the actor {name}/{key} exists already", err=True)
        raise click.exceptions.Exit(target.LOST)
    show(found, call.as_json, "created" if found.created else "found")


@actor.command(context_settings=SETTINGS, short_help="Find an actor, in any datacenter.")
@which_arguments
@target.call_options
def get(which: Which, call: target.NodeCall) -> None:
    """Print where the actor NAME/KEY runs, and its state. Exit status: 0 found, 4 not found."""
    with call.client() as client:
        found = client.actors.get(which)
    show(found, call.as_json, "found")


@actor.command("list", context_settings=SETTINGS, short_help="List the actors of one datacenter.")
@click.option("--name", help="Only actors with this name.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@click.option("--after", metavar="ID", help="Continue after this actor.")
@namespace_option
@target.call_options
def list_actors(name: str | None, limit: int, after: str | None, namespace: str, call: target.NodeCall) -> None:
    """List the actors whose home is the node's datacenter, in the order of their names."""
    with call.client() as client:
        page = client.actors.page(namespace=namespace, name=name, after=after, limit=limit)
    if call.as_json:
        output.emit_json(page)
        return
    output.table(HEADS, [cells(each) for each in page.actors])
    if page.next is not None:
        click.echo(f"There are more: --after {page.next}")


@actor.command(context_settings=SETTINGS, short_help="Send a request to an actor.")
@which_arguments
@click.argument("body", type=target.Argument(stdin=True))
@click.option("--pool", help="Create the actor in this pool if it does not exist.")
@target.call_options
def request(which: Which, body: bytes, pool: str | None, call: target.NodeCall) -> None:
    """Send BODY (`-`: stdin) to the actor NAME/KEY and print its answer. With --json it is exact in `value_base64`,
    and in `value`, if it is text."""
    with call.client(writes=True) as client:
        answer = client.actors.request(which, body, pool=pool)
    if call.as_json:
        named = {"namespace": which.namespace, "name": which.name, "key": which.key}
        output.emit_json(named | target.value_json(answer))
    else:
        click.echo(answer, nl=False)


@actor.command(context_settings=SETTINGS, short_help="Destroy an actor.")
@which_arguments
@target.call_options
def destroy(which: Which, call: target.NodeCall) -> None:
    """Destroy the actor NAME/KEY. The name may be given to a new one. Exit status: 0 destroyed, 4 not found."""
    with call.client(writes=True) as client:
        gone = client.actors.destroy(which)
    show(gone, call.as_json, "destroyed")


@actor.command(context_settings=SETTINGS, short_help="Move an actor to another datacenter.")
@which_arguments
@click.option("--to", required=True, metavar="DATACENTER", help="Where it is to run.")
@target.call_options
def move(which: Which, to: str, call: target.NodeCall) -> None:
    """Stop the actor NAME/KEY where it runs, and start it in another datacenter, with its state. Requests that come
    meanwhile wait. The other datacenter needs a worker of the actor's pool.

    \b
    Example:
      epoxy actor move chat-room lobby --to eu-west-1

    Exit status: 0 moved, or it was there already, 4 not found, 1 failed.
    """
    with call.client(writes=True) as client:
        moved = client.actors.move(which, to)
    show(moved, call.as_json, "moved")


@click.group(cls=Group, context_settings=SETTINGS, short_help="List and drain the workers that host actors.")
def envoy() -> None:
    """List and drain the workers that host actors in one datacenter.

    \b
    Examples:
      epoxy envoy list --pool chat
      epoxy envoy drain worker-1
    """


@envoy.command("list", context_settings=SETTINGS, short_help="List the workers of a pool.")
@namespace_option
@pool_option
@target.call_options
def list_envoys(namespace: str, pool: str, call: target.NodeCall) -> None:
    """List the workers of a pool in the node's datacenter, with the number of actors on each."""
    with call.client() as client:
        found = client.actors.envoys(namespace=namespace, pool=pool)
    if call.as_json:
        output.emit_json({"envoys": found})
        return
    now_ms = time.time() * 1000
    output.table(
        ENVOY_HEADS,
        [
            (
                each.key,
                f"{each.slots:,}",
                f"{each.capacity:,}" if each.capacity else "any",
                str(each.weight),
                str(each.version),
                f"{max(0.0, now_ms - each.last_ping_ts) / 1000:.1f} s ago",
                f"{each.last_rtt_ms} ms",
                "draining" if each.draining else "" if each.connected else "not connected",
            )
            for each in found
        ],
    )


@envoy.command(context_settings=SETTINGS, short_help="Move a worker's actors elsewhere.")
@click.argument("key")
@namespace_option
@click.option("--undo", is_flag=True, help="Stop draining it.")
@target.url_option
@target.timeout_option
def drain(key: str, namespace: str, undo: bool, urls: list[str], timeout: float) -> None:
    """Give the worker KEY no new actors, and move its actors to others. Exit status: 0 draining, 4 not found."""
    with target.NodeCall(urls=urls, timeout=timeout).client(writes=True) as client:
        done = client.actors.drain(key, namespace=namespace, undo=undo)
    if not done:
        click.echo("epoxy: no worker of this name is active in this datacenter", err=True)
        raise click.exceptions.Exit(target.NOT_FOUND)
    click.echo(f"{key} takes actors again" if undo else f"{key} is draining")


def show(found: ActorInfo | None, as_json: bool, word: str) -> None:
    if found is None:
        click.echo("epoxy: there is no such actor", err=True)
        raise click.exceptions.Exit(target.NOT_FOUND)
    if as_json:
        output.emit_json(found)
        return
    click.secho(f"{word}: ", fg="green", bold=True, nl=False)
    click.echo(f"{found.name}/{found.key} is {found.state}")
    output.row("id", found.id)
    output.row("datacenter", found.datacenter)
    output.row("home epoch", str(found.epoch))
    output.row("worker", found.envoy or "none yet")
    output.row("pool", found.pool)


def cells(found: ActorInfo) -> tuple[str, ...]:
    return found.name, found.key, found.state, found.datacenter, found.envoy or "-", found.pool, found.id
