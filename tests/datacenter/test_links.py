"""Links between nodes, over real sockets."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from epoxy.datacenter import link_ends, links
from epoxy.datacenter.link_ends import NodeDial, NodeFrames, NodeServer
from epoxy.datacenter.messages import LinkStates, NotOwner, ReadAsk, SessionOver, Unanswerable
from epoxy.datacenter.ports import Answered, AnswerLost, NeverSent, Serve
from epoxy.datacenter.routes import Routes
from epoxy.model.access import Access
from epoxy.model.records import MAX_VALUE_BYTES
from epoxy.model.shards import ALL_SHARDS
from epoxy.model.transactions import Executed, Get, Txn
from epoxy.model.writes import Committed, Consistency, Path, ReadResult, Refused, Write
from epoxy.runtime.clock import LoopClock
from epoxy.transport.peers.dial import Dial
from epoxy.transport.peers.keyring import Keyring, SigningKey
from tests.datacenter.nodes import HASTY, PATIENT, SECRET, NodeHere, datacenter, node, proposal_of
from tests.transport.http.harness import expect_report, run, until

EVERYTHING = set(ALL_SHARDS)


def a_write(number: int = 0, size: int = 8) -> Write:
    return Write(key=b"key/%d" % number, value=b"v" * size, mutable=True)


def a_read(number: int = 0) -> ReadAsk:
    return ReadAsk(b"key/%d" % number, Consistency.OPTIMISTIC)


def owns_all(*nodes: NodeHere) -> None:
    for each in nodes:
        each.owners.owned = set(EVERYTHING)


def both_ways() -> Coroutine[Any, Any, None]:
    async def test() -> None:
        async with datacenter(2) as (one, two):
            owns_all(one, two)
            there, back = one.ask(2, a_write(1)), two.ask(1, a_write(2))
            assert isinstance(await there, Committed)
            assert isinstance(await back, Committed)
            assert two.served.asked == [a_write(1)]
            assert one.served.asked == [a_write(2)]
            found = await one.ask(2, a_read(1))
            assert isinstance(found, ReadResult)
            assert found.value == b"v" * 8
            assert isinstance(await one.ask(2, Txn(then=(Get(key=b"k"),))), Executed)

    return test()


def test_two_nodes_ask_each_other() -> None:
    run(both_ways())


def test_three_nodes_ask_each_other_by_their_tables() -> None:
    async def test() -> None:
        async with datacenter(3) as nodes:
            for each in nodes:
                each.owners.owned = {shard for shard in ALL_SHARDS if shard % 3 + 1 == each.session}
                each.owners.owners = {shard: shard % 3 + 1 for shard in ALL_SHARDS}
            writes = [a_write(number) for number in range(60)]
            outcomes = await asyncio.gather(*[each.write(write) for write in writes for each in nodes])
            assert all(isinstance(outcome, Committed) for outcome in outcomes)
            for each in nodes:
                assert each.served.asked
                assert all(each.routes.is_mine(write.key) for write in each.served.asked)
            assert sum(len(each.served.asked) for each in nodes) == 180

    run(test())


@pytest.mark.pure("it replaces a function of a compiled module")
def test_questions_of_one_turn_leave_in_one_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    frames: list[int] = []
    original = NodeFrames.frame

    def counted(self: NodeFrames, pieces: Any) -> bytes:
        frames.append(len(pieces))
        return original(self, pieces)

    async def test() -> None:
        async with datacenter(2) as (one, two):
            owns_all(two)
            await one.ask(2, a_write())
            monkeypatch.setattr(NodeFrames, "frame", counted)
            await asyncio.gather(*[one.ask(2, a_write(number)) for number in range(100)])
            assert frames.count(100) == 2, "a frame with all questions, and one with all answers"

    run(test())


def test_a_long_queue_leaves_in_several_frames() -> None:
    async def test() -> None:
        async with datacenter(2) as (one, two):
            owns_all(two)
            answers = [one.ask(2, a_write(number, MAX_VALUE_BYTES)) for number in range(12)]
            assert all(isinstance(answer, Committed) for answer in await asyncio.gather(*answers))
            found = await asyncio.gather(*[one.ask(2, a_read(number)) for number in range(12)])
            assert all(isinstance(each, ReadResult) and each.value == b"v" * MAX_VALUE_BYTES for each in found)

    run(test())


def slow_answers(patience_s: float = 5.0) -> Coroutine[Any, Any, None]:
    async def test() -> None:
        async with datacenter(2) as (one, two):
            owns_all(two)
            two.served.holds_back = lambda question: isinstance(question, Write)
            first, second = one.ask(2, a_write(1)), one.ask(2, a_write(2))
            async with asyncio.timeout(patience_s):
                assert isinstance(await one.ask(2, a_read(1)), ReadResult)
            assert not first.done()
            assert not second.done()
            two.served.let_go(1)
            async with asyncio.timeout(patience_s):
                assert (await second).proposal == proposal_of(a_write(2), 2)
            assert not first.done()
            two.served.let_go()
            assert (await first).proposal == proposal_of(a_write(1), 1)

    return test()


def test_a_slow_answer_holds_up_no_other() -> None:
    run(slow_answers())


def test_what_is_told_is_not_answered() -> None:
    async def test() -> None:
        async with datacenter(2) as (one, two):
            one.links.tell(2, SessionOver(b"s" * 16))
            await until(lambda: two.served.over == [b"s" * 16])
            one.links.tell(99, SessionOver(b"s" * 16))

    run(test())


def test_what_a_node_does_not_serve() -> None:
    async def test() -> None:
        async with datacenter(2) as (one, _):
            answer = await one.ask(2, LinkStates(()))
            assert answer == Unanswerable("this node does not serve LinkStates")

    run(test())


def test_a_handler_that_fails_is_reported_and_the_link_goes_on() -> None:
    async def test() -> None:
        async with datacenter(2) as (one, two):
            owns_all(two)
            reports: list[BaseException] = []
            expect_report(reports)

            def broken(_: int, __: SessionOver, answered: Callable[[Any], None]) -> None:
                answered(NotOwner())
                raise ValueError("a bug after the answer")

            two.links.serve(SessionOver, broken)
            assert await one.ask(2, SessionOver(b"s" * 16)) == NotOwner()
            two.served.holds_back = lambda _: 1 // 0 == 0
            assert isinstance(await one.ask(2, a_write()), Unanswerable)
            two.served.holds_back = lambda _: False
            assert isinstance(await one.ask(2, a_write()), Committed)
            assert [type(report) for report in reports] == [ValueError, ZeroDivisionError]

    run(test())


def test_a_callback_that_fails_is_reported_and_the_link_goes_on() -> None:
    async def test() -> None:
        async with datacenter(2) as (one, two):
            owns_all(two)
            reports: list[BaseException] = []
            expect_report(reports)

            def broken(_: Any) -> None:
                raise ValueError("a bug")

            one.links.ask(2, a_write(1), broken)
            assert isinstance(await one.ask(2, a_write(2)), Committed)
            assert [type(report) for report in reports] == [ValueError]

    run(test())


# Losses.


def lost_in_mid_request() -> Coroutine[Any, Any, None]:
    async def test() -> None:
        async with datacenter(2) as (one, two):
            one.owners.owners = dict.fromkeys(ALL_SHARDS, 2)
            owns_all(two)
            two.served.holds_back = lambda _: True
            answer = one.ask(2, a_write(1))
            routed = one.write(a_write(2))
            await until(lambda: len(two.served.asked) == 2)
            await two.links.stop()
            assert isinstance(await answer, AnswerLost)
            assert not isinstance(await routed, Refused), "it may take effect"
            two.served.let_go()

    return test()


def test_what_was_sent_is_unknown_when_the_link_is_lost() -> None:
    run(lost_in_mid_request())


def test_what_was_not_sent_is_refused() -> None:
    async def test() -> None:
        async with node(1) as one, node(2) as two:
            url = two.url
            two.server.listener.close()
            one.owners.owners = dict.fromkeys(ALL_SHARDS, 2)
            one.links.set_sessions({2: url})
            assert isinstance(await one.write(a_write(1)), Refused)
            assert not one.links.is_up(2)
            assert one.links.trouble(2)
            assert isinstance(await one.ask(2, a_write(2)), NeverSent)
            assert isinstance(await one.ask(3, a_write(2)), NeverSent)
            assert "not among" in one.links.trouble(3)

    run(test())


def test_a_question_waits_for_the_first_connection() -> None:
    async def test() -> None:
        async with datacenter(2) as (one, two):
            owns_all(two)
            assert not one.links.is_up(2)
            assert isinstance(await one.ask(2, a_write()), Committed)
            assert one.links.is_up(2)
            assert one.links.trouble(2) == ""

    run(test())


@pytest.mark.pure("it replaces a function of a compiled module")
def test_a_handshake_that_ends_after_it_was_given_up_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer was in the socket when the time of connecting was over, as after a pause of this process."""
    ended: list[str] = []
    original, end = NodeDial._finish_handshake, NodeDial.end

    def late(dial: NodeDial, data: bytes) -> bytes:
        if not dial.opened.done():
            dial.opened.cancel()
        return original(dial, data)

    def note_end(dial: NodeDial, why: str) -> None:
        ended.append(why)
        end(dial, why)

    async def test() -> None:
        async with node(1) as one, node(2) as two:
            monkeypatch.setattr(NodeDial, "_finish_handshake", late)
            monkeypatch.setattr(NodeDial, "end", note_end)
            one.links.set_sessions({2: two.url})
            await until(lambda: "answered too late" in ended)
            assert not one.links.is_up(2)

    run(test())


@pytest.mark.pure("it replaces a function of a compiled module")
def test_a_question_that_finds_no_connection_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        hasty = msgspec.structs.replace(PATIENT, tick_ms=20, queue_ms=50)
        async with node(1, limits=hasty) as one, node(2) as two:
            monkeypatch.setattr(NodeDial, "_finish_handshake", lambda *_: b"")  # It never opens, and never fails.
            one.links.set_sessions({2: two.url})
            assert await one.ask(2, a_write()) == NeverSent(links.NO_LINK, unreachable=True)

    run(test())


def test_a_link_comes_back_by_itself() -> None:
    async def test() -> None:
        async with node(1) as one:
            async with node(2) as two:
                owns_all(two)
                one.links.set_sessions({2: two.url})
                assert isinstance(await one.ask(2, a_write()), Committed)
                port = two.server.port
            await until(lambda: one.links.trouble(2) != "")
            async with node(2, port=port) as two:
                owns_all(two)
                await until(lambda: one.links.is_up(2))
                assert isinstance(await one.ask(2, a_write()), Committed)

    run(test())


def ended_under_it() -> Coroutine[Any, Any, None]:
    async def test() -> None:
        async with datacenter(2) as (one, two):
            owns_all(two)
            await one.ask(2, a_write())
            link = one.links._links[2]
            await until(lambda: len(link._dials) == 2)
            first, second = link._dials
            first.connection_lost(None)
            second.abort()
            assert not link.is_up, "neither takes a question, though both were open a moment ago"
            assert isinstance(await one.ask(2, a_write()), Committed), "it waited for the next connection"

    return test()


def test_a_connection_that_has_just_ended_takes_no_question() -> None:
    run(ended_under_it())


@pytest.mark.pure("it replaces a function of a compiled module")
def test_a_node_that_is_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with node(1, limits=HASTY) as one, node(2) as two:
            owns_all(two)
            one.links.set_sessions({2: two.url})
            assert isinstance(await one.ask(2, a_write()), Committed)
            monkeypatch.setattr(NodeServer, "_send", lambda *_: None)
            assert isinstance(await one.ask(2, a_write()), AnswerLost)

    run(test())


@pytest.mark.pure("it replaces a function of a compiled module")
def test_a_node_that_asks_nothing_and_sends_no_beat_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with node(1) as one, node(2, limits=msgspec.structs.replace(PATIENT, tick_ms=20, idle_ms=100)) as two:
            monkeypatch.setattr(NodeDial, "beat", lambda _: None)
            one.links.set_sessions({2: two.url})
            (link,) = one.links._links.values()
            await until(lambda: link._connections.lost > 0)

    run(test())


def test_a_question_that_is_never_answered_is_given_up_alone() -> None:
    async def test() -> None:
        impatient = msgspec.structs.replace(PATIENT, tick_ms=20, answer_ms=50)
        async with node(1, limits=impatient) as one, node(2) as two:
            owns_all(two)
            one.links.set_sessions({2: two.url})
            two.served.holds_back = lambda question: isinstance(question, Write)
            assert await one.ask(2, a_write()) == AnswerLost("no answer in time")
            two.served.let_go()
            assert isinstance(await one.ask(2, a_read()), ReadResult)
            (link,) = one.links._links.values()
            assert link._connections.lost == 0

    run(test())


def test_a_session_that_is_over_is_not_asked_any_more() -> None:
    async def test() -> None:
        async with datacenter(2) as (one, two):
            owns_all(two)
            two.served.holds_back = lambda _: True
            answer = one.ask(2, a_write())
            await until(lambda: len(two.served.asked) == 1)
            one.links.set_sessions({1: one.url})
            assert list(one.links.sessions) == []
            assert isinstance(await answer, AnswerLost)
            assert isinstance(await one.ask(2, a_write()), NeverSent)

    run(test())


def test_a_session_that_moved_is_dialled_anew() -> None:
    async def test() -> None:
        async with node(1) as one, node(2) as two, node(2) as moved:
            owns_all(two, moved)
            one.links.set_sessions({2: two.url})
            await one.ask(2, a_write(1))
            one.links.set_sessions({2: moved.url})
            await one.ask(2, a_write(2))
            assert moved.served.asked == [a_write(2)]

    run(test())


def test_an_address_that_is_none_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with node(1) as one:
            one.links.set_sessions({2: "ftp://somewhere", 3: "https://somewhere"})
            assert list(one.links.sessions) == []
            assert isinstance(await one.ask(2, a_write()), NeverSent)

    with caplog.at_level(logging.ERROR, "epoxy.nodes"):
        run(test())
    assert "no address of a peer" in caplog.text
    assert "wants TLS" in caplog.text


def test_a_node_that_stops_answers_what_waits() -> None:
    async def test() -> None:
        async with node(1) as one, node(2) as two:
            one.links.set_sessions({2: two.url})
            unsent = one.ask(2, a_write())
            await one.links.stop()
            assert isinstance(await unsent, NeverSent)
            one.links.set_sessions({2: two.url})
            assert isinstance(await one.ask(2, a_write()), NeverSent)

    run(test())


# Limits.


def test_only_so_many_questions_are_pending() -> None:
    async def test() -> None:
        few = msgspec.structs.replace(PATIENT, pending_questions=3)
        async with node(1, limits=few) as one, node(2) as two:
            owns_all(two)
            two.served.holds_back = lambda _: True
            one.links.set_sessions({2: two.url})
            first = one.ask(2, a_write(1))
            await until(lambda: len(two.served.asked) == 1)
            others = [one.ask(2, a_write(2)), one.ask(2, a_write(3))]
            assert await one.ask(2, a_write(4)) == NeverSent(links.FULL)
            await until(lambda: len(two.served.asked) == 3)
            assert await one.ask(2, a_write(4)) == NeverSent(links.FULL)
            two.served.let_go()
            assert isinstance(await first, Committed)
            fifth = one.ask(2, a_write(5))
            await until(lambda: len(two.served.asked) == 4)
            for _ in range(3):
                two.served.let_go()
            assert all(isinstance(each, Committed) for each in await asyncio.gather(fifth, *others))

    run(test())


def test_only_so_many_bytes_are_pending() -> None:
    async def test() -> None:
        few = msgspec.structs.replace(PATIENT, pending_bytes=1000)
        async with node(1, limits=few) as one, node(2) as two:
            owns_all(two)
            two.served.holds_back = lambda _: True
            one.links.set_sessions({2: two.url})
            first = one.ask(2, a_write(1, 2000))
            assert await one.ask(2, a_write(2)) == NeverSent(links.FULL)
            await until(lambda: len(two.served.asked) == 1)
            assert await one.ask(2, a_write(2)) == NeverSent(links.FULL)
            two.served.let_go()
            await first
            again = one.ask(2, a_write(2))
            await until(lambda: len(two.served.asked) == 2)
            two.served.let_go()
            assert isinstance(await again, Committed)

    run(test())


def test_a_node_that_asks_beyond_the_limit_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with node(1) as one, node(2, limits=msgspec.structs.replace(PATIENT, pending_questions=2)) as two:
            owns_all(two)
            two.served.holds_back = lambda _: True
            one.links.set_sessions({2: two.url})
            answers = await asyncio.gather(*[one.ask(2, a_write(number)) for number in range(3)])
            assert all(isinstance(answer, AnswerLost) for answer in answers)

    run(test())
    assert "more than 2 questions at a time" in caplog.text


def test_a_node_that_does_not_read_its_answers_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        stingy = msgspec.structs.replace(PATIENT, unsent_answer_bytes=1 << 20)
        async with node(1) as one, node(2, limits=stingy) as two:
            owns_all(two)
            one.links.set_sessions({2: two.url})
            await one.ask(2, a_write(1, MAX_VALUE_BYTES))
            for dial in (link := one.links._links[2])._dials:
                assert dial._transport is not None
                dial._transport.pause_reading()
            answers = [one.ask(2, a_read(1)) for _ in range(32)]
            await until(lambda: "does not read its answers" in caplog.text)
            for dial in tuple(link._dials):
                dial.abort()
            assert any(isinstance(answer, AnswerLost) for answer in await asyncio.gather(*answers))

    run(test())


def test_messages_that_do_not_fit() -> None:
    async def test() -> None:
        async with datacenter(2) as (one, two):
            owns_all(two)
            beyond = Write(key=b"k", value=b"v", mutable=True, if_version=1 << 64)
            assert isinstance(await one.ask(2, beyond), NeverSent)
            long = tuple([b"v" * MAX_VALUE_BYTES] * 5)
            done = Committed(proposal=proposal_of(a_write(), 1), mine=True, path=Path.FAST, replies=long)
            two.links.serve(Write, lambda _, __, answered: answered(done))
            answer = await one.ask(2, a_write())
            assert isinstance(answer, Unanswerable)
            assert "above the" in answer.reason

    run(test())


# Who is heard.


def test_another_secret() -> None:
    async def test() -> None:
        async with node(1) as one, node(2, secret=b"another secret of some cluster") as two:
            one.links.set_sessions({2: two.url})
            assert isinstance(await one.ask(2, a_write()), NeverSent)
            await until(lambda: "not signed with our secret" in one.links.trouble(2))

    run(test())


def test_another_datacenter_with_the_same_secret() -> None:
    async def test() -> None:
        async with node(1) as one, node(2, replica=4) as two:
            one.links.set_sessions({2: two.url})
            assert isinstance(await one.ask(2, a_write()), NeverSent)
            await until(lambda: "the other nodes of replica 4" in one.links.trouble(2))

    run(test())


def test_a_server_of_another_datacenter_is_refused_by_the_node_that_dials() -> None:
    async def test() -> None:
        async with node(1) as one, node(2, replica=4) as two:
            two.links._replica = 3  # It does not look, and says who it is.
            one.links.set_sessions({2: two.url})
            assert isinstance(await one.ask(2, a_write()), NeverSent)
            await until(lambda: "a node of another datacenter" in one.links.trouble(2))

    run(test())


def test_the_session_after_it_refuses_what_is_meant_for_one() -> None:
    async def test() -> None:
        async with node(1) as one, node(5) as later:
            one.links.set_sessions({2: later.url})
            assert isinstance(await one.ask(2, a_write()), NeverSent)
            await until(lambda: "meant for replica" in one.links.trouble(2))
            assert later.served.asked == []

    run(test())


@pytest.mark.parametrize("other", [b"epoxy-nodes/2", b""])
@pytest.mark.pure("it replaces a function of a compiled module")
def test_a_server_refuses_another_version(other: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with node(1) as one, node(2) as two:
            monkeypatch.setattr(link_ends, "PROTOCOL", other)
            one.links.set_sessions({2: two.url})
            assert isinstance(await one.ask(2, a_write()), NeverSent)
            words = f"speaks epoxy-nodes/1, and {other.decode()!r} was asked for; both nodes need the same release"
            await until(lambda: words in one.links.trouble(2))

    run(test())


def test_the_node_that_dials_refuses_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with node(1) as one, node(2) as two:
            headers = NodeServer.handshake_headers
            monkeypatch.setattr(
                NodeServer, "handshake_headers", lambda self: ((b"upgrade", b"epoxy-nodes/2"), headers(self)[1])
            )
            one.links.set_sessions({2: two.url})
            assert isinstance(await one.ask(2, a_write()), NeverSent)
            words = "speaks 'epoxy-nodes/2', and this node epoxy-nodes/1; both nodes need the same release"
            await until(lambda: words in one.links.trouble(2))

    run(test())


def test_a_connection_without_a_signature() -> None:
    async def test() -> None:
        async with node(2) as two:
            head = b"GET /v2/epoxy/nodes HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: epoxy-nodes/1\r\n\r\n"
            assert (await two.server.ask(head)).startswith(b"HTTP/1.1 401 ")

    run(test())


def test_bytes_that_are_no_frame_end_the_connection(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with datacenter(2) as (one, two):
            owns_all(two)
            two.served.holds_back = lambda question: isinstance(question, Write)
            answer = one.ask(2, a_write())
            await until(lambda: len(two.served.asked) == 1)
            for dial in one.links._links[2]._dials:
                assert dial._transport is not None
                dial._transport.write((40).to_bytes(4, "little") + b"x" * 40)
            assert isinstance(await answer, AnswerLost)
            await until(lambda: one.links.is_up(2))
            assert isinstance(await one.ask(2, a_read()), ReadResult)

    run(test())
    assert "not sealed for its place" in caplog.text


def test_a_secret_is_replaced_while_questions_are_under_way() -> None:
    async def test() -> None:
        old, new = SigningKey(SECRET), SigningKey(b"a new secret of the whole cluster")
        rings = [Keyring(old), Keyring(SigningKey(SECRET))]
        quick = msgspec.structs.replace(PATIENT, tick_ms=20)
        async with node(1, secret=rings[0], limits=quick) as one, node(2, secret=rings[1], limits=quick) as two:
            owns_all(two)
            one.links.set_sessions({2: two.url})

            async def ask_some() -> None:
                for number in range(20):
                    assert isinstance(await one.ask(2, a_write(number)), Committed)
                    await asyncio.sleep(0.01)

            await ask_some()
            for keys in ((old, new), (new, old), (new,)):
                for ring in rings:
                    ring.replace([SigningKey(key.secret) for key in keys])
                    await ask_some()
            assert {dial.key.secret for dial in one.links._links[2]._dials if dial.key} == {new.secret}

    run(test())


def test_senders_that_are_gone_are_forgotten() -> None:
    """Sessions get new numbers, and the nonces of only so many senders are remembered."""

    async def test() -> None:
        async with node(1) as one:
            for session in range(2, 12):
                async with node(session) as other:
                    one.links.set_sessions({session: other.url})
                    other.links.set_sessions({1: one.url})
                    owns_all(one)
                    assert isinstance(await other.ask(1, a_write()), Committed)
            assert len(one.links._verifier._seen) == 1

    run(test())


def test_the_route_is_for_peers() -> None:
    async def test() -> None:
        async with node(1) as one:
            (route,) = one.links.routes()
            assert (route.method, route.path, route.access, route.signed) == (
                "GET",
                "/v2/epoxy/nodes",
                Access.PEER,
                True,
            )

    run(test())


# Tables that differ.


def counted(handler: Serve[Write], asked: list[int]) -> Serve[Write]:
    def count(sender: int, write: Write, answered: Answered) -> None:
        asked.append(sender)
        handler(sender, write, answered)

    return count


def circles() -> Coroutine[Any, Any, None]:
    async def test() -> None:
        async with datacenter(2) as (one, two):
            clock = LoopClock(asyncio.get_running_loop())
            one.routes = Routes(one.owners, one.links, one.served, clock, patience_ms=100)
            two.routes = Routes(two.owners, two.links, two.served, clock, patience_ms=100)
            one.owners.owners, two.owners.owners = dict.fromkeys(ALL_SHARDS, 2), dict.fromkeys(ALL_SHARDS, 1)
            asked: list[int] = []
            for each in (one, two):
                each.links.serve(Write, counted(each.links._handlers[Write], asked))
            async with asyncio.timeout(5):
                assert isinstance(await one.write(a_write()), Refused)
            assert len(asked) <= 2
            assert one.served.asked == two.served.asked == []

    return test()


def test_two_nodes_with_different_tables_send_nothing_in_circles() -> None:
    run(circles())


def test_a_shard_that_is_handed_over_under_load_loses_no_request() -> None:
    async def test() -> None:
        async with datacenter(3) as (one, two, three):
            for each in (one, two, three):
                each.owners.owners = dict.fromkeys(ALL_SHARDS, 2)
            owns_all(two)
            answers = [one.write(a_write(number)) for number in range(50)]
            await asyncio.gather(*answers)
            two.owners.owned.clear()  # It does not serve them any more, and the tables do not say so yet.
            answers = [each.write(a_write(number)) for number in range(50) for each in (one, two, three)]
            await until(lambda: one.routes.waiting + two.routes.waiting + three.routes.waiting == 150)
            owns_all(three)
            for each in (two, one, three):
                each.owners.owners = dict.fromkeys(ALL_SHARDS, 3)
                each.routes.table_changed()
            assert all(isinstance(outcome, Committed) for outcome in await asyncio.gather(*answers))
            assert len(three.served.asked) == 150
            assert len(two.served.asked) == 50

    run(test())


# Planted faults.

SOON_S = 0.5
"""For what never comes."""


def accepts_an_answer_of_another_number(monkeypatch: pytest.MonkeyPatch) -> Coroutine[Any, Any, None]:
    original = NodeDial._answered

    def first(self: NodeDial, _: int, answer: Any) -> None:
        original(self, next(iter(self._asked)), answer)

    monkeypatch.setattr(NodeDial, "_answered", first)
    return slow_answers(SOON_S)


def answers_in_the_order_of_questions(monkeypatch: pytest.MonkeyPatch) -> Coroutine[Any, Any, None]:
    """Head-of-line blocking: an answer waits for those before it."""
    original = NodeServer._answer
    ready: dict[int, Any] = {}

    def in_order(self: NodeServer, number: int, answer: Any) -> None:
        ready[number] = answer
        while self._open and (oldest := min(self._open)) in ready:
            original(self, oldest, ready.pop(oldest))

    monkeypatch.setattr(NodeServer, "_answer", in_order)
    return slow_answers(SOON_S)


def a_lost_answer_is_told_as_not_sent(monkeypatch: pytest.MonkeyPatch) -> Coroutine[Any, Any, None]:
    monkeypatch.setattr(link_ends, "AnswerLost", NeverSent)
    return lost_in_mid_request()


def passes_on_what_it_does_not_own(monkeypatch: pytest.MonkeyPatch) -> Coroutine[Any, Any, None]:
    monkeypatch.setattr(Routes, "_serve_write", lambda self, _, write, answered: self.write(write, answered))
    return circles()


def gives_questions_to_a_connection_that_has_ended(monkeypatch: pytest.MonkeyPatch) -> Coroutine[Any, Any, None]:
    monkeypatch.setattr(NodeDial, "abort", Dial.abort)
    return ended_under_it()


FAULTS = [
    gives_questions_to_a_connection_that_has_ended,
    accepts_an_answer_of_another_number,
    answers_in_the_order_of_questions,
    a_lost_answer_is_told_as_not_sent,
    passes_on_what_it_does_not_own,
]


@pytest.mark.pure("faults are planted in a compiled module")
@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_a_planted_fault_is_caught(
    plant: Callable[[pytest.MonkeyPatch], Coroutine[Any, Any, None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = plant(monkeypatch)
    with pytest.raises((AssertionError, TimeoutError)):
        run(check)
