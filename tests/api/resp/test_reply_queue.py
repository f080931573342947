"""The queue of replies: the order of commands, and keys that are busy until they are answered."""

from epoxy.api.resp.command import CommandSpec
from epoxy.api.resp.limits import READ_WEIGHT
from epoxy.api.resp.reply_queue import Busy, Promise
from epoxy.model.access import Access
from tests.api.resp.resp_world import (
    committed,
    run,
    until,
    world,
)


def test_an_operation_that_answers_twice_is_heard_once() -> None:
    async def story() -> None:
        async with world() as at:
            client = await at.connect()
            client.send("SET k v", "PING")
            await until(lambda: len(at.node.writes) == 1)
            at.node.writes[0][1](committed(b"v"))
            at.node.writes[0][1](committed(b"v"))
            await client.expect(b"+OK\r\n+PONG\r\n")
            await client.says("PING", b"+PONG\r\n")

    run(story)


def command(*, writes: bool, first_key: int = 1) -> CommandSpec:
    return CommandSpec(
        name="x",
        run=lambda _, __: None,
        arity=-1,
        summary="",
        group="",
        access=Access.WRITE if writes else Access.READ,
        first_key=first_key,
        last_key=-1,
    )


def test_keys_are_busy_until_every_command_that_names_them_is_answered() -> None:
    busy: Busy = {}
    filled: list[bytes] = []
    first, second = (
        Promise(command(writes=True), [b"X", *keys], busy, lambda _, reply: filled.append(reply))
        for keys in ([b"a", b"b"], [b"b"])
    )
    assert busy == {b"a": 1, b"b": 2}
    first.fill(b"1")
    assert busy == {b"b": 1}
    second.fill(b"2")
    second.fill(b"3")
    assert (busy, filled, second.reply) == ({}, [b"1", b"2"], b"2")


def test_a_read_from_another_region_weighs_more_than_its_arguments() -> None:
    def weight(spec: CommandSpec) -> int:
        return Promise(spec, [b"X", b"ab"], {}, lambda _, __: None).weight

    assert weight(command(writes=True)) == 3
    assert weight(command(writes=False)) == 3 + READ_WEIGHT
    assert weight(command(writes=False, first_key=0)) == 3
