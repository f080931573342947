"""`epoxy inspect`: what every replica holds for a key."""

from collections import Counter

import click

from epoxy.cli import output, target
from epoxy.cli.groups import SETTINGS
from epoxy.client import Inspection
from epoxy.model.api import ReplicaView
from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.messages import Inspected
from epoxy.model.records import Proposal

HEADS = ("datacenter", "replica", "committed", "promised", "vote", "cache", "recent changes", "owner", "waiting")


@click.command(context_settings=SETTINGS, short_help="Show what every replica holds for a key.")
@target.key_argument
@target.call_options
def inspect(key: bytes, call: target.NodeCall) -> None:
    """Print what every replica holds for KEY: the committed value, promise and vote in flight, the cached value, and
    how often KEY is among the newest 1,000 rows of the changelog. If several replicas write KEY: the owner that each
    carries its writes to, and how many of its writes wait.

    Exit status: 0 every replica answered, 1 not every one.

    \b
    Example:
      epoxy inspect user/ada
    """
    with call.client() as client:
        seen = client.inspect(key)
    if call.as_json:
        output.emit_json(seen)
    else:
        output.table(HEADS, [cells(replica) for replica in seen.replicas])
        click.echo(f"\n{verdict(seen)}")
    raise click.exceptions.Exit(0 if all(replica.held is not None for replica in seen.replicas) else 1)


def cells(replica: ReplicaView) -> tuple[str, ...]:
    held = replica.held
    if held is None:
        return replica.datacenter, str(replica.id), f"did not answer: {replica.reason}", *[""] * 6
    return (
        replica.datacenter,
        str(replica.id),
        proposal(held.committed),
        ballot(held.promised),
        f"{proposal(held.vote.proposal)} in {ballot(held.vote.ballot)}" if held.vote is not None else "-",
        proposal(held.cached),
        str(len(held.changelog)),
        str(held.owner) if held.owner else "-",
        str(held.waiting) if held.waiting else "-",
    )


def proposal(held: Proposal | None) -> str:
    if held is None:
        return "-"
    value = output.text_of(held.value) if held.value is not None else "(deleted)"
    last = f"the last of {1 + len(held.folded)} writes " if held.folded else ""
    folded = f", {last}folded by {held.home}" if held.is_fold else ""
    kind = f"version {held.version}" if held.mutable else "reserved"
    return f"{value}, {kind}, by {held.proposal_id}{folded}{ends(held)}"


def ends(held: Proposal) -> str:
    """What its expiry is; how much of it is left, each replica counts by itself."""
    expiry = held.expiry
    if expiry is None:
        return ""
    if expiry.session:
        return f", ends with session {expiry.session.hex()}"
    return f", ttl {expiry.ttl_ms / 1000:g} s since version {expiry.since}"


def ballot(promised: Ballot) -> str:
    if promised == NO_BALLOT:
        return "-"
    return f"{promised}, fast" if promised.is_fast else str(promised)


def verdict(seen: Inspection) -> str:
    """What the table means, in a sentence. A replica that is behind is no fault: it learns the value from a comparison,
    or when it needs it."""
    held = [replica.held for replica in seen.replicas if replica.held is not None]
    committed = [state.committed for state in held if state.committed is not None]
    if not committed:
        return "No replica that answered has a committed value." + in_flight(held)
    newest = max(committed, key=lambda known: known.version)
    having = sum(known == newest for known in committed)
    words = f"{having} of {len(seen.replicas)} replicas hold the newest value, version {newest.version}."
    behind = len(held) - having
    late = f" {behind} will learn it from the others." if behind else ""
    return words + late + in_flight(held) + owned(seen)


def owned(seen: Inspection) -> str:
    """Who folds the writes of the key, if replicas believe that one does."""
    owners = Counter(replica.held.owner for replica in seen.replicas if replica.held is not None and replica.held.owner)
    if not owners:
        return ""
    owner, count = owners.most_common(1)[0]
    name = next((f" ({replica.datacenter})" for replica in seen.replicas if replica.id == owner), "")
    carry = "another carries" if count == 1 else f"{count} others carry"
    return f" Replica {owner}{name} owns it: {carry} writes to it."


def in_flight(held: list[Inspected]) -> str:
    votes = sum(state.vote is not None for state in held)
    return f" {output.plural(votes, 'vote')} in flight." if votes else ""
