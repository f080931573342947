"""Changes of actors in three regions, while processes are killed and paused and links are cut: `make actors-campaign`.

    python -m tests.actor_campaign                                 10,000 changes, in five minutes or so
    python -m tests.actor_campaign --changes 500 --minutes 1       a look
    python -m tests.actor_campaign --only 'kill a worker' --seed 7
    python -m tests.actor_campaign --planted forgetful             workers that keep no state: must fail
    python -m tests.actor_campaign --json                          the figures as JSON, on standard output

Every change has an idempotency key, and is asked for again, through any region, until it is acknowledged. In the end
the logs in the actors' states must have each acknowledged change once, where its answer said; no answer shows less than
an earlier one; and each fence belongs to one process. Exit 1: something of that is false, or a limit was missed; the
history and all logs are kept then.
"""

import argparse
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from epoxy import EpoxyError
from tests.actor_campaign.clients import Clients, log_at
from tests.actor_campaign.faults import KINDS, Faults
from tests.actor_campaign.figures import Away, measure
from tests.actor_campaign.history import Attempt, Line, Verdict, judge
from tests.actor_campaign.world import World, world

CHANGES, MINUTES, CLIENTS, ACTORS, ROUNDS = 10_000, 5.0, 96, 60, 2
SLOWEST = 4.0
"""Times the minutes that were asked for. After that the campaign ends with what it has."""

PLANTED = ("forgetful", "keyless")
SHOWN = 20
"""Findings that are printed. All are in the history that is kept."""

BREATH_S = 1.0
"""Without a fault, between two of them."""


class Found(Struct, frozen=True, kw_only=True):
    seed: int
    seconds: float
    faults: dict[str, int]
    verdict: Verdict
    given_up: int
    differing: tuple[str, ...]
    complaints: tuple[str, ...]
    away: Away | None

    @property
    def is_right(self) -> bool:
        missed = self.away is not None and bool(self.away.misses)
        return not (self.verdict.findings or self.given_up or self.differing or self.complaints or missed)


class History(Struct, frozen=True, kw_only=True):
    attempts: list[Attempt]
    logs: dict[str, list[Line]]


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m tests.actor_campaign", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--changes", type=int, default=CHANGES, help=f"to acknowledge; 0: measure alone (default: {CHANGES})"
    )
    made.add_argument("--minutes", type=float, default=MINUTES, help=f"to spread them over (default: {MINUTES:g})")
    made.add_argument("--clients", type=int, default=CLIENTS, help=f"default: {CLIENTS}")
    made.add_argument("--actors", type=int, default=ACTORS, help=f"default: {ACTORS}")
    made.add_argument("--rounds", type=int, default=ROUNDS, help=f"of each measurement; 0: none (default: {ROUNDS})")
    made.add_argument(
        "--only",
        action="append",
        choices=KINDS,
        metavar="FAULT",
        help=f"this kind alone; may be given several times. One of: {'; '.join(KINDS)}",
    )
    made.add_argument(
        "--planted", choices=PLANTED, help="a fault of workers or clients, which the judge has to find: exit 1"
    )
    made.add_argument("--seed", type=int, default=None, help="of faults and clients (default: by chance)")
    made.add_argument("--json", action="store_true", help="the figures as JSON")
    return made


def say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def rage(clients: Clients, faults: Faults, options: argparse.Namespace) -> dict[str, int]:
    """Faults in turns of all kinds, until there are enough changes and each kind has come."""
    dice, began_s = random.Random(options.seed), time.monotonic()
    done: dict[str, int] = dict.fromkeys(options.only or KINDS, 0)
    while clients.acknowledged < options.changes or min(done.values()) == 0:
        turn = list(done)
        dice.shuffle(turn)
        for name in turn:
            if clients.acknowledged >= options.changes and done[name]:
                continue
            what = KINDS[name](faults)
            done[name] += 1
            say(f"  {time.monotonic() - began_s:6.1f} s  {clients.acknowledged:6d} changes   {name}: {what}")
            time.sleep(BREATH_S)
        if time.monotonic() - began_s > SLOWEST * options.minutes * 60:
            faults.complaints.append(f"{clients.acknowledged} changes in {SLOWEST:g} times {options.minutes:g} minutes")
            break
    return done


def collect(here: World, names: Sequence[str]) -> tuple[dict[str, list[Line]], list[str]]:
    """Every log, as each region tells it; and the actors for which two regions differ."""
    told = [{name: log_at(node, name) for name in names} for node in here.nodes]
    return told[0], [name for name in names if any(each[name] != told[0][name] for each in told)]


def run(folder: Path, options: argparse.Namespace) -> tuple[Found, History]:
    began_s = time.monotonic()
    with world(folder, ["--forgetful"] if options.planted == "forgetful" else []) as here:
        say(f"  3 regions and {len(here.workers)} workers are up; seed {options.seed}")
        away = measure(here, options.rounds) if options.rounds else None
        clients = Clients(
            here.nodes,
            count=options.clients,
            actors=options.actors,
            rate=max(1, options.changes) / (options.minutes * 60),
            seed=options.seed,
            keyless=options.planted == "keyless",
        )
        faults = Faults(here, clients.names, random.Random(options.seed))
        with clients:
            done = rage(clients, faults, options) if options.changes else {}
        logs, differing = collect(here, clients.names)
    found = Found(
        seed=options.seed,
        seconds=round(time.monotonic() - began_s, 1),
        faults=done,
        verdict=judge(clients.attempts, logs),
        given_up=clients.given_up,
        differing=tuple(differing),
        complaints=tuple(faults.complaints),
        away=away,
    )
    return found, History(attempts=clients.attempts, logs=logs)


def text(found: Found) -> str:
    verdict = found.verdict
    lost = sum(each.rule == "lost" for each in verdict.findings)
    lines = [
        f"{verdict.acknowledged} changes acknowledged, {lost} lost; {verdict.reads} reads;"
        f" {verdict.unknown} of unknown outcome; {found.seconds:.0f} s, seed {found.seed}",
        "faults: " + ", ".join(f"{count} times {name}" for name, count in found.faults.items()),
    ]
    if found.away is not None:
        away = found.away
        worker, region = (", ".join(f"{s:.1f}" for s in each) for each in (away.worker_s, away.region_s))
        lines += [
            f"away after kill -9 of its worker: {worker} s (at most {away.worker_limit_s:g})",
            f"away after kill -9 of its region: {region} s (at most {away.region_limit_s:g})",
            f"while its worker drained: {len(away.drain_failures)} of {away.drained_requests} requests failed",
            *(f"MISSED: {words}" for words in away.misses),
        ]
    wrong = [f"{each.rule}: actor {each.actor}: {each.words}" for each in verdict.findings]
    lines += [f"WRONG: {words}" for words in (*wrong[:SHOWN], *found.complaints)]
    if len(wrong) > SHOWN:
        lines.append(f"WRONG: and {len(wrong) - SHOWN} more")
    lines += [f"WRONG: two regions tell different logs of actor {name}" for name in found.differing]
    if found.given_up:
        lines.append(f"WRONG: {found.given_up} changes were never answered")
    return "\n".join(lines)


def main() -> None:
    options = parser().parse_args()
    if options.seed is None:
        options.seed = random.SystemRandom().randrange(1 << 32)
    folder = Path(tempfile.mkdtemp(prefix="epoxy-actors-"))
    try:
        found, history = run(folder, options)
    except KeyboardInterrupt:
        raise SystemExit("interrupted") from None
    except (EpoxyError, OSError, AssertionError) as error:
        raise SystemExit(f"error: {error}; the logs are in {folder}") from None
    print(msgspec.json.encode(found).decode() if options.json else text(found))
    if not found.is_right:
        kept = folder / "history.json"
        kept.write_bytes(msgspec.json.encode(history))
        raise SystemExit(f"kept: {kept}")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
