"""`epoxy inspect`: what every replica holds for a key."""

import click

from epoxy.cli import output, target
from epoxy.cli.groups import SETTINGS
from epoxy.model.api import ReplicaView
from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.records import Proposal

MARKS = {"good": "+", "info": "-", "warn": "!", "bad": "!!"}
HEADS = ("datacenter", "replica", "committed", "promised", "vote", "cache", "recent changes", "owner", "waiting")


@click.command(context_settings=SETTINGS, short_help="Show what every replica holds for a key.")
@target.key_argument
@target.call_options
def inspect(key: bytes, call: target.NodeCall) -> None:
    """Print what every replica holds for KEY: the committed value, promise and vote in flight, the cached value, and
    how often KEY is among the newest 1,000 rows of the changelog. If several replicas write KEY: the owner that each
    carries its writes to, and how many of its writes wait. Sentences below it say what that means, and why the key is
    slow or stuck: + all is well, ! something is under way or slow, !! something is broken.

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
        click.echo("")
        for each in seen.explanation:
            click.echo(f"{MARKS[each.kind]} {each.text}")
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
