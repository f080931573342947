"""A cluster of one dict, for locks and sessions that renew by themselves: answers the calls of a client at once."""

import re
from collections.abc import Callable
from typing import Any

from epoxy.client.calls import Call
from epoxy.client.http1 import HttpResponse


class LeaseWorld:
    """Values never end by themselves here; a test deletes them."""

    def __init__(self) -> None:
        self.values: dict[str, tuple[bytes | None, int]] = {}
        self.asked: list[str] = []
        self.before: Callable[[str], None] = lambda _: None
        """Called with each request; may raise in its place."""

    def run(self, call: Call[Any]) -> Any:
        self.asked.append(call.method)
        self.before(call.method)
        name, _, query = call.target.partition("?")
        value, version = self.values.get(name, (None, 0))
        wanted = re.search(r"if_version=(\d+)", query)
        if wanted is not None and int(wanted[1]) != version:
            return self._answer(call, 409, value, version, {"epoxy-error": "version_mismatch"})
        if call.method == "PUT" and value is not None:
            return self._answer(call, 409, value, version, {"epoxy-error": "exists", "epoxy-ttl": "100"})
        if value is None and call.method != "PUT":
            return self._answer(call, 404, b"", version, {"epoxy-error": "not_found"})
        if call.method == "GET":
            return self._answer(call, 200, value, version)
        changed = {"PUT": call.body, "PATCH": value, "DELETE": None}[call.method]
        self.values[name] = (changed, version + 1)
        return self._answer(call, 200, b"", version + 1)

    async def run_async(self, call: Call[Any]) -> Any:
        return self.run(call)

    def _answer(
        self, call: Call[Any], status: int, body: bytes | None, version: int, headers: dict[str, str] | None = None
    ) -> Any:
        told = {"epoxy-version": str(version)} | (headers or {})
        return call.read(HttpResponse(status=status, headers=told, body=body or b""))
