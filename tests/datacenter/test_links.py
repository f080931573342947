"""Links between nodes, over real sockets."""

from epoxy.datacenter.messages import ReadAsk
from epoxy.datacenter.ports import AnswerLost, NotSent
from epoxy.model.shards import ALL_SHARDS
from epoxy.model.writes import Committed, Consistency, ReadResult, Write
from tests.datacenter.nodes import HASTY, datacenter, node
from tests.transport.http.harness import run, until


def a_write(number: int = 0, size: int = 8) -> Write:
    return Write(key=b"key/%d" % number, value=b"v" * size, mutable=True)


def test_two_nodes_ask_each_other() -> None:
    async def test() -> None:
        async with datacenter(2) as (one, two):
            one.owners.owned = two.owners.owned = set(ALL_SHARDS)
            there, back = one.ask(2, a_write(1)), two.ask(1, a_write(2))
            assert isinstance(await there, Committed)
            assert isinstance(await back, Committed)
            assert two.served.asked == [a_write(1)]
            assert one.served.asked == [a_write(2)]
            found = await one.ask(2, ReadAsk(b"key/1", Consistency.LINEARIZABLE))
            assert isinstance(found, ReadResult)
            assert found.value == b"v" * 8

    run(test())


def test_what_was_sent_is_unknown_when_the_link_is_lost() -> None:
    async def test() -> None:
        async with datacenter(2, HASTY) as (one, two):
            two.owners.owned = set(ALL_SHARDS)
            two.served.holds_back = lambda _: True
            answer = one.ask(2, a_write(1))
            await until(lambda: len(two.served.asked) == 1)
            await two.links.stop()
            assert isinstance(await answer, AnswerLost)
            two.served.let_go()

    run(test())


def test_another_secret() -> None:
    async def test() -> None:
        async with node(1, limits=HASTY) as one, node(2, secret=b"another secret of some cluster") as two:
            one.links.set_sessions({2: two.url})
            assert isinstance(await one.ask(2, a_write()), NotSent)
            await until(lambda: "not signed with our secret" in one.links.trouble(2))

    run(test())
