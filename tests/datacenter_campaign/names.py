"""Names that several clients of the Redis protocol want at once, each by a connection of its own for every command: the
system chooses the process that serves it."""

import threading
from collections.abc import Mapping, Sequence
from typing import Self

import redis
from msgspec import Struct
from redis.backoff import NoBackoff
from redis.retry import Retry

from epoxy.testing.process_cluster import ClusterNode
from tests.datacenter_campaign.counters import DEFINITE, PACE_S, RETRY_S, TIMEOUT_S
from tests.end_to_end.crowd import Crowd

MAX_NAMES = 100_000


class Claim(Struct, frozen=True):
    """One `SET name value NX`, and what became of it: won, lost, refused or unknown."""

    name: str
    value: str
    outcome: str


class Names(Crowd):
    """While it is entered, each node has `clients`, who all go through the same names. What one of them has won is
    asked for on the next connection."""

    def __init__(self, nodes: Sequence[ClusterNode], *, clients: int) -> None:
        super().__init__()
        self._nodes = nodes
        self._clients = clients
        self._lock = threading.Lock()
        self.claims: list[Claim] = []
        self.findings: list[str] = []

    def __enter__(self) -> Self:
        for node in self._nodes:
            for number in range(self._clients):
                self._begin(self._claim, node, f"{node.name}/{number}")
        return self

    def _claim(self, node: ClusterNode, who: str) -> None:
        for step in range(MAX_NAMES):
            if self._over.wait(PACE_S):
                return
            claim = self._ask(node, f"claim/{step}", f"{who}/{step}")
            with self._lock:
                self.claims.append(claim)
            if claim.outcome == "won":
                self._check(node, claim)
            elif claim.outcome != "lost":
                self._over.wait(RETRY_S)

    def _ask(self, node: ClusterNode, name: str, value: str) -> Claim:
        try:
            with connected(node) as client:
                return Claim(name, value, "won" if client.set(name, value, nx=True) else "lost")
        except redis.RedisError as error:
            is_definite = str(error).startswith(DEFINITE) or "Error 111" in str(error)
            return Claim(name, value, "refused" if is_definite else "unknown")

    def _check(self, node: ClusterNode, claim: Claim) -> None:
        try:
            with connected(node) as client:
                client.execute_command("READCONSISTENT")
                found = client.get(claim.name)
        except redis.RedisError:
            return
        if found != claim.value.encode():
            self.findings.append(f"{claim.name} was won with {claim.value}, and then was {found!r}")

    def judge(self, node: ClusterNode) -> list[str]:
        """What is wrong, with the names as they are now."""
        with connected(node) as client:
            client.execute_command("READCONSISTENT")
            found = {name: client.get(name) for name in dict.fromkeys(each.name for each in self.claims)}
        return [*self.findings, *judge_names(self.claims, found)]


def connected(node: ClusterNode) -> "redis.Redis":
    never = Retry(NoBackoff(), 0)
    return redis.Redis("127.0.0.1", node.resp_port, socket_timeout=TIMEOUT_S, retry=never)


def judge_names(claims: Sequence[Claim], found: Mapping[str, bytes | None]) -> list[str]:
    """A name has one winner at most, and the winner's value; without one, that of a claim of unknown outcome. Who lost
    did so against somebody."""
    of_name: dict[str, list[Claim]] = {}
    for claim in claims:
        of_name.setdefault(claim.name, []).append(claim)
    wrong = []
    for name, mine in of_name.items():
        won = {each.value.encode() for each in mine if each.outcome == "won"}
        unknown = {each.value.encode() for each in mine if each.outcome == "unknown"}
        is_taken = any(each.outcome in ("won", "lost") for each in mine)
        may_be: set[bytes | None] = {*won} or {*unknown, *([] if is_taken else [None])}
        if len(won) > 1 or found[name] not in may_be:
            wrong.append(f"{name} is {found[name]!r}, after {mine}")
    return wrong
