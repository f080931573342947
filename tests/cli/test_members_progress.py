"""The progress of a change of members, in words."""

from typing import Any

import msgspec
import pytest

from epoxy.cli.members_progress import ChangeProgress, is_done, seconds
from epoxy.model.api import MemberProgress, MemberRow, Members, QuorumSizes


def seen(*rows: MemberRow, **more: Any) -> Members:
    known: dict[str, Any] = {"quorum_policy": "optimal", "quorums": QuorumSizes(fast=3, slow=3), "previous": None}
    known |= {"joint": False, "wanted": ()} | more
    return Members(epoch=4, coordinator_id=1, replicas=rows, **known)


def learner(copied: int) -> MemberRow:
    return member_row(4, "learning", "dc-4", MemberProgress(heard=True, copied=copied))


def member_row(replica: int, status: str, datacenter: str, progress: MemberProgress) -> MemberRow:
    return MemberRow(id=replica, status=status, url="", identity=0, datacenter=datacenter, progress=progress)


SOURCE = member_row(1, "active", "", MemberProgress(heard=True, keys=1000))


def test_keys_rate_and_time_left() -> None:
    journey = ChangeProgress()
    assert journey.look(seen(SOURCE, learner(0)), 100.0).rate == 0.0
    told = journey.look(seen(SOURCE, learner(200)), 102.0)
    assert (told.copied, told.total, told.rate) == (200, 1000, 100.0)
    assert told.words == "epoch 4, dc-4 copying: 200 of about 1,000 keys, 100/s, 8 s left"


def test_the_time_left_waits_for_those_who_count_and_never_rises_with_what_they_find() -> None:
    """A newcomer that has counted what it holds says nothing about what is left."""
    journey, counting = ChangeProgress(), msgspec.structs.replace(SOURCE, progress=MemberProgress(heard=True, keys=0))
    journey.look(seen(counting, learner(0)), 100.0)
    half = msgspec.structs.replace(learner(200), progress=MemberProgress(heard=True, copied=200, keys=200))
    assert journey.look(seen(counting, half), 102.0).words == "epoch 4, dc-4 copying: 200 keys, 100/s"
    told = journey.look(seen(SOURCE, half), 102.0)
    assert told.words == "epoch 4, dc-4 copying: 200 of about 1,000 keys, 100/s, 8 s left"


def test_the_rate_is_that_of_the_last_while() -> None:
    journey = ChangeProgress()
    looks = [
        journey.look(seen(SOURCE, learner(0 if second < 15 else (second - 15) * 10)), float(second))
        for second in range(30)
    ]
    assert looks[-1].rate == pytest.approx(10.0)


def test_phases_without_keys() -> None:
    assert ChangeProgress().look(seen(SOURCE, joint=True, waiting="1 of 1, 2"), 0.0).words == (
        "epoch 4, old and new decide together: 1 of 1, 2"
    )
    assert ChangeProgress().look(seen(SOURCE, waiting="no word from 4"), 0.0).words == "epoch 4: no word from 4"
    assert ChangeProgress().look(seen(SOURCE, settled=True), 0.0).words == "epoch 4, done"


def test_done_is_what_was_wanted_and_nothing_else() -> None:
    assert is_done(seen(SOURCE, settled=True, wanted=(1,)), (1,))
    assert not is_done(seen(SOURCE, settled=False, wanted=(1,)), (1,))
    assert not is_done(seen(SOURCE, settled=True, wanted=(1, 2)), (1, 2))
    assert not is_done(seen(SOURCE, settled=True, wanted=(1,)), (1, 2))


@pytest.mark.parametrize(("amount", "words"), [(0.4, "0 s"), (119.0, "119 s"), (600.0, "10 min")])
def test_time_in_words(amount: float, words: str) -> None:
    assert seconds(amount) == words
