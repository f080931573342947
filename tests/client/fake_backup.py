"""A fake node that makes a backup of given blocks."""

from typing import Any

import msgspec

from epoxy.backup.format import Kind, encode_block
from tests.client.fake import FakeNode, Handler

ID = "00000000000000aa"

STATE: dict[str, Any] = {
    "id": ID,
    "phase": "ready",
    "reason": "",
    "made_at": "2026-11-16T11:32:02+00:00",
    "replica": 1,
    "datacenter": "us-east-1",
    "epoch": 2,
    "members": [{"id": 1, "datacenter": "us-east-1", "url": "http://a:7800"}],
    "quorum_policy": "optimal",
    "version": "0.1.0",
    "cluster": "",
    "asked": [1],
    "compared": 2,
    "keys": 3,
    "written": 3,
    "bytes": 100,
    "missing": [],
}

BLOCKS = [
    encode_block(Kind.KEYS, [(b"a", b"1"), (b"b", b"2")]),
    encode_block(Kind.KEYS, [(b"c", b"3")]),
    encode_block(Kind.VALUES, [(b"b", b"7")]),
]


class FakeBackupNode(FakeNode):
    def __init__(self) -> None:
        super().__init__()
        self.states: list[dict[str, Any]] = [STATE]
        """Look after look; the last one stays."""
        self.blocks = list(BLOCKS)
        self.ended = 0

    def answer(self, request: Handler, path: str, query: dict[str, str]) -> None:
        if not path.startswith("/v2/admin/backups"):
            super().answer(request, path, query)
        elif request.command != "POST" and query.get("id") != ID:
            request.error(404, "no_such_backup")
        elif path.endswith("/blocks"):
            number = int(query["from"])
            if number < len(self.blocks):
                request.reply(200, self.blocks[number])
            else:
                request.reply(204)
        elif request.command == "DELETE":
            self.ended += 1
            request.reply(204)
        else:
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            status = 202 if request.command == "POST" else 200
            request.reply(status, msgspec.json.encode(state), "application/json")
