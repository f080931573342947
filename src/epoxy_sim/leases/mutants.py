"""Planted faults of leases. Each breaks one rule of docs/protocol/leases.md by name."""

# Broken rules keep the signatures of the right ones, used or not.
# ruff: noqa: ARG001

from collections.abc import Callable
from random import Random

from msgspec.structs import replace

from epoxy.model.records import Expiry, Proposal
from epoxy.model.sessions import session_key
from epoxy.model.writes import Consistency, Outcome, ReadOutcome, ReadResult, Source, Write
from epoxy.node.keys import leases as rules
from epoxy.node.keys.driver import Driver
from epoxy.node.keys.leases import LeaseCount, Leases
from epoxy.node.keys.queued_write import AT_ANY_TIME, Turn
from epoxy.protocol.keys import preconditions
from epoxy.protocol.keys.operations import Verdict
from epoxy_sim.leases import client, generate
from epoxy_sim.leases.client import LeaseClient
from epoxy_sim.leases.machine import LeaseLife
from epoxy_sim.patching import Mutant, Mutants, nothing

check_preconditions = preconditions.check_preconditions
expiry_of = preconditions.expiry_of
begin, follow, load = Leases._begin, Leases.follow, Leases.load
look_at_session = Leases._look_at_session
write_key, find = Driver.write, Driver._found
now_ms = LeaseClient.now_ms

FOR_EVER = 1e9

MUTANTS = Mutants(Mutant)
mutant = MUTANTS.mutant


# An end is a decision.


@mutant(Driver, "_found", "local-expiry", "a linearizable read takes what is over by one clock as absent")
def absent_by_the_clock(
    driver: Driver,
    key: bytes,
    consistency: Consistency,
    answered: Callable[[ReadOutcome], None],
    outcome: ReadOutcome,
) -> None:
    answered(driver.leases.seen(key, outcome) if isinstance(outcome, ReadResult) else outcome)


@mutant(preconditions, "check_preconditions", "create-over-expired", "a value that was given an expiry is no obstacle")
def create_over_what_ends(write: Write, committed: Proposal | None, *, confirmed: bool) -> Verdict:
    is_ending = committed is not None and committed.expiry is not None
    return None if write.if_absent and is_ending else check_preconditions(write, committed, confirmed=confirmed)


@mutant(rules, "end_of", "no-version-condition", "an end is not bound to a version")
def end_of_any_version(key: bytes, version: int) -> Write:
    return Write(key=key, value=None, mutable=True)


@mutant(Driver, "_found", "hidden-early", "an optimistic read hides whatever has an expiry")
def hide_what_ends(
    driver: Driver,
    key: bytes,
    consistency: Consistency,
    answered: Callable[[ReadOutcome], None],
    outcome: ReadOutcome,
) -> None:
    committed = outcome.committed if isinstance(outcome, ReadResult) else None
    if consistency is Consistency.LINEARIZABLE or committed is None or committed.expiry is None:
        find(driver, key, consistency, answered, outcome)
    else:
        gone = Proposal(value=None, version=committed.version, mutable=True, proposal_id=committed.proposal_id)
        answered(ReadResult(committed=gone, source=Source.LOCAL))


# A replica counts from the moment at which it holds the expiry durably.


@mutant(Leases, "_begin", "count-from-request", "the count begins when the home was asked")
def count_from_request(leases: Leases, key: bytes, found: LeaseCount) -> None:
    begin(leases, key, found)
    asked_ms: float | None = vars(leases).get("asked", {}).get(key)
    if found.ends_ms is not None and asked_ms is not None:
        found.ends_ms = asked_ms + rules.wait_ms(found.expiry.ttl_ms)


@MUTANTS.also("count-from-request", Driver, "write")
def note_request(driver: Driver, write: Write, answered: Callable[[Outcome], None], turn: Turn = AT_ANY_TIME) -> None:
    if write.ttl_ms:
        vars(driver.leases).setdefault("asked", {})[write.key] = driver.clock.now_ms()
    write_key(driver, write, answered, turn)


@mutant(rules, "wait_ms", "no-margin", "a replica waits for the time to live and no longer")
def time_to_live(ttl_ms: int) -> float:
    return ttl_ms


@mutant(LeaseLife, "now_ms", "wall-clock", "leases are counted by the calendar")
def calendar(life: LeaseLife) -> float:
    return life.wall_ms()


@mutant(Leases, "_begin", "restart-is-over", "what was counted before a restart counts as over")
def over_at_a_restart(leases: Leases, key: bytes, found: LeaseCount) -> None:
    begin(leases, key, found)
    if vars(leases).get("found", {}).get(key) is found:
        leases._end_now(key, found)


@MUTANTS.also("restart-is-over", Leases, "load")
def note_what_was_found(leases: Leases, after: bytes | None = None) -> None:
    load(leases, after)
    vars(leases)["found"] = dict(leases._counts)


mutant(Leases, "load", "restart-forgets", "a process that begins counts nothing")(nothing)


# `since` tells one expiry from the next.


@mutant(Leases, "follow", "since-not-compared", "the count goes on although the lease was renewed")
def same_count(leases: Leases, key: bytes, committed: Proposal) -> None:
    known = leases._counts.get(key)
    if known is not None and committed.expiry is not None:
        known.expiry, known.version, known.home = committed.expiry, committed.version, committed.home
    else:
        follow(leases, key, committed)


@mutant(preconditions, "expiry_of", "kept-expiry-anew", "a value that is kept alive by being written")
def begin_anew(write: Write, committed: Proposal | None, version: int) -> Expiry | None:
    expiry = expiry_of(write, committed, version)
    return replace(expiry, since=version) if expiry is not None else None


@mutant(preconditions, "expiry_of", "renewal-keeps-count", "a renewal counts from the version that was renewed")
def go_on_counting(write: Write, committed: Proposal | None, version: int) -> Expiry | None:
    expiry = expiry_of(write, committed, version)
    if expiry is None or committed is None or committed.expiry is None:
        return expiry
    return replace(expiry, since=committed.expiry.since)


mutant(preconditions, "expiry_of", "expiry-lost", "a value that is counted on loses its expiry")(nothing)


# The fencing token rises for ever, also across deletion.


@mutant(client, "token_of", "token-reused", "the token counts the writes since the key was created")
def writes_since_created(held: Proposal) -> int:
    return 1 if held.expiry is not None and held.expiry.since == held.version else 2


# Keys of a session end after its tombstone.


@mutant(Leases, "_look_at_session", "unheard-session-is-over", "a session that is not known here counts as over")
def over_if_unknown(leases: Leases, key: bytes, found: LeaseCount) -> None:
    if leases._driver.replica.newest(session_key(found.expiry.session)) is None:
        leases._end_now(key, found)
    else:
        look_at_session(leases, key, found)


mutant(Leases, "session_over", "session-forgotten", "the tombstone of a session ends nothing")(nothing)


# Evidence.


@mutant(preconditions, "check_preconditions", "create-refused-unheard", "a create is refused by what is known here")
def refused_unheard(write: Write, committed: Proposal | None, *, confirmed: bool) -> Verdict:
    return check_preconditions(write, committed, confirmed=confirmed or write.if_absent)


@mutant(preconditions, "check_preconditions", "touch-refused-unheard", "a touch is refused by what is known here")
def touch_unheard(write: Write, committed: Proposal | None, *, confirmed: bool) -> Verdict:
    return check_preconditions(write, committed, confirmed=confirmed or write.touch)


# The holder counts from before it sent, on a clock within the bound that goes on while it stands still.


@mutant(client, "count_from", "holder-counts-from-answer", "a holder counts from the answer")
def from_answer(sent_ms: float, answered_ms: float) -> float:
    return answered_ms


@mutant(LeaseClient, "now_ms", "holder-clock-stops", "a holder's clock stands still with it")
def clock_stands_still(holder: LeaseClient) -> float:
    return now_ms(holder) - holder.slept_us * holder._plan.rate / 1000


@mutant(generate, "draw_rates", "clocks-beyond-bound", "clocks differ by five percent", since=180)
def wide_rates(dice: Random, count: int) -> tuple[float, ...]:
    return tuple(dice.choice((1.0, 1.05)) for _ in range(count))


# All that is to end does.


@mutant(Leases, "_rank", "home-alone", "only the home of a value proposes its end")
def never_the_turn(leases: Leases, home: int) -> float:
    return 0.0 if home == leases._driver.replica.me else FOR_EVER


mutant(Leases, "_not_ended", "never-again", "an end that was not decided is not proposed again", since=460)(nothing)
