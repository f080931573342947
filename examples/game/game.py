"""Two hundred arenas with players in every region, played as fast as they answer: a load, and a check.

    epoxy demo --exec "python examples/game/game.py --seconds 20"
    python examples/game/game.py --rooms 50 --players 3 --kill --json

Each player sends a step, waits for the answer, and sends the next, each under an idempotency key, so that a step whose
outcome is unknown is sent again and counts once. In the end every arena is asked: a step that was acknowledged and is
not there is an error, and so is one that counted twice. --kill ends a worker with SIGKILL half way.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from epoxy import AsyncClient, Client, EpoxyError, Which

FOLDER = Path(__file__).parent
POOL, ACTOR = "game", "arena"
STEPS = ("north", "south", "west", "east")
AGAIN_S, SETTLE_S = 0.2, 60.0
AT_ONCE = 50
"""Arenas that are made or looked at together."""


class Player:
    """One of an arena, and what it was told."""

    def __init__(self, arena: str, name: str, client: AsyncClient) -> None:
        self.arena, self.name, self._client = arena, name, client
        self.acknowledged = 0
        self.latencies: list[float] = []
        self.again = 0

    async def play(self, until: float) -> None:
        while time.monotonic() < until:
            await self.step()

    async def step(self) -> None:
        """Until it is answered: with its key, a step that is sent again counts once."""
        began, key = time.monotonic(), f"{self.name}-{self.acknowledged}-{random.getrandbits(64):x}"
        body = json.dumps({"player": self.name, "step": random.choice(STEPS)}).encode()
        while True:
            try:
                await self._client.actors.request(
                    Which(name=ACTOR, key=self.arena), body, pool=POOL, idempotency_key=key
                )
                break
            except EpoxyError:
                self.again += 1
                if time.monotonic() > began + SETTLE_S:
                    raise
                await asyncio.sleep(AGAIN_S)
        self.latencies.append(time.monotonic() - began)
        self.acknowledged += 1


def regions(url: str) -> dict[str, str]:
    with Client(url) as client:
        status = client.status()
    return {status.datacenter: url} | {peer.datacenter: peer.url for peer in status.peers if peer.url}


def start_workers(nodes: dict[str, str]) -> list[subprocess.Popen[bytes]]:
    file = os.environ.get("EPOXY_WORKER_TOKEN_FILE")
    token = {"EPOXY_TOKEN": "", "EPOXY_TOKEN_FILE": file} if file else {}
    command = [sys.executable, "-m", "epoxy", "worker", "run", "arena", "--url"]
    return [subprocess.Popen([*command, url], cwd=FOLDER, env={**os.environ, **token}) for url in nodes.values()]


def stop_workers(workers: list[subprocess.Popen[bytes]]) -> None:
    """Killed, not drained: the load is over, and the state is where it was."""
    for worker in workers:
        worker.kill()
        worker.wait()


async def play(
    nodes: dict[str, str], workers: list[subprocess.Popen[bytes]], given: argparse.Namespace
) -> dict[str, Any]:
    clients = [AsyncClient(url, timeout=40.0) for url in nodes.values()]
    run = f"{os.getpid()}-{random.getrandbits(24):x}"
    players = [
        Player(f"{run}-{room}", f"player-{seat}", clients[(room + seat) % len(clients)])
        for room in range(given.rooms)
        for seat in range(given.players)
    ]
    killed: subprocess.Popen[bytes] | None = None
    try:
        for seat in range(given.players):  # the arenas are made, each in its first player's region
            await in_batches([player.step() for player in players[seat :: given.players]])
        began = time.monotonic()
        until = began + given.seconds
        playing = asyncio.gather(*(player.play(until) for player in players))
        if given.kill:
            await asyncio.sleep(given.seconds / 2)
            killed = workers[0]
            killed.kill()
            workers[0] = start_workers(dict([next(iter(nodes.items()))]))[0]
        await playing
        seconds = time.monotonic() - began
        shown = await in_batches([look(clients, arena) for arena in dict.fromkeys(p.arena for p in players)])
    finally:
        for client in clients:
            await client.aclose()
    return report(players, shown, seconds, given) | {"killed": killed.pid if killed else None}


async def look(clients: list[AsyncClient], arena: str) -> dict[str, Any]:
    answer = await clients[0].actors.fetch(Which(name=ACTOR, key=arena), method="GET", pool=POOL)
    shown: dict[str, Any] = json.loads(answer.body)
    return shown


async def in_batches(asked: list[Any]) -> list[Any]:
    starts = range(0, len(asked), AT_ONCE)
    return [told for start in starts for told in await asyncio.gather(*asked[start : start + AT_ONCE])]


def report(
    players: list[Player], shown: list[dict[str, Any]], seconds: float, given: argparse.Namespace
) -> dict[str, Any]:
    moves = {(arena["arena"], name): row[3] for arena in shown for name, row in arena["players"].items()}
    lost = sum(max(0, p.acknowledged - moves.get((p.arena, p.name), 0)) for p in players)
    twice = sum(max(0, moves.get((p.arena, p.name), 0) - p.acknowledged) for p in players)
    latencies = sorted(each * 1000 for p in players for each in p.latencies[1:]) or [0.0]
    cuts = statistics.quantiles(latencies, n=100) if len(latencies) > 1 else latencies * 99
    played = len(latencies)
    return {
        "rooms": given.rooms,
        "players": len(players),
        "seconds": round(seconds, 2),
        "moves": played,
        "requests_per_second": round(played / seconds, 1),
        "latency_ms": {"p50": round(cuts[49], 1), "p99": round(cuts[98], 1), "max": round(latencies[-1], 1)},
        "sent_again": sum(p.again for p in players),
        "homes": dict(Counter(arena["home"] for arena in shown)),
        "starts": sum(arena["generation"] & 0xFFFFFFFF for arena in shown),
        "acknowledged": sum(p.acknowledged for p in players),
        "lost": lost,
        "counted_twice": twice,
        "coins": sum(row[2] for arena in shown for row in arena["players"].values()),
    }


def show(told: dict[str, Any]) -> str:
    latency = told["latency_ms"]
    homes = ", ".join(f"{count} in {home}" for home, count in sorted(told["homes"].items()))
    rows = [
        ("moves", f"{told['moves']:,} in {told['seconds']} s, {told['requests_per_second']:,} requests/s"),
        ("latency", f"p50 {latency['p50']} ms, p99 {latency['p99']} ms, longest {latency['max']} ms"),
        ("arenas", f"{told['rooms']}: {homes}"),
        ("starts", f"{told['starts']}; {told['sent_again']} requests were sent again"),
        ("checked", f"{told['acknowledged']:,} acknowledged moves: {told['lost']} lost, {told['counted_twice']} twice"),
    ]
    return "\n".join(f"  {name:<10}{text}" for name, text in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Many arenas as a load.", epilog="Exits with 1 if a move was lost.")
    parser.add_argument("--url", default=os.environ.get("EPOXY_URL", "http://127.0.0.1:7800"), help="of any region")
    parser.add_argument("--rooms", type=int, default=200, help="arenas [%(default)s]")
    parser.add_argument("--players", type=int, default=1, help="in each, from region to region [%(default)s]")
    parser.add_argument("--seconds", type=float, default=10.0, help="[%(default)s]")
    parser.add_argument("--kill", action="store_true", help="kill -9 the first region's worker half way")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    if given.rooms < 1 or given.players < 1 or given.seconds <= 0:
        parser.error("--rooms, --players and --seconds are at least one")
    try:
        nodes = regions(given.url)
    except EpoxyError as error:
        sys.exit(f"{error}. `epoxy demo` starts a cluster")
    workers = start_workers(nodes)
    try:
        told = asyncio.run(play(nodes, workers, given))
    except EpoxyError as error:
        sys.exit(f"the game was given up: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        stop_workers(workers)
    print(json.dumps(told, indent=2) if given.json else show(told))
    sys.exit(1 if told["lost"] or told["counted_twice"] else 0)


if __name__ == "__main__":
    main()
