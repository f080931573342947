"""Files of round trips: four forms, and what is wrong with a file, with its line."""

from itertools import product

import pytest

from epoxy.codec.round_trips import MAX_ROUND_TRIPS_BYTES, decode
from epoxy.model.errors import InvalidValue
from epoxy.model.round_trips import MAX_REGIONS

GOOD = {
    "objects": '{"oslo": {"lima": 190.5, "perth": 310}, "lima": {"perth": 280}}',
    "matrix": '{"regions": ["oslo", "lima", "perth"], "rtt_ms": [[0, 190.5, 310], [190.5, 0, 280], [310, null, 0]]}',
    "table": ",oslo,lima,perth\noslo,0,190.5,310\nlima,,0,280\n",
    "table with a corner": "rtt,oslo,lima,perth\r\noslo,,190.5,310\r\n\r\nlima,190.5,,280\r\nperth,310,280,\r\n",
    "pairs": "from,to,rtt_ms\noslo,lima,190.5\noslo,perth,310\nlima,perth,280\n",
    "semicolons": "From;To;ms\noslo;lima;190,5\noslo;perth;310\nlima;perth;280",
    "tabs": "\toslo\tlima\tperth\noslo\t0\t190.5\t310\nlima\t\t\t280\n",
    "blanks and a mark": "\ufeff , oslo , lima, perth ,,\n oslo, 0, 190.5 , 310\nlima,,,280\n",
}


@pytest.mark.parametrize("form", GOOD)
def test_all_forms_say_the_same(form: str) -> None:
    trips = decode(GOOD[form].encode())
    assert trips.regions == ("oslo", "lima", "perth")
    wanted = {"oslo lima": 190.5, "lima oslo": 190.5, "oslo perth": 310.0, "perth oslo": 310.0, "lima perth": 280.0}
    found = {f"{here} {there}": trips.ms(here, there) for here, there in product(trips.regions, repeat=2)}
    assert {pair: found[pair] for pair in wanted} == wanted
    assert found["oslo oslo"] == 0.0


BAD = [
    ("", "there is nothing in it"),
    (" \n\n", "there is nothing in it"),
    ("hello", "line 1: neither JSON nor CSV"),
    (",oslo,lima\noslo,0,-3\n", "line 2: 'oslo' to 'lima': -3 is negative"),
    (",oslo,lima\n\noslo,0,fast\n", "line 3: 'oslo' to 'lima': 'fast' is not a number"),
    (",oslo,lima\noslo,0,nan\n", "line 2: 'oslo' to 'lima': nan is no round trip in milliseconds"),
    (",oslo,lima\noslo,0,60001\n", "line 2: 'oslo' to 'lima': 60001 is no round trip in milliseconds; at most 60,000"),
    (",oslo,lima,perth\noslo,0,12,30\n", "the round trip between lima and perth is missing"),
    (",oslo,lima\nparis,0,12\n", "line 2: region 'paris' is not in line 1, which names them"),
    (",oslo,lima\noslo,0,12,13\n", "line 2: 3 round trips, and line 1 names 2 regions"),
    (",oslo,lima\noslo,0,12\noslo,0,12\n", "line 3: 'oslo' to 'oslo' is there twice"),
    (",oslo,oslo\n", "region oslo is in the table twice"),
    ("from,to,rtt_ms\noslo,lima\n", "line 2: from, to and a round trip are wanted, and there are 2 cells"),
    ("from,to,rtt_ms\noslo,lima,1\noslo,lima,2\n", "line 3: 'oslo' to 'lima' is there twice"),
    ("from,to,rtt_ms\n", "has 1 to 15 regions, not 0"),
    (",".join(["", *map(str, range(MAX_REGIONS + 1))]), "has 1 to 15 regions, not 16"),
    ('{"oslo": {"lima": 190.5},\n "lima": {"perth": }}', "line 2: not JSON: Expecting value, column 20"),
    ('{"oslo": {"lima": true}}', "'oslo' to 'lima': true is not a number"),
    ('{"oslo": {"lima": "12"}}', "'oslo' to 'lima': '12' is not a number"),
    ('{"oslo": {"lima": NaN}}', "'oslo' to 'lima': nan is no round trip"),
    ('{"oslo": {"lima": -1}}', "'oslo' to 'lima': -1 is negative"),
    ('{"oslo": {"lima": ' + "9" * 5000 + "}}", "'oslo' to 'lima': inf is no round trip"),
    ('{"oslo": {"lima": 1, "rome": 3, "lima": 2}}', "'lima' is in one object twice"),
    ('{"oslo": {"lima": 1}, "oslo": {}}', "'oslo' is in one object twice"),
    ('{"oslo": 12}', "'oslo': an object with round trips to other regions is wanted, not 12"),
    ("[1]", "an object is wanted"),
    ("[" * 100_000, "more than 64 KiB"),
    ("[" * 50_000, "nested too deep"),
    ("{}", "has 1 to 15 regions, not 0"),
    ('{"rtt_ms": []}', "regions: a list of names is wanted"),
    ('{"regions": [1], "rtt_ms": []}', "regions: a list of names is wanted"),
    ('{"regions": ["a", "b"], "rtt_ms": [[0, 1]]}', "rtt_ms: a list of 2 rows is wanted"),
    ('{"regions": ["a", "b"], "rtt_ms": [[0, 1], [1]]}', "rtt_ms of 'b': a list of 2 numbers is wanted"),
    ('{"regions": ["a", "b"], "rtt_ms": [[0, null], [null, 0]]}', "the round trip between a and b is missing"),
    (',oslo,"lima\n', "has 1 to 15|is no name|missing|newline"),
]


@pytest.mark.parametrize(("text", "words"), BAD, ids=[words[:40] for _, words in BAD])
def test_what_is_wrong_is_said_with_its_place(text: str, words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        decode(text.encode())


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(InvalidValue, match="line 2: not UTF-8"):
        decode(b",oslo,lima\n\xff")


def test_the_largest_table_fits_and_one_byte_more_does_not() -> None:
    names = [f"{number:064d}" for number in range(MAX_REGIONS)]
    lines = ["from,to,rtt_ms", *(f"{here},{there},12345.678" for here, there in product(names, repeat=2))]
    longest = "\n".join(lines).encode()
    assert decode(longest.ljust(MAX_ROUND_TRIPS_BYTES)).regions == tuple(names)
    with pytest.raises(InvalidValue, match="more than 64 KiB"):
        decode(longest.ljust(MAX_ROUND_TRIPS_BYTES + 1))
