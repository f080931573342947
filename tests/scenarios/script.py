"""The scenario language: command / ---- / output. See README.md beside this file for the commands."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus, first_epoch
from epoxy.model.instances import Command
from epoxy.model.quorum import QuorumPolicy
from epoxy.model.transactions import Txn
from epoxy.model.writes import Consistency, Write
from epoxy.node.keys.leases import end_of
from epoxy.protocol.keys.proposer import propose
from epoxy.protocol.keys.reader import read
from tests.scenarios import ordered_prose, prose
from tests.scenarios.carry_world import CarryWorld
from tests.scenarios.members_world import MembersWorld
from tests.scenarios.ordered_world import OrderedWorld
from tests.scenarios.table import ScenarioError, Table
from tests.scenarios.world import KEY

SEPARATOR = "----"
MAX_DELIVERIES = 1000
"""`run` stops here: the longest story needs a few dozen messages, so this one would never end."""


class Block(Struct, frozen=True, kw_only=True):
    """Comments, commands, and what they print. Without commands it is a block of comments alone."""

    comments: tuple[str, ...]
    commands: tuple[str, ...]
    output: tuple[str, ...]

    def __str__(self) -> str:
        said = (SEPARATOR, *self.output) if self.commands else ()
        return "".join(f"{line}\n" for line in (*self.comments, *self.commands, *said))


def parse(text: str) -> list[Block]:
    blocks = [parse_block(part) for part in re.split(r"\n\n+", text.strip("\n")) if part]
    if not any(block.commands for block in blocks):
        raise ScenarioError("a scenario without commands proves nothing")
    return blocks


def parse_block(text: str) -> Block:
    head, separator, output = text.partition(f"\n{SEPARATOR}")
    lines = head.splitlines()
    comments = tuple(line for line in lines if line.startswith("#"))
    commands = tuple(lines[len(comments) :])
    if tuple(lines[: len(comments)]) != comments:
        raise ScenarioError(f"comments stand above the commands: {head!r}")
    if bool(commands) != bool(separator):
        raise ScenarioError(f"commands and {SEPARATOR} belong together: {text!r}")
    return Block(comments=comments, commands=commands, output=tuple(output.strip("\n").splitlines()))


def play(blocks: list[Block]) -> list[Block]:
    """The same story with the output the engine gives today."""
    stage = Stage()
    return [
        Block(comments=block.comments, commands=block.commands, output=tuple(stage.lines_of(block.commands)))
        for block in blocks
    ]


def render(blocks: list[Block]) -> str:
    return "\n".join(str(block) for block in blocks)


def scenario_files() -> list[Path]:
    return sorted(Path(__file__).parent.glob("*.txt"))


class Stage:
    """Runs commands against a world and collects what happens, line by line."""

    def __init__(self) -> None:
        self._table: Table | None = None
        self._lines: list[str] = []
        self._commands: dict[str, Callable[..., None]] = {
            "cluster": self.cluster,
            "transactions": self.transactions,
            "txn": self.txn,
            "recover": self.recover,
            "members": self.members,
            "learned": self.learned,
            "voted": self.voted,
            "follow": self.follow,
            "joint": self.joint,
            "propose": self.propose,
            "put": self.put,
            "delete": self.delete,
            "lend": self.lend,
            "renew": self.renew,
            "end": self.end,
            "fold": self.fold,
            "carry": self.carry,
            "back": self.back,
            "read": self.read,
            "deliver": self.deliver,
            "drop": self.drop,
            "duplicate": self.duplicate,
            "run": self.run,
            "timer": self.timer,
            "crash": self.crash,
            "restart": self.restart,
            "state": self.state,
            "network": self.network,
        }

    def lines_of(self, commands: tuple[str, ...]) -> list[str]:
        self._lines = []
        for command in commands:
            self._do(command)
        return self._lines

    def _do(self, command: str) -> None:
        verb, *arguments = command.split()
        if verb not in self._commands:
            raise ScenarioError(f"unknown command: {command}")
        try:
            self._commands[verb](*arguments)
        except (TypeError, ValueError, KeyError) as error:
            raise ScenarioError(f"cannot do: {command} ({error})") from error

    @property
    def table(self) -> Table:
        if self._table is None:
            raise ScenarioError("a scenario begins with `cluster n=...`, `transactions n=...` or `members n=...`")
        return self._table

    @property
    def world(self) -> CarryWorld:
        """Of one key."""
        if not isinstance(self.table, CarryWorld):
            raise ScenarioError("only after `cluster`")
        return self.table

    def cluster(self, size: str, policy: str = "policy=optimal") -> None:
        config = self._begun(size, policy)
        self._table = CarryWorld(config, self._lines_append)

    def _begun(self, size: str, policy: str = "policy=optimal") -> ClusterConfig:
        n = int(size.removeprefix("n="))
        config = first_epoch(tuple(range(1, n + 1)), QuorumPolicy(policy.removeprefix("policy=")))
        q = config.quorums
        self._lines_append(f"replicas A to {prose.name(n)}, slow quorum {q.slow}, fast quorum {q.fast}")
        return config

    # Transactions

    def transactions(self, size: str, policy: str = "policy=optimal") -> None:
        self._table = OrderedWorld(self._begun(size, policy), self._lines_append)

    @property
    def ordered(self) -> OrderedWorld:
        if not isinstance(self.table, OrderedWorld):
            raise ScenarioError("only after `transactions`")
        return self.table

    def txn(self, who: str, *words: str) -> None:
        operations = tuple(map(ordered_prose.parse_operation, " ".join(words).split(",")))
        self.ordered.txn(self._replica(who), Command(txns=(Txn(then=operations),)))

    def recover(self, who: str, which: str) -> None:
        self.ordered.recover(self._replica(who), ordered_prose.parse_iid(which))

    # Members

    def members(self, size: str) -> None:
        """Voters, and one more who learns."""
        n = int(size.removeprefix("n="))
        voters = tuple(ReplicaInfo(id=i) for i in range(1, n + 1))
        learner = ReplicaInfo(id=n + 1, status=ReplicaStatus.LEARNING)
        config = ClusterConfig(epoch=2, coordinator_id=1, replicas=(*voters, learner))
        self._table = MembersWorld(config, self._lines_append)
        self._lines_append(
            f"voters A to {prose.name(n)}, slow quorum {config.quorums.slow}; {prose.name(n + 1)} learns"
        )

    @property
    def changing(self) -> MembersWorld:
        if not isinstance(self.table, MembersWorld):
            raise ScenarioError("only after `members`")
        return self.table

    def learned(self, replicas: str, key: str, value: str) -> None:
        self.changing.learned([self._replica(who) for who in replicas], key, value)

    def voted(self, proposer: str, replicas: str, key: str, value: str) -> None:
        self.changing.voted(self._replica(proposer), [self._replica(who) for who in replicas], key, value)

    def follow(self, who: str) -> None:
        self.changing.follow(self._replica(who))

    def joint(self, replicas: str) -> None:
        """From the voters to all: the learner becomes one of them."""
        before = self.changing.config
        members = tuple(ReplicaInfo(id=i) for i in before.replica_ids)
        config = ClusterConfig(epoch=before.epoch + 1, coordinator_id=1, replicas=members, previous=before.electorate)
        self.changing.adopt(config, [self._replica(who) for who in replicas])

    # One key

    def _lines_append(self, line: str) -> None:
        self._lines.append(line)

    def propose(self, who: str, value: str) -> None:
        self._write(who, Write(key=KEY, value=value.encode()))

    def put(self, who: str, value: str, condition: str | None = None) -> None:
        self._write(who, Write(key=KEY, value=value.encode(), mutable=True, if_version=if_version(condition)))

    def delete(self, who: str, condition: str | None = None) -> None:
        self._write(who, Write(key=KEY, value=None, mutable=True, if_version=if_version(condition)))

    def lend(self, who: str, value: str, ttl_ms: str) -> None:
        """With a time to live."""
        self._write(who, Write(key=KEY, value=value.encode(), mutable=True, if_absent=True, ttl_ms=int(ttl_ms)))

    def renew(self, who: str, ttl_ms: str, condition: str | None = None) -> None:
        expected = if_version(condition)
        self._write(who, Write(key=KEY, value=None, mutable=True, touch=True, ttl_ms=int(ttl_ms), if_version=expected))

    def end(self, who: str, version: str) -> None:
        """The count of this version has run out there."""
        self._write(who, end_of(KEY, int(version)))

    def _write(self, who: str, write: Write) -> None:
        self.world.start(self._replica(who), lambda ctx: propose(write, ctx))

    def fold(self, who: str, *words: str) -> None:
        self.world.fold(self._replica(who), parse_writes(words))

    def carry(self, link: str, *words: str) -> None:
        home, owner = link.split("->")
        self.world.carry(self._replica(home), self._replica(owner), parse_writes(words))

    def back(self, who: str) -> None:
        self.world.take_back(self._replica(who))

    def read(self, who: str, consistency: str) -> None:
        self.world.start(self._replica(who), lambda ctx: read(KEY, Consistency(consistency), ctx))

    def deliver(self, links: str, nth: str = "1") -> None:
        for sender, to in self._matching(links):
            self.table.deliver(sender, to, int(nth))

    def drop(self, links: str, nth: str = "1") -> None:
        for sender, to in self._matching(links):
            packet = self.table.take(sender, to, int(nth))
            self._lines_append(f"lost between {prose.name(sender)} and {prose.name(to)}: {packet}")

    def duplicate(self, links: str, nth: str = "1") -> None:
        for sender, to in self._matching(links):
            packet = self.table.duplicate(sender, to, int(nth))
            self._lines_append(f"twice from {prose.name(sender)} to {prose.name(to)}: {packet}")

    def run(self) -> None:
        """Everything in flight, oldest first on each link, links in order, until the network is quiet."""
        for _ in range(MAX_DELIVERIES):
            busy = self.table.busy_links()
            if not busy:
                return
            self.table.deliver(*busy[0], 1)
        raise ScenarioError(f"not quiet after {MAX_DELIVERIES} messages")

    def timer(self, who: str) -> None:
        self.table.ring(self._replica(who))

    def crash(self, who: str) -> None:
        self.table.crash(self._replica(who))

    def restart(self, who: str) -> None:
        self.table.restart(self._replica(who))

    def state(self) -> None:
        self.table.tell_state()

    def network(self) -> None:
        busy = self.table.busy_links()
        for sender, to in busy:
            for packet in self.table.links[sender, to]:
                self._lines_append(f"{prose.name(sender)}->{prose.name(to)}: {packet}")
        if not busy:
            self._lines_append("quiet")

    def _replica(self, who: str) -> int:
        replica_id = ord(who) - ord("A") + 1
        if replica_id not in self.table.names:
            raise ScenarioError(f"no replica {who}")
        return replica_id

    def _matching(self, links: str) -> list[tuple[int, int]]:
        """`A->B` is one link, `*` in place of a name every busy one."""
        sender, to = links.split("->")
        if "*" not in (sender, to):
            return [(self._replica(sender), self._replica(to))]
        busy = self.table.busy_links()
        found = [link for link in busy if self._fits(sender, link[0]) and self._fits(to, link[1])]
        if not found:
            raise ScenarioError(f"nothing in flight on {links}")
        return found

    def _fits(self, pattern: str, replica_id: int) -> bool:
        return pattern == "*" or self._replica(pattern) == replica_id


def if_version(condition: str | None) -> int | None:
    return None if condition is None else int(condition.removeprefix("if="))


def differences(path: Path) -> Iterator[str]:
    """What a scenario says and the engine does not, or the other way round."""
    told = parse(path.read_text("utf-8"))
    for said, done in zip(told, play(told), strict=True):
        if said != done:
            yield f"said:\n{said}\ndone:\n{done}"


def parse_writes(words: tuple[str, ...]) -> list[Write]:
    """`put x, put y if=2, add 1, delete, create z`."""
    return [parse_write(*part.split()) for part in " ".join(words).split(",")] if words else []


def parse_write(verb: str, *words: str) -> Write:
    values = [word for word in words if not word.startswith("if=")]
    conditions = [int(word.removeprefix("if=")) for word in words if word.startswith("if=")]
    if verb not in ("put", "create", "add", "delete") or len(values) != (verb != "delete") or len(conditions) > 1:
        raise ScenarioError(f"no write: {verb} {' '.join(words)}")
    return Write(
        key=KEY,
        value=values[0].encode() if verb in ("put", "create") else None,
        mutable=True,
        if_absent=verb == "create",
        if_version=conditions[0] if conditions else None,
        amount=int(values[0]) if verb == "add" else None,
    )
