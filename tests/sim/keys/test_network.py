"""The simulated network: it delays, loses, repeats and reorders, and never changes a message."""

import pytest

from epoxy.codec import wire
from epoxy.model.ballot import NO_BALLOT, Ballot
from epoxy.model.errors import Truncated
from epoxy.model.messages import Accept, AcceptOk, Failed, PrepareOk, Read, ReadOk, Reply, Request
from epoxy_sim.keys.network import SHORTEST_US
from epoxy_sim.keys.plan import Weather
from epoxy_sim.patching import Patch, applied
from tests.sim.keys.bench import KEY, Town, commit, plan_of, prepare, proposal

A, B, C = 1, 2, 3
READ = Read(key=KEY, epoch=1)
ALL_LOST = Weather(loss=1.0)


def town(**dials: float) -> Town:
    return Town(plan_of(weather=Weather(**{"jitter": 0.0, **dials})))


def test_a_message_takes_as_long_as_its_way_is() -> None:
    here = Town(plan_of(places=(0.0, 30.0, 100.0)))
    near, far = here.mailbox(B), here.mailbox(C)
    here.send(A, B, prepare(2))
    here.send(A, C, prepare(2))
    here.pass_ms(30 + SHORTEST_US / 1000 - 0.001)
    assert (near, far) == ([], [])
    here.pass_ms(0.001)
    assert (near, far) == ([prepare(2)], [])
    here.pass_ms(70)
    assert far == [prepare(2)]


def test_the_answer_comes_back_the_same_way() -> None:
    here = Town(plan_of(places=(0.0, 30.0, 0.0)))
    replies = here.send(A, B, prepare(2))
    here.pass_ms(60)
    assert replies == []
    here.pass_ms(1)
    assert replies == [PrepareOk(vote=None)]


def test_several_requests_travel_together() -> None:
    here = town()
    vote = Accept(key=KEY, epoch=1, ballot=Ballot(2, A), proposal=proposal())
    replies = here.send(A, B, prepare(2), vote)
    here.pass_ms(5)
    assert replies == [AcceptOk()]
    assert here.network.sent == 2


def test_what_is_lost_never_arrives() -> None:
    here = town(loss=1.0)
    mail = here.mailbox(B)
    replies = here.send(A, B, READ)
    here.pass_ms(1000)
    assert (mail, replies, here.network.incidents) == ([], [], {"lost": 1})


def test_answers_are_lost_too() -> None:
    here = town()
    mail = here.mailbox(B)
    replies = here.send(A, B, prepare(2))
    here.network.weather = ALL_LOST
    here.pass_ms(1000)
    assert (mail, replies) == ([prepare(2)], [])


def test_some_are_lost() -> None:
    here = town(loss=0.5)
    mail = here.mailbox(B)
    for _ in range(200):
        here.send(A, B, READ)
    here.pass_ms(10)
    assert 60 < len(mail) < 140


def test_a_duplicate_is_delivered_twice_and_answered_once() -> None:
    here = town(duplicate=1.0)
    mail = here.mailbox(B)
    replies = here.send(A, B, READ)
    here.pass_ms(100)
    assert mail == [READ, READ]
    assert replies == [ReadOk(committed=None, vote=None)]
    assert here.network.incidents["duplicated"] == 3, "the request, and each of its two answers"


def test_a_paused_asker_finds_one_answer_however_often_it_came() -> None:
    here = town(duplicate=1.0)
    replies = here.send(A, B, READ)
    here.machine(A).paused = True
    here.pass_ms(100)
    here.machine(A).resume()
    here.pass_ms(1)
    assert replies == [ReadOk(committed=None, vote=None)]


def test_messages_overtake_each_other() -> None:
    here = town(jitter=3.0, long_delay=0.1)
    mail = here.mailbox(B)
    sent: list[Request] = [prepare(counter) for counter in range(2, 52)]
    for request in sent:
        here.send(A, B, request)
    here.pass_ms(1000)
    assert mail != sent
    assert sorted(mail, key=repr) == sorted(sent, key=repr)
    assert here.network.incidents["delayed"] > 0


# Cut links


def test_a_one_way_cut_stops_one_way() -> None:
    here = town()
    at_a, at_b = here.mailbox(A), here.mailbox(B)
    here.network.block([A], [B])
    there, back = here.send(A, B, READ), here.send(B, A, READ)
    here.pass_ms(100)
    assert (at_a, at_b) == ([READ], [])
    assert (there, back) == ([], []), "A heard B, and its answer was lost"
    assert here.send(A, C, READ) == []
    here.pass_ms(100)
    assert here.network.incidents == {"lost": 2}


def test_a_two_way_cut_stops_both() -> None:
    here = town()
    mails = [here.mailbox(A), here.mailbox(B)]
    here.network.block([A], [B, C])
    here.network.block([B, C], [A])
    here.send(A, B, READ)
    here.send(B, A, READ)
    beyond = here.send(B, C, READ)
    here.pass_ms(100)
    assert mails == [[], []]
    assert beyond == [ReadOk(committed=None, vote=None)]


def test_nobody_is_cut_from_itself() -> None:
    here = town()
    here.network.block([A, B], [A, B])
    assert (A, A) not in here.network._blocked
    assert (A, B) in here.network._blocked


def test_a_link_cut_at_departure_loses_although_it_heals_in_time() -> None:
    here = town()
    mail = here.mailbox(B)
    here.network.block([A], [B])
    here.send(A, B, READ)
    here.network.heal()
    here.pass_ms(100)
    assert mail == []


def test_a_link_cut_at_arrival_loses_although_it_was_whole() -> None:
    here = town()
    mail = here.mailbox(B)
    here.send(A, B, READ)
    here.network.block([A], [B])
    here.pass_ms(100)
    assert mail == []
    assert here.network.incidents == {"lost": 1}


def test_a_cut_in_between_is_not_noticed() -> None:
    here = town()
    mail = here.mailbox(B)
    here.send(A, B, READ)
    here.network.block([A], [B])
    here.network.heal()
    here.pass_ms(100)
    assert mail == [READ]


# Commits


def test_commit_loss_befalls_only_commits_that_nobody_waits_for() -> None:
    here = town(commit_loss=1.0)
    mail = here.mailbox(B)
    here.life(A).send(B, [commit()], None)
    here.pass_ms(10)
    assert mail == []
    answered = here.send(A, B, commit())
    here.send(A, B, commit(), READ)
    here.life(A).send(B, [READ], None)
    here.pass_ms(10)
    assert mail == [commit(), commit(), READ, READ]
    assert len(answered) == 1


# Bytes


def test_messages_arrive_as_the_objects_they_were_unless_they_travel_as_bytes() -> None:
    for encoded in (False, True):
        here = Town(plan_of(encoded=encoded))
        mail, request = here.mailbox(B), prepare(2)
        replies = here.send(A, B, request)
        here.pass_ms(10)
        assert mail == [request]
        assert (mail[0] is request) is not encoded
        assert replies == [PrepareOk(vote=None)]


@pytest.mark.parametrize("name", ["decode_request", "decode_reply"])
def test_a_broken_codec_is_noticed_when_messages_travel_as_bytes(name: str) -> None:
    def broken(_: bytes) -> object:
        raise Truncated("planted")

    def ask(encoded: bool) -> list[Reply]:
        here = Town(plan_of(encoded=encoded))
        replies = here.send(A, B, prepare(2))
        here.pass_ms(10)
        return replies

    with applied((Patch(wire, name, broken),)):
        assert len(ask(encoded=False)) == 1
        with pytest.raises(Truncated):
            ask(encoded=True)


# The dead


def test_a_machine_that_is_down_refuses_the_connection() -> None:
    here = town()
    here.machine(B).crash()
    replies = here.send(A, B, READ)
    here.pass_ms(10)
    assert replies == [Failed(reason="connection refused")]


def test_the_dead_send_nothing() -> None:
    here = town()
    mail, life = here.mailbox(B), here.life(A)
    here.machine(A).crash()
    life.send(B, [READ], None)
    here.pass_ms(10)
    assert (mail, here.network.sent) == ([], 0)


def test_an_answer_does_not_reach_a_later_life() -> None:
    here = town()
    replies = here.send(A, B, prepare(2))
    here.machine(A).crash()
    here.machine(A).start()
    here.pass_ms(10)
    assert replies == []


def test_a_message_to_an_earlier_life_reaches_the_one_that_is_up() -> None:
    """Which serves it once its start is cleared, and not before."""
    here = town()
    for wait_ms, reply in ((0, Failed(reason="not admitted yet")), (100, PrepareOk(vote=None))):
        here.machine(B).crash()
        here.machine(B).start()
        here.pass_ms(wait_ms)
        replies = here.send(A, B, prepare(2))
        here.pass_ms(10)
        assert replies == [reply]


def test_what_an_earlier_life_sent_refuses_no_later_one_however_late_it_arrives() -> None:
    """It is not heard, and nobody is told that the machine is an older copy."""
    here = Town(plan_of(places=(0.0, 40.0, 0.0), weather=Weather(long_delay=1.0)))
    alarms: list[str] = []
    here.life(B).gate.alarm = alarms.append
    replies = here.send(A, B, prepare(2))
    here.network.calm()
    here.machine(A).crash()
    here.machine(A).start()
    here.pass_ms(190)
    gate = here.life(A).gate
    assert here.life(B).gate.hear(A, gate.incarnation.nonce, gate.position()), "the new start is on record"
    assert (here.state(B).promised, alarms) == (NO_BALLOT, []), "the message is still on its way"
    here.pass_ms(5_000)
    assert (here.state(B).promised, replies) == (NO_BALLOT, []), "and is not handled"
    assert (alarms, gate.refused, gate.may_vote) == ([], "", True)
    assert here.life(B).gate.refused_lately(A) == ""
    here.network.judge_refusals()


def test_who_dies_before_the_disk_is_done_has_not_answered() -> None:
    here = town()
    here.machine(B).disk_slow = True
    replies = here.send(A, B, prepare(2))
    here.pass_ms(0.11)
    here.machine(B).crash()
    here.pass_ms(1000)
    assert replies == []


def test_calm_ends_all_of_it() -> None:
    here = town(loss=1.0, duplicate=1.0, long_delay=1.0, commit_loss=1.0)
    here.network.block([A, B, C], [A, B, C])
    here.network.calm()
    mail = here.mailbox(B)
    here.life(A).send(B, [commit()], None)
    here.pass_ms(10)
    assert mail == [commit()]
    assert here.network.incidents == {}
