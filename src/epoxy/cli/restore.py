"""`epoxy restore`: makes the data directory of one node of a new cluster from a backup."""

import asyncio
import os
import sys
from pathlib import Path
from typing import NoReturn

import click
import msgspec

from epoxy.backup.restore import ActorChoice, Restore, Restored, RestorePlan, Survey, plan_of, survey
from epoxy.cli import output
from epoxy.cli.groups import SETTINGS
from epoxy.cli.progress import ProgressBar
from epoxy.model.cluster import cluster_name
from epoxy.model.errors import BackupError, ConfigError, EpoxyError, StoreFailed, Unavailable
from epoxy.node.process.config import Settings, load
from epoxy.node.process.exits import EXIT_CONFIG, EXIT_STORE
from epoxy.node.process.secret_files import read_secret
from epoxy.server.certificates import Certificates
from epoxy.server.probes import ask
from epoxy.store.embedded.bulk import DataDirBuilder, check_empty
from epoxy.store.embedded.files import SYSTEM_FILES
from epoxy.transport.peers.probe import ProbeRefused

PROBE_S = 1.0
"""How long to wait for an answer of each member that the settings name. No round trip on earth takes as long."""


@click.command(context_settings=SETTINGS, short_help="Make a node of a new cluster from a backup.")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--config", "path", type=click.Path(path_type=Path), required=True, help="The new node's epoxy.toml.")
@click.option("--actors-of", multiple=True, metavar="OLD=NEW", help="Give a datacenter's actors to another.")
@click.option("--without-actors-of", multiple=True, metavar="OLD", help="Leave them out, and free their names.")
@click.option("--dry-run", is_flag=True, help="Verify the file and check the settings; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def restore(
    file: Path,
    path: Path,
    actors_of: tuple[str, ...],
    without_actors_of: tuple[str, ...],
    dry_run: bool,
    as_json: bool,
) -> None:
    """Make the data directory of one node of a NEW cluster from FILE, a backup. Run it once on each machine, with the
    same FILE, the same cluster.members and the same options; then start them all. The new cluster may have any number
    of members, with old or new ids and names.

    A node of the cluster that the backup is of cannot be restored, only replaced (`epoxy members add NEW-ID URL
    --replace ID`): a backup has no promises and votes, and without them a member could vote twice. Nodes of the new
    cluster have its id in their directories, and refuse all others, those of the old cluster included.

    The whole file is verified before the first row is written. Interrupted, it leaves nothing that a node would start
    with; run it again.

    Tokens and grants of the old cluster are not in a backup: `epoxy auth init` makes the first token of the new one.

    \b
    Actors stay with the datacenter of the same name. If the new cluster has none of that name:
      --actors-of eu-west-1=eu-central-1    gives them to another
      --without-actors-of eu-west-1         leaves them out; their names are free again

    \b
    Exit status:
      0   the directory is complete, durably
      1   the file is damaged or incomplete, or actors have no place
      74  the disk failed
      78  a setting is wrong, the directory is not empty, or a member of another cluster runs at one of the addresses

    \b
    Example:
      epoxy restore monday.backup --config epoxy.toml && epoxy serve --config epoxy.toml
    """
    try:
        settings = load(path, flags={}, environ=os.environ)
        check_founder(settings)
        check_empty(settings.node.data_dir, SYSTEM_FILES)
        choice = choice_of(actors_of, without_actors_of)
        with ProgressBar(f"verifying {file.name}", file.stat().st_size if file.exists() else None) as bar:
            found = survey(file, lambda done, _: bar.tell(done, size_of(done)))
        plan = plan_of(found, settings.first_config(), choice)
        check_settings(settings, plan)
        done = Restored(cluster=plan.cluster) if dry_run else make(file, settings, found, plan)
    except StoreFailed as error:
        end(error, EXIT_STORE)
    except BackupError as error:
        end(error, 1)
    except EpoxyError as error:
        end(error, EXIT_CONFIG)
    if as_json:
        output.emit_json({"replica": settings.node.id, "dry_run": dry_run, **msgspec.structs.asdict(done)})
    else:
        report(settings, found, done, dry_run=dry_run)


def end(error: EpoxyError, status: int) -> NoReturn:
    click.echo(f"epoxy: {error}", err=True)
    sys.exit(status)


def choice_of(moved: tuple[str, ...], dropped: tuple[str, ...]) -> ActorChoice:
    pairs = [each.partition("=") for each in moved]
    for old, equals, new in pairs:
        if not (old and equals and new):
            raise click.UsageError(f"--actors-of {old}{equals}{new}: give it as OLD=NEW, two names of datacenters")
    return ActorChoice(moved={old: new for old, _, new in pairs}, dropped=frozenset(dropped))


def check_founder(settings: Settings) -> None:
    if settings.cluster.join:
        raise ConfigError(
            "cluster.join = true: a node that joins a cluster gets its rows from the others, not from a backup; "
            "the first members of the new cluster are in cluster.members"
        )


def check_settings(settings: Settings, plan: RestorePlan) -> None:
    """No node of another cluster runs at the addresses of the new one: it would be taken for a member of it."""
    if settings.cluster.id not in ("", plan.cluster):
        raise ConfigError(
            f"cluster.id is {settings.cluster.id}, but this file makes cluster {plan.cluster} of these members; "
            "remove the setting, or restore from the file, and with the members and options, of the other nodes"
        )
    for replica, url in [(member.id, url) for member in settings.cluster.members for url in member.urls]:
        cluster = running_cluster(settings, replica, url)
        if cluster not in (None, plan.cluster):
            raise ConfigError(
                f"a node of another cluster runs at {url}, the address of member {replica}: it belongs to "
                f"{cluster_name(cluster or '')}. A single member is not restored but replaced, with `epoxy "
                "members add NEW-ID URL --replace ID`. For a new cluster stop all nodes of the old one, or give it "
                "other addresses"
            )


def running_cluster(settings: Settings, replica: int, url: str) -> str | None:
    """Of the node that answers there, to a request that is signed with this cluster's secret."""
    tls = Certificates(settings).for_dialing
    try:
        return asyncio.run(ask(url, replica, read_secret(settings), tls, PROBE_S)).cluster
    except ProbeRefused as refused:
        raise ConfigError(
            f"another node runs at {url}, the address of member {replica}: {refused}. "
            "Stop it, or give the new cluster other addresses"
        ) from refused
    except Unavailable:
        return None


def make(file: Path, settings: Settings, found: Survey, plan: RestorePlan) -> Restored:
    node = settings.node
    name = f"epoxy restore of replica {node.id}"
    builder = DataDirBuilder(node.data_dir, replica=node.id, cluster=plan.cluster, name=name)
    with builder, ProgressBar(f"restoring {file.name}", file.stat().st_size) as bar:
        return Restore(plan, node.id, builder).run(file, found.end, lambda done, _: bar.tell(done, size_of(done)))


def size_of(size: int) -> str:
    return f"{size / (1 << 20):,.0f} MiB"


def report(settings: Settings, found: Survey, done: Restored, *, dry_run: bool) -> None:
    header, end = found.header, found.end
    click.echo(f"backup of {header.made_at}, made at {header.datacenter} (replica {header.replica}): whole")
    if end.missing:
        click.echo(f"actors that are not in it: those of {', '.join(end.missing)}; they are made anew when requested")
    if dry_run:
        click.echo(f"nothing was written; replica {settings.node.id} would be a member of cluster {done.cluster}")
        return
    click.echo(
        f"replica {settings.node.id}: {output.plural(done.keys, 'key')}, "
        f"{output.plural(done.values, 'value')} of transactions, {output.plural(done.actors, 'actor')}"
    )
    if done.names_left_out:
        click.echo(f"{output.plural(done.names_left_out, 'name')} of actors left out")
    click.echo(f"cluster {done.cluster}")
    others = [member for member in settings.cluster.members if member.id != settings.node.id]
    if others:
        left = ", ".join(f"{member.datacenter} ({member.id})" for member in others)
        click.echo(f"next: the same command on {left}, each with its own file; then start them all")
    click.echo(f'write cluster.id = "{done.cluster}" into the files: members that are added later need it')
    if settings.access.auth == "tokens":
        click.echo("a backup has no grants, so no token is accepted: `epoxy auth init`, on a node, makes the first one")
