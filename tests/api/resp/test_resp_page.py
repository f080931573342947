"""The examples of docs/protocol/resp.md are run on a cluster of three, in the order of the page."""

import asyncio
import re
from pathlib import Path

import pytest

from epoxy.api.resp.server import RespServer
from tests.api.resp.resp_world import FakeNode, Rope, cluster, run

PAGE = Path(__file__).parents[3] / "docs" / "protocol" / "resp.md"
PROMPT = re.compile(r"(78[0-2]1)> (.+)")


def examples(text: str) -> list[tuple[int, str, str]]:
    """Port, command, and what redis-cli shows."""
    found: list[tuple[int, str, str]] = []
    for block in re.findall(r"```redis\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            if prompt := PROMPT.fullmatch(line):
                found.append((int(prompt[1]), prompt[2], ""))
            else:
                port, command, shown = found[-1]
                found[-1] = port, command, f"{shown}\n{line}".lstrip("\n")
    return found


async def shown_by_redis_cli(client: Rope) -> str:
    line = await client.line()
    match line[0], line[1:]:
        case "+", text:
            return text
        case "-", text:
            return f"(error) {text}"
        case ":", number:
            return f"(integer) {number}"
        case "$" | "*", "-1":
            return "(nil)"
        case "$", size:
            return f'"{(await client.take(int(size) + 2)).decode()[:-2]}"'
        case "*", size:
            return "\n".join([f"{i}) {await shown_by_redis_cli(client)}" for i in range(1, int(size) + 1)])
        case other:
            raise AssertionError(other)


def test_the_page_has_examples_of_reserving_and_of_transactions() -> None:
    commands = [command for _, command, _ in examples(PAGE.read_text("utf-8"))]
    assert {"RESERVE user/ada eu-west-1", "EXEC"} <= set(commands)


def test_examples_are_what_a_cluster_replies() -> None:
    async def story() -> None:
        async with cluster(3) as (_, ports):
            clients = {
                7801 + 10 * i: Rope(*await asyncio.open_connection("127.0.0.1", port)) for i, port in enumerate(ports)
            }
            for port, command, expected in examples(PAGE.read_text("utf-8")):
                clients[port].send(command)
                assert (command, await shown_by_redis_cli(clients[port])) == (command, expected)
            for client in clients.values():
                client.writer.transport.abort()

    run(story)


ROW = re.compile(r"\| (`[A-Z_.`, ]+`) \| (yes|partly|refused|no) \|.*\|")


def commands_of_page(text: str) -> dict[str, str]:
    """What the table says about each command."""
    rows = [row for row in map(ROW.fullmatch, text.splitlines()) if row]
    named = [(name, row[2]) for row in rows for name in re.findall(r"`([A-Z_.]+)`", row[1])]
    assert len(named) == len(dict(named)), "a command has one row"
    return dict(named)


def test_the_table_of_commands_is_that_of_the_code() -> None:
    said = commands_of_page(PAGE.read_text("utf-8"))
    offered = {spec.name.upper() for spec in RespServer(FakeNode()).table.values()}
    assert {name for name, supported in said.items() if supported != "no"} == offered


def test_a_command_with_two_rows_is_seen() -> None:
    with pytest.raises(AssertionError):
        commands_of_page("| `GET` | yes | |\n| `SET`, `GET` | no | |")
