"""One command to an agent, over a socket of its own."""

import secrets
import socket
import time
from collections.abc import Callable
from typing import TypeVar

import click

from epoxy.agent.connection import ReplyReader
from epoxy.agent.redis import Reply, ServerError, encode
from epoxy.model.errors import CodecError
from epoxy.protocol.elect.operator_orders import NONCE_BYTES, Addressee, OperatorOrder, proof_of
from epoxy.transport.peers.auth import wall_ms

TIMEOUT_S = 3.0
POLL_S = 0.1

T = TypeVar("T")


def ask(agents: list[str], words: list[str]) -> bytes:
    """The reply of the first agent that gives one."""
    return answered(agents, lambda _: words)[1]


def answered(agents: list[str], words_for: Callable[[str], list[str]]) -> tuple[str, bytes]:
    """The first agent that does not reply with an error, and its reply: only the primary's agent accepts a failover."""
    reasons = []
    for agent in agents:
        try:
            reply = question(agent, words_for(agent))
        except (OSError, ValueError, CodecError) as error:
            reply = ServerError(getattr(error, "strerror", None) or str(error))
        if isinstance(reply, bytes):
            return agent, reply
        reasons.append(f"{agent}: {reply}")
    raise click.ClickException("; ".join(reasons))


def order(agent: str, secret: bytes, cluster: str, act: str, target: str) -> list[str]:
    """A command that one agent, in its present life, carries out once."""
    told = question(agent, ["ELECT", "LIFE"])
    if not isinstance(told, bytes):
        raise ValueError(f"{told}: an agent of another release" if isinstance(told, ServerError) else "no agent")
    name, _, life = told.decode("utf-8", "replace").rpartition(" ")
    given = OperatorOrder(act=act, target=target, time_ms=wall_ms(), nonce=secrets.token_hex(NONCE_BYTES))
    proof = proof_of(secret, Addressee(cluster=cluster, agent=name, life=life), given)
    return ["ELECT", act.upper(), target, str(given.time_ms), given.nonce, proof]


def question(agent: str, words: list[str]) -> Reply:
    host, _, port = agent.rpartition(":")
    if not host or not port.isdecimal():
        raise ValueError("not HOST:PORT")
    reader = ReplyReader()
    with socket.create_connection((host.strip("[]"), int(port)), TIMEOUT_S) as link:
        link.sendall(encode(tuple(words)))
        while True:
            data = link.recv(65_536)
            if not data:
                raise OSError("closed the connection")
            if replies := reader.feed(data):
                return replies[0]


def wait_for(look: Callable[[], T], enough: Callable[[T], bool], wait_s: float) -> T:
    deadline_s = time.monotonic() + wait_s
    seen = look()
    while not enough(seen) and time.monotonic() < deadline_s:
        time.sleep(POLL_S)
        seen = look()
    return seen
