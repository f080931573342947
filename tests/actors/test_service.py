"""Who is asked, who answers, and what is passed on."""

import pytest

from epoxy.actors.messages import (
    CallActor,
    Destroy,
    Elsewhere,
    Ensure,
    Exists,
    Found,
    GetActor,
    Missing,
    OwnerUnavailable,
    Question,
    Unknown,
)
from epoxy.codec.home_records import decode_home, home_key, reservation_key
from epoxy.model.actors import ActorName, ActorState, label_of, make_id, parse_id
from epoxy.model.cluster import FIRST_SYSTEM_KEY
from epoxy.model.errors import InvalidRequest
from epoxy.model.records import MAX_KEY_BYTES
from epoxy.model.writes import ConsensusFailed, ReadFailed, Refused
from tests.actors.bench import HERE, NAME, THERE, Datacenter, give_lease, reserve_there


def test_ids_carry_a_version_and_a_label() -> None:
    made = make_id((1 << 64) - 1, (1 << 64) - 1, 0x1234)
    assert (len(made), made[0], made[-2:]) == (19, 1, b"\x12\x34")
    assert (made[7] >> 4, made[9] >> 6) == (4, 2), "a random UUID"
    assert (label_of(made), parse_id(made.hex())) == (0x1234, made)
    for wrong in ("", "01", "zz" * 19, "02" + "00" * 18, made.hex().upper()):
        with pytest.raises(InvalidRequest):
            parse_id(wrong)


def test_names_fit_into_a_key_that_clients_cannot_write() -> None:
    longest = ActorName("n" * 255, "\x01" * 255, "ü" * 127)
    key = reservation_key(longest)
    assert len(key) <= MAX_KEY_BYTES
    assert key >= FIRST_SYSTEM_KEY
    for wrong in ("", "x" * 256, "a\0b", "\ud800"):
        with pytest.raises(InvalidRequest):
            ActorName("n", "a", wrong)


def test_a_fresh_name_is_one_write_and_a_known_one_is_none() -> None:
    here = Datacenter()
    first = here.ensure()
    assert isinstance(first, Found)
    assert first.created
    assert label_of(first.actor.id) == HERE
    assert decode_home(here.keys.values[reservation_key(NAME)]).actor_id == first.actor.id
    again = here.ensure()
    assert isinstance(again, Found)
    assert (again.actor.id, again.created) == (first.actor.id, False)
    assert (len(here.keys.writes), here.keys.reads, here.relay.asked) == (1, [], [])


def test_those_who_ask_at_once_share_a_write() -> None:
    here = Datacenter()
    here.keys.late = []
    told: list[object] = []
    for _ in range(5):
        here.actors.ask(Ensure(name=NAME, pool="web"), told.append)
    assert (len(here.keys.writes), told) == (1, [])
    here.keys.late.pop()()
    found = [each for each in told if isinstance(each, Found)]
    assert len({each.actor.id for each in found}) == 1
    assert [each.created for each in found] == [True, False, False, False, False]


@pytest.mark.parametrize("known", [True, False])
def test_the_owner_is_asked_when_it_is_another(known: bool) -> None:
    here = Datacenter()
    reserve_there(here.keys, known=known)
    give_lease(here.keys, pools=())
    here.relay.verdict = Missing()
    question = Ensure(name=NAME, pool="web")
    assert here.ask(question) == Missing()
    assert here.relay.asked == [(THERE, question)]
    assert len(here.keys.writes) == (0 if known else 1)


def test_only_get_is_definite_when_the_owner_does_not_answer() -> None:
    here = Datacenter()
    actor_id = reserve_there(here.keys).hex()
    unsure: list[Question] = [
        Ensure(name=NAME, pool="web"),
        Destroy(target=NAME),
        CallActor(target=actor_id, body=b""),
    ]
    assert [type(here.ask(question)) for question in unsure] == [Unknown] * 3
    assert isinstance(here.ask(GetActor(target=NAME)), OwnerUnavailable)


def test_what_was_passed_on_is_not_passed_on_again() -> None:
    here = Datacenter()
    reserve_there(here.keys)
    assert here.ask(Ensure(name=NAME, pool="web"), relayed=True) == Elsewhere(label=THERE)
    assert here.relay.asked == []


def test_a_redirect_is_followed_a_few_times() -> None:
    here = Datacenter()
    reserve_there(here.keys)
    here.relay.verdicts = [Elsewhere(label=3), Missing()]
    question = GetActor(target=NAME)
    assert here.ask(question) == Missing()
    assert here.relay.asked == [(THERE, question), (3, question)]
    here.relay.verdicts = [Elsewhere(label=3), Elsewhere(label=4), Elsewhere(label=5), Missing()]
    assert isinstance(here.ask(question), OwnerUnavailable)


def test_a_redirect_to_the_datacenter_that_asks_is_checked_against_the_record() -> None:
    here = Datacenter()
    reserve_there(here.keys)
    here.relay.verdicts = [Elsewhere(label=HERE, epoch=1), Missing()]
    assert here.ask(GetActor(target=NAME)) == Missing()
    assert [label for label, _ in here.relay.asked] == [THERE, THERE]
    assert home_key(NAME) in here.keys.reads


def test_the_owner_looks_for_a_reservation_that_it_has_not_heard_of() -> None:
    """Whoever passes the question on may know of the commit before this datacenter does."""
    here = Datacenter()
    here.keys.elsewhere[reservation_key(NAME)] = reserved = make_id(1, 2, HERE)
    verdict = here.ask(Ensure(name=NAME, pool="web"), relayed=True)
    assert isinstance(verdict, Found)
    assert verdict.actor.id == reserved
    assert [write.key for write in here.keys.writes] == [reservation_key(NAME), home_key(NAME)]


def test_what_a_dead_coordinator_reserved_the_next_caller_finishes() -> None:
    here = Datacenter()
    here.keys.values[reservation_key(NAME)] = reserved = make_id(1, 2, HERE)
    assert here.ask(GetActor(target=NAME)) == Missing()
    made = here.ensure()
    assert isinstance(made, Found)
    assert (made.actor.id, made.created) == (reserved, True)


def test_a_name_nobody_reserved_is_missing() -> None:
    here = Datacenter()
    for question in (GetActor(target=NAME), Destroy(target=NAME), CallActor(target=NAME, body=b"")):
        assert here.ask(question) == Missing()
    assert here.ask(GetActor(target=make_id(1, 2, HERE).hex())) == Missing()
    assert here.keys.writes == []


def test_failures_of_the_engine_say_whether_they_are_definite() -> None:
    here = Datacenter()
    here.keys.outcome = ConsensusFailed(reason="nobody answers")
    assert here.ensure() == Unknown(reason="nobody answers")
    here.keys.outcome = Refused(reason="busy")
    assert here.ensure() == OwnerUnavailable(reason="busy")
    here.keys.answer = ReadFailed(reason="alone")
    assert here.ask(GetActor(target=NAME)) == OwnerUnavailable(reason="alone")


def test_create_is_for_new_ones_alone() -> None:
    here = Datacenter()
    assert isinstance(here.ensure(exclusive=True), Found)
    assert isinstance(here.ensure(exclusive=True), Exists)


def test_a_name_lives_on_with_its_datacenter() -> None:
    here = Datacenter()
    first = here.made()
    gone = here.ask(Destroy(target=first.id.hex()))
    assert isinstance(gone, Found)
    assert gone.actor.state is ActorState.DESTROYED
    assert here.ask(GetActor(target=NAME)) == here.ask(Destroy(target=NAME)) == Missing()
    second = here.made()
    assert second.id != first.id
    assert label_of(second.id) == HERE
    assert here.ask(GetActor(target=first.id.hex())) == Missing()


def test_limits() -> None:
    with pytest.raises(InvalidRequest, match="input has"):
        Ensure(name=NAME, pool="web", input=bytes(65537))
    with pytest.raises(InvalidRequest, match="the request has"):
        CallActor(target=NAME, body=bytes((1 << 20) + 1))
    with pytest.raises(InvalidRequest, match="pool has"):
        Ensure(name=NAME, pool="")
