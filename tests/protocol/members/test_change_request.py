"""What an operator may ask for, and what is said to the rest."""

import pytest

from epoxy.model.cluster import ClusterConfig, ReplicaInfo, ReplicaStatus
from epoxy.model.members import ChangeRequest, Member
from epoxy.model.quorum import MAX_REPLICAS
from epoxy.protocol.members.change_request import Amendment, Objection, apply_amendment

CONFIG = ClusterConfig(
    epoch=3,
    coordinator_id=1,
    replicas=(
        *(ReplicaInfo(id=i, url=f"http://{i}", datacenter=f"dc-{i}") for i in (1, 2, 3)),
        ReplicaInfo(id=4, status=ReplicaStatus.LEARNING, url="http://4"),
    ),
)
ALL_REACHED = frozenset(range(1, MAX_REPLICAS + 2))
FIVE = Member(id=5, url="http://5", datacenter="dc-5")


def ids(request: ChangeRequest | Objection) -> list[int]:
    assert isinstance(request, ChangeRequest), request
    return [member.id for member in request.members]


def request_for(*wanted: int) -> ChangeRequest:
    return ChangeRequest(members=tuple(Member(id=i, url=f"http://{i}") for i in wanted))


def test_the_first_wish_builds_on_those_who_vote() -> None:
    request = apply_amendment(CONFIG, None, Amendment(add=(FIVE,)), ALL_REACHED)
    assert ids(request) == [1, 2, 3, 5]
    assert request == ChangeRequest(
        members=(*(Member(id=i, url=f"http://{i}", datacenter=f"dc-{i}") for i in (1, 2, 3)), FIVE)
    )


def test_the_next_builds_on_the_one_before_even_if_that_is_not_fulfilled_yet() -> None:
    assert ids(apply_amendment(CONFIG, request_for(1, 2, 3, 4), Amendment(add=(FIVE,)), ALL_REACHED)) == [1, 2, 3, 4, 5]
    assert ids(apply_amendment(CONFIG, request_for(1, 2, 3, 4), Amendment(remove=(4,)), ALL_REACHED)) == [1, 2, 3]


def test_to_replace_is_one_change_and_the_address_may_stay() -> None:
    same_address = Member(id=5, url="http://3")
    assert ids(apply_amendment(CONFIG, None, Amendment(add=(same_address,), remove=(3,)), ALL_REACHED)) == [
        1,
        2,
        5,
    ]


def test_a_member_moves_and_keeps_the_rest() -> None:
    moved = Member(id=2, url="http://elsewhere")
    request = apply_amendment(CONFIG, None, Amendment(move=(moved,)), ALL_REACHED)
    assert isinstance(request, ChangeRequest)
    assert request.members[1] == Member(id=2, url="http://elsewhere", datacenter="dc-2")
    assert [request.members[i] for i in (0, 2)] == [
        Member(id=i, url=f"http://{i}", datacenter=f"dc-{i}") for i in (1, 3)
    ]


def test_two_members_may_change_places() -> None:
    swap = (Member(id=1, url="http://2"), Member(id=2, url="http://1"))
    request = apply_amendment(CONFIG, None, Amendment(move=swap), ALL_REACHED)
    assert isinstance(request, ChangeRequest)
    assert [member.url for member in request.members] == ["http://2", "http://1", "http://3"]


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        (Amendment(), "nothing_to_do", "no member to add"),
        (Amendment(remove=(9,)), "unknown_member", "9 is none of the members: 1, 2, 3"),
        (Amendment(remove=(3, 3)), "named_twice", "3 is named twice"),
        (Amendment(add=(Member(id=3, url="http://x"),)), "already_member", "3 is a member already"),
        (Amendment(add=(Member(id=5),)), "no_address", "the address of 5 is missing"),
        (Amendment(add=(FIVE, FIVE)), "named_twice", "5 is named twice"),
        (Amendment(add=(Member(id=5, url="http://3"),)), "address_taken", "the address of 3"),
        (Amendment(move=(Member(id=9, url="http://x"),)), "unknown_member", "9 is none of the members: 1, 2, 3"),
        (Amendment(move=(Member(id=2),)), "no_address", "the address of 2 is missing"),
        (Amendment(move=(Member(id=2, url="http://2"),)), "nothing_to_do", "2 is at http://2 already"),
        (Amendment(move=(Member(id=2, url="http://3"),)), "address_taken", "the address of 3"),
        (Amendment(move=(Member(id=2, url="http://x"),), remove=(2,)), "named_twice", "2 is named twice"),
        (Amendment(remove=(1, 2, 3)), "nobody_left", "decides nothing"),
        (
            Amendment(add=tuple(Member(id=i, url=f"http://{i}") for i in range(5, MAX_REPLICAS + 3))),
            "too_many_members",
            "at most",
        ),
    ],
)
def test_what_is_objected_to(given: Amendment, code: str, words: str) -> None:
    objection = apply_amendment(CONFIG, None, given, ALL_REACHED)
    assert isinstance(objection, Objection)
    assert objection.code == code
    assert words in objection.words


def test_those_who_stay_must_be_able_to_decide() -> None:
    """Of 1, 2 and 3 the last does not answer: without 2, nobody could decide anything."""
    there = frozenset((1, 2))
    objection = apply_amendment(CONFIG, None, Amendment(remove=(2,)), there)
    assert isinstance(objection, Objection)
    assert (objection.code, objection.words) == (
        "would_lose_quorum",
        "of 1, 3 only 1 can be reached, and 2 are needed to decide anything",
    )
    assert ids(apply_amendment(CONFIG, None, Amendment(remove=(3,)), there)) == [1, 2]
    assert ids(apply_amendment(CONFIG, None, Amendment(remove=(2,), force=True), there)) == [1, 3]
    assert ids(apply_amendment(CONFIG, None, Amendment(add=(FIVE,), remove=(3,)), there)) == [1, 2, 5], (
        "newcomers are there"
    )


def test_the_address_of_any_node_of_a_member_is_taken() -> None:
    """In any spelling, and of the members that come in the same change, too."""
    several = Member(id=5, url="http://5,http://3:80")
    refused = apply_amendment(CONFIG, None, Amendment(add=(several,)), ALL_REACHED)
    assert refused == Objection(code="address_taken", words="http://3:80 is the address of 3")
    both = Amendment(add=(Member(id=5, url="http://5,http://6"), Member(id=6, url="http://7,http://6.")))
    refused = apply_amendment(CONFIG, None, both, ALL_REACHED)
    assert refused == Objection(code="address_taken", words="http://6. is the address of 5")


def test_a_member_gets_one_more_node() -> None:
    more = Amendment(move=(Member(id=2, url="http://2,http://20"),))
    request = apply_amendment(CONFIG, None, more, ALL_REACHED)
    assert isinstance(request, ChangeRequest)
    assert [member.urls for member in request.members] == [("http://1",), ("http://2", "http://20"), ("http://3",)]
