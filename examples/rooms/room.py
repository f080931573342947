"""A chat room is an actor: its history is in its state, and browsers in every region talk to it over WebSockets.

    epoxy worker run room --url http://127.0.0.1:7800

hosts rooms in the region of that node; `rooms.py` starts one of these for each region, and a page for browsers.

A line is shown to others, and to its author, when it is in the state, which is when a majority of the regions has it on
disk: what a browser has seen survives `kill -9` of the worker, of the node and of the region.
"""

import json
import time
from typing import Any
from urllib.parse import parse_qs

from epoxy.envoy import Actor, Request, Response, Socket, Worker

KEPT_LINES, LONGEST_TEXT, LONGEST_NAME = 100, 1000, 24
KEPT_PEOPLE = 20
FORGOTTEN_S = 24 * 3600.0
"""An empty room is destroyed after a day, by its alarm."""

EPOCH_BITS = 32

worker = Worker(pool="rooms", slots=1000)


@worker.actor("room", sleep_after=60.0)
class Room(Actor):
    """`state["lines"]`: the last ones, each with a number and the id its author's page gave it. `state["people"]`: who
    was here, and through which region. Who is here now is not in the state: those whose WebSockets are open."""

    async def on_start(self) -> None:
        self.state.setdefault("lines", [])
        self.state.setdefault("people", {})
        self.state.setdefault("said", 0)

    async def on_connect(self, socket: Socket) -> None:
        asked = parse_qs(socket.query)
        who = asked.get("name", [""])[0].strip()
        if not 0 < len(who) <= LONGEST_NAME:
            socket.close(4003, f"a name has 1 to {LONGEST_NAME} characters")
            return
        via, after = asked.get("via", [""])[0][:40], asked.get("after", ["0"])[0]
        socket.attachment = json.dumps({"who": who, "via": via}).encode()
        self.alarm(None)
        self._note(who, via)
        lines = [line for line in self.state["lines"] if line["n"] > int(after if after.isdecimal() else 0)]
        people = self._people(socket, *self._others(socket))
        socket.send(json.dumps(self._whereabouts() | people | {"type": "welcome", "lines": lines}))
        self._tell({"type": "people"} | people, self._others(socket))

    async def on_message(self, socket: Socket, message: str | bytes) -> None:
        try:
            given = json.loads(message)
            text, given_id = given["say"].strip(), given["id"]
        except (ValueError, KeyError, TypeError, AttributeError):
            socket.close(4003, 'a message is {"say": text, "id": id}')
            return
        if not isinstance(given_id, str) or not 0 < len(given_id) <= 64 or not 0 < len(text) <= LONGEST_TEXT:
            socket.send(json.dumps({"type": "sorry", "id": given_id, "why": f"1 to {LONGEST_TEXT} characters"}))
            return
        known = next((line for line in self.state["lines"] if line["id"] == given_id), None)
        if known is not None:
            socket.send(json.dumps({"type": "line", "line": known}))  # sent again after a reconnect: it was kept
        else:
            self._say(given_id, text, **about(socket))

    async def on_disconnect(self, socket: Socket) -> None:
        if not socket.attachment:
            return
        self._note(**about(socket))
        others = self._others(socket)
        self._tell({"type": "people"} | self._people(*others), others)
        if not others:
            self.alarm(time.time() + FORGOTTEN_S)

    async def on_request(self, request: Request) -> Response | dict[str, Any]:
        """Without a browser: GET shows the room, POST of `name: text` says something."""
        if request.method == "POST":
            who, _, text = (part.strip() for part in request.text.partition(":"))
            if not 0 < len(who) <= LONGEST_NAME or not 0 < len(text) <= LONGEST_TEXT:
                return Response("say it as `name: text`\n", status=400)
            self._say(request.idempotency_key or f"request-{self.state['said'] + 1}", text, who=who, via="")
        return self._whereabouts() | self._people(*self._others()) | {"lines": self.state["lines"]}

    async def on_alarm(self) -> None:
        if not self.sockets:
            self.destroy()

    def _say(self, line_id: str, text: str, *, who: str, via: str) -> None:
        self.state["said"] += 1
        line = {"n": self.state["said"], "id": line_id, "who": who, "text": text, "via": via, "at": now_ms()}
        lines = self.state["lines"]
        lines.append(line)
        del lines[:-KEPT_LINES]
        self._tell({"type": "line", "line": line}, self._others())

    def _note(self, who: str, via: str) -> None:
        people = self.state["people"]
        people.pop(who, None)
        people[who] = {"via": via, "seen": now_ms()}
        for name in [*people][:-KEPT_PEOPLE]:
            del people[name]

    def _whereabouts(self) -> dict[str, Any]:
        epoch, count = divmod(self.generation, 1 << EPOCH_BITS)
        return {
            "room": self.key,
            "home": self.datacenter,
            "generation": self.generation,
            "epoch": epoch,
            "count": count,
        }

    def _people(self, *sockets: Socket) -> dict[str, Any]:
        here = {each["who"]: each for each in map(about, sockets)}
        before = [{"who": who, **seen} for who, seen in self.state["people"].items() if who not in here]
        return {"here": list(here.values()), "before": before[::-1]}

    def _others(self, but: Socket | None = None) -> list[Socket]:
        return [socket for socket in self.sockets.values() if socket is not but and socket.attachment]

    def _tell(self, message: dict[str, Any], sockets: list[Socket]) -> None:
        text = json.dumps(message)
        for socket in sockets:
            socket.send(text)


def about(socket: Socket) -> dict[str, str]:
    described: dict[str, str] = json.loads(socket.attachment)
    return described


def now_ms() -> int:
    return int(time.time() * 1000)
