"""The judge of names finds what is planted."""

import pytest

from tests.datacenter_campaign.names import Claim, judge_names


@pytest.mark.parametrize(
    ("outcomes", "found"),
    [("won lost refused unknown", b"0"), ("lost unknown", b"1"), ("refused unknown", None), ("unknown unknown", b"1")],
)
def test_right_names(outcomes: str, found: bytes | None) -> None:
    assert not judge_names(claims(outcomes), {"n": found})


@pytest.mark.parametrize(
    ("outcomes", "found"),
    [("won won", b"0"), ("won unknown", b"1"), ("won lost", None), ("lost lost", None), ("lost refused", b"1")],
    ids=["two winners", "overwritten", "lost", "lost against nobody", "refused and done"],
)
def test_wrong_names(outcomes: str, found: bytes | None) -> None:
    (words,) = judge_names(claims(outcomes), {"n": found})
    assert words.startswith("n is")


def claims(outcomes: str) -> list[Claim]:
    return [Claim("n", str(number), outcome) for number, outcome in enumerate(outcomes.split())]
