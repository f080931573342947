"""A small game as an actor: players walk on a board and collect coins. `game.py` plays many of them as load.

epoxy worker run arena:worker
"""

import random
from typing import Any

from epoxy.envoy import Actor, Request, Response, Worker

SIDE, COINS = 12, 8
STEPS = {"north": (0, -1), "south": (0, 1), "west": (-1, 0), "east": (1, 0)}

worker = Worker(pool="game")


@worker.actor("arena", sleep_after=30.0)
class Arena(Actor):
    """`state["players"]`: the place, the score and the moves of each. A move is answered when it is in the state."""

    async def on_start(self) -> None:
        self.state.setdefault("players", {})
        if "coins" not in self.state:
            self.state["coins"] = [anywhere() for _ in range(COINS)]

    async def on_request(self, request: Request) -> Response | dict[str, Any]:
        if request.method == "GET":
            return self._shown()
        asked = request.json()
        step = STEPS.get(asked.get("step"))
        if step is None:
            return Response(f"a step is one of {', '.join(STEPS)}\n", status=400)
        name, players = str(asked["player"]), self.state["players"]
        x, y, score, moves = players.get(name, [SIDE // 2, SIDE // 2, 0, 0])
        place = [min(max(x + step[0], 0), SIDE - 1), min(max(y + step[1], 0), SIDE - 1)]
        if place in self.state["coins"]:
            self.state["coins"] = [*(coin for coin in self.state["coins"] if coin != place), anywhere()]
            score += 1
        self.state["players"] = players | {name: [*place, score, moves + 1]}
        return {"place": place, "score": score, "moves": moves + 1, "home": self.datacenter}

    def _shown(self) -> dict[str, Any]:
        return {
            "arena": self.key,
            "home": self.datacenter,
            "generation": self.generation,
            "coins": self.state["coins"],
            "players": self.state["players"],
        }


def anywhere() -> list[int]:
    return [random.randrange(SIDE), random.randrange(SIDE)]
