"""`epoxy actor` and `epoxy envoy`."""

import time

import click

from epoxy.cli import output, target
from epoxy.cli.groups import SETTINGS, Group
from epoxy.client.actor_calls import DEFAULT, ActorInfo, Which

HEADS = ("name", "key", "state", "datacenter", "worker", "pool", "id")
ENVOY_HEADS = ("worker", "actors", "of", "weight", "version", "last ping", "round trip", "")

namespace_option = click.option("--namespace", default=DEFAULT, show_default=True)
pool_option = click.option("--pool", default=DEFAULT, show_default=True, help="The workers that may host it.")


@click.group(cls=Group, context_settings=SETTINGS, short_help="Actors: create, find, ask, destroy.")
def actor() -> None:
    """Actors: each has a name that is reserved once in the world, and runs on a worker of the datacenter that won it.

    \b
    Examples:
      epoxy actor create chat-room lobby --pool chat
      epoxy actor get chat-room lobby --url http://127.0.0.1:7820
      epoxy actor request chat-room lobby "hello"
      epoxy actor destroy chat-room lobby
    """


@actor.command(context_settings=SETTINGS, short_help="Make an actor, or find the one there is.")
@click.argument("name")
@click.argument("key")
@namespace_option
@pool_option
@click.option("--input", "given", default="", help="What it is given to begin with.")
@click.option("--new", "exclusive", is_flag=True, help="Only make a new one: exit 3 if there is one.")
@target.url_option
@target.timeout_option
@target.json_option
def create(
    name: str,
    key: str,
    namespace: str,
    pool: str,
    given: str,
    exclusive: bool,
    urls: list[str],
    timeout: float,
    as_json: bool,
) -> None:
    """The one actor NAME/KEY in the world: made here, unless there is one somewhere.

    Exit status: 0 made or found, 3 there is one and --new was given, 1 failed.
    """
    with target.talking_to(urls, timeout, as_json=as_json, writes=True) as client:
        actors = client.actors
        make = actors.create if exclusive else actors.get_or_create
        found = make(name, key, namespace=namespace, pool=pool, given=given)
    if found is None:
        click.echo(f"epoxy: there is an actor {name}/{key} already", err=True)
        raise click.exceptions.Exit(target.LOST)
    show(found, as_json, "created" if found.created else "found")


@actor.command(context_settings=SETTINGS, short_help="Find an actor, wherever it is.")
@click.argument("name")
@click.argument("key")
@namespace_option
@target.url_option
@target.timeout_option
@target.json_option
def get(name: str, key: str, namespace: str, urls: list[str], timeout: float, as_json: bool) -> None:
    """Where the actor NAME/KEY is, and how it is doing. Exit status: 0 found, 4 there is none."""
    with target.talking_to(urls, timeout, as_json=as_json) as client:
        found = client.actors.get(Which(name=name, key=key, namespace=namespace))
    show(found, as_json, "found")


@actor.command("list", context_settings=SETTINGS, short_help="The actors of one datacenter.")
@click.option("--name", help="Only those with this name.")
@click.option("--limit", type=click.IntRange(1, 1000), default=100, show_default=True)
@click.option("--after", metavar="ID", help="From the one behind this one on.")
@namespace_option
@target.url_option
@target.timeout_option
@target.json_option
def list_actors(
    name: str | None, limit: int, after: str | None, namespace: str, urls: list[str], timeout: float, as_json: bool
) -> None:
    """The actors that the node's datacenter owns, in the order of their names."""
    with target.talking_to(urls, timeout, as_json=as_json) as client:
        page = client.actors.page(namespace=namespace, name=name, after=after, limit=limit)
    if as_json:
        output.emit_json(page)
        return
    output.table(HEADS, [cells(each) for each in page.actors])
    if page.next is not None:
        click.echo(f"There are more: --after {page.next}")


@actor.command(context_settings=SETTINGS, short_help="Ask an actor something.")
@click.argument("name")
@click.argument("key")
@click.argument("body", type=target.Argument(stdin=True))
@namespace_option
@click.option("--pool", help="Make the actor in this pool, if there is none.")
@target.url_option
@target.timeout_option
def request(
    name: str, key: str, body: bytes, namespace: str, pool: str | None, urls: list[str], timeout: float
) -> None:
    """Send BODY (`-`: stdin) to the actor NAME/KEY and print its answer."""
    with target.talking_to(urls, timeout, as_json=False, writes=True) as client:
        answer = client.actors.request(Which(name=name, key=key, namespace=namespace), body, pool=pool)
    click.echo(answer, nl=False)


@actor.command(context_settings=SETTINGS, short_help="End an actor.")
@click.argument("name")
@click.argument("key")
@namespace_option
@target.url_option
@target.timeout_option
@target.json_option
def destroy(name: str, key: str, namespace: str, urls: list[str], timeout: float, as_json: bool) -> None:
    """End the actor NAME/KEY. Its name stays with its datacenter. Exit status: 0 ended, 4 there is none."""
    with target.talking_to(urls, timeout, as_json=as_json, writes=True) as client:
        gone = client.actors.destroy(Which(name=name, key=key, namespace=namespace))
    show(gone, as_json, "destroyed")


@click.group(cls=Group, context_settings=SETTINGS, short_help="Workers that host actors: list, drain.")
def envoy() -> None:
    """The workers that host actors, as one datacenter knows them.

    \b
    Examples:
      epoxy envoy list --pool chat
      epoxy envoy drain worker-1
    """


@envoy.command("list", context_settings=SETTINGS, short_help="The workers of a pool.")
@namespace_option
@pool_option
@target.url_option
@target.timeout_option
@target.json_option
def list_envoys(namespace: str, pool: str, urls: list[str], timeout: float, as_json: bool) -> None:
    """The workers of a pool in the node's datacenter, with how many actors each has."""
    with target.talking_to(urls, timeout, as_json=as_json) as client:
        found = client.actors.envoys(namespace=namespace, pool=pool)
    if as_json:
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
@click.option("--undo", is_flag=True, help="It stays after all.")
@target.url_option
@target.timeout_option
def drain(key: str, namespace: str, undo: bool, urls: list[str], timeout: float) -> None:
    """The worker KEY gets nothing new, and what it has moves to others. Exit status: 0 so be it, 4 there is none."""
    with target.talking_to(urls, timeout, as_json=False, writes=True) as client:
        done = client.actors.drain(key, namespace=namespace, undo=undo)
    if not done:
        click.echo("epoxy: no such worker is active in this datacenter", err=True)
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
    output.row("worker", found.envoy or "none yet")
    output.row("pool", found.pool)


def cells(found: ActorInfo) -> tuple[str, ...]:
    return found.name, found.key, found.state, found.datacenter, found.envoy or "-", found.pool, found.id
