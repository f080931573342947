"""Findings about actors: those whose home is gone, and datacenters that host none."""

import shlex
from collections.abc import Iterator, Mapping, Sequence

from epoxy.cli.diagnosis_access import LOOK
from epoxy.cli.finding_kinds import FindingKind
from epoxy.cli.findings import Finding, unknown, warning
from epoxy.cli.output import plural
from epoxy.client.actor_calls import DEFAULT
from epoxy.client.results import Status
from epoxy.model.api_actors import HomelessActor, HomelessPage, PoolName, PoolPage


def homes(homeless: HomelessPage | None) -> Iterator[Finding]:
    """None: it is not known."""
    if homeless is None or not homeless.actors:
        return
    gone = ", ".join(sorted({actor.datacenter for actor in homeless.actors}))
    named = ", ".join(f"{actor.name}/{actor.key}" for actor in homeless.actors)
    more = ", ..." if homeless.count > len(homeless.actors) else ""
    pools = ", ".join(sorted({actor.pool for actor in homeless.actors}))
    yield warning(
        FindingKind.HOMELESS_ACTORS,
        f"{plural(homeless.count, 'actor')} had a home in {gone}, whose lease is over, and no other yet: {named}{more}",
        f"One is taken over, with its state, when it is asked for at a datacenter with workers of its pool ({pools})."
        " If none has any, start some: `epoxy worker run`.",
        *(take_over(actor) for actor in homeless.actors),
    )


def take_over(actor: HomelessActor) -> str:
    words = ["epoxy", "actor", "get", actor.name, actor.key]
    if actor.namespace != DEFAULT:
        words += ["--namespace", actor.namespace]
    return shlex.join(words)


def workers(page: PoolPage | None, statuses: Sequence[Status]) -> Iterator[Finding]:
    """Datacenters without workers, if others have some: a cluster without actors needs none. The leases of
    datacenters, which say it, are those that the node knows that was asked."""
    used = {pool for place in page.datacenters for pool in place.pools} if page is not None else set()
    if page is None or not used:
        return
    for place in page.datacenters:
        if not place.pools:
            words = "its lease names no workers" if place.hosts else "it holds no lease of actors"
            yield warning(
                FindingKind.NO_WORKERS,
                f"{place.datacenter} has no workers ({words}), and others have workers of {spelled(used)}",
                "Start workers there, with the module that the other datacenters run.",
                *(start_worker(pool, url_of(place.datacenter, statuses)) for pool in sorted(used, key=key_of)),
            )


def url_of(datacenter: str, statuses: Sequence[Status]) -> str:
    return next((status.url for status in statuses if status.datacenter == datacenter and status.url), "URL")


def start_worker(pool: PoolName, url: str) -> str:
    words = ["epoxy", "worker", "run", "MODULE:ATTRIBUTE", "--pool", pool.pool]
    if pool.namespace != DEFAULT:
        words += ["--namespace", pool.namespace]
    return shlex.join([*words, "--url", url])


def key_of(pool: PoolName) -> tuple[str, str]:
    return pool.namespace, pool.pool


def spelled(pools: set[PoolName]) -> str:
    named = [f"{pool.namespace}/{pool.pool}" for pool in sorted(pools, key=key_of)]
    return f"pool {named[0]}" if len(named) == 1 else f"the pools {', '.join(named)}"


def unseen_actors(unseen: Mapping[str, str]) -> Iterator[Finding]:
    """`unseen`: what no node told this client, and why."""
    reasons = sorted({unseen[what] for what in ("homeless", "pools") if what in unseen})
    if reasons:
        words = f"actors and workers were not looked at: {'; '.join(reasons)}"
        yield unknown(FindingKind.ACTORS_UNSEEN, words, LOOK)
