"""The round trip to the nearest quorum."""

import pytest

from epoxy.model.floors import quorum_ms


@pytest.mark.parametrize(
    ("trips", "size", "floor"),
    [
        ([], 1, 0.0),
        ([70.0], 1, 0.0),
        ([152.0, 70.0], 2, 70.0),
        ([152.0, 70.0], 3, 152.0),
        ([70.0, 70.0, 9.0], 3, 70.0),
        ([152.0, 70.0], 4, None),
        ([], 2, None),
    ],
)
def test_the_replica_itself_is_in_its_quorum(trips: list[float], size: int, floor: float | None) -> None:
    assert quorum_ms(trips, size) == floor
