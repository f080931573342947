"""Findings about actors: those whose home is gone."""

import shlex
from collections.abc import Iterator

from epoxy.cli.findings import Finding, warning
from epoxy.cli.output import plural
from epoxy.client.actor_calls import DEFAULT
from epoxy.model.api_actors import HomelessActor, HomelessPage


def homes(homeless: HomelessPage | None) -> Iterator[Finding]:
    """None: this client may not see it, or the nodes are of an earlier version."""
    if homeless is None or not homeless.actors:
        return
    gone = ", ".join(sorted({actor.datacenter for actor in homeless.actors}))
    named = ", ".join(f"{actor.name}/{actor.key}" for actor in homeless.actors)
    more = ", ..." if homeless.count > len(homeless.actors) else ""
    pools = ", ".join(sorted({actor.pool for actor in homeless.actors}))
    yield warning(
        f"{plural(homeless.count, 'actor')} had a home in {gone}, whose lease is over, and no other yet: {named}{more}",
        f"One is taken over, with its state, when it is asked for: `{take_over(homeless.actors[0])}`, at a datacenter"
        f" with workers of its pool ({pools}). If none has any, start some: `epoxy worker run`.",
    )


def take_over(actor: HomelessActor) -> str:
    words = ["epoxy", "actor", "get", actor.name, actor.key]
    if actor.namespace != DEFAULT:
        words += ["--namespace", actor.namespace]
    return shlex.join(words)
