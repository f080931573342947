"""Several addresses of one member, as one text."""

import pytest

from epoxy.model.cluster import ReplicaInfo
from epoxy.model.members import Member
from epoxy.model.node_urls import (
    MAX_NODE_URLS,
    MAX_URLS_BYTES,
    BadUrls,
    first_twice,
    is_one_of,
    join_urls,
    same_url,
    split_urls,
)

NODES = "http://a:7800", "http://b:7800", "http://[::1]:7800"


def test_one_address_is_its_own_text() -> None:
    assert join_urls(["http://a:7800"]) == "http://a:7800"
    assert split_urls("http://a:7800") == ("http://a:7800",)


def test_several_are_joined_and_split_again() -> None:
    joined = join_urls(NODES)
    assert joined == "http://a:7800,http://b:7800,http://[::1]:7800"
    assert split_urls(joined) == ReplicaInfo(id=1, url=joined).urls == Member(id=1, url=joined).urls == NODES


def test_a_member_without_an_address() -> None:
    assert split_urls("") == ReplicaInfo(id=1).urls == ()
    with pytest.raises(BadUrls, match="1 to 16 addresses, not 0"):
        join_urls([])


def test_at_most_so_many() -> None:
    urls = [f"http://node-{number}:7800" for number in range(MAX_NODE_URLS)]
    assert len(split_urls(join_urls(urls))) == MAX_NODE_URLS
    with pytest.raises(BadUrls, match="not 17"):
        join_urls([*urls, "http://one-more:7800"])


def test_the_text_fits_into_a_configuration() -> None:
    names = [f"http://{letter * 1016}.de" for letter in "ab"]
    with pytest.raises(BadUrls, match=f"at most {MAX_URLS_BYTES} characters, not 2053"):
        join_urls(names)


@pytest.mark.parametrize("again", ["http://a:7800", "http://A:7800/", "http://a.:7800"])
def test_the_same_address_twice(again: str) -> None:
    with pytest.raises(BadUrls, match="is named twice"):
        join_urls(["http://a:7800", "http://b:7800", again])
    assert first_twice(["http://a:7800", again]) == again
    assert first_twice(NODES) is None


def test_one_of_them() -> None:
    joined = join_urls(NODES)
    assert all(is_one_of(url + "/", joined) for url in NODES)
    assert not is_one_of("http://a:7801", joined)
    assert not is_one_of("http://a:7800", "")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("http://a:7800", "http://a:7800/", True),
        ("http://A.example", "http://a.example:80", True),
        ("https://a", "https://a.:443", True),
        ("http://[::1]:7800", "http://[::1]:7800/", True),
        ("http://a:7800", "https://a:7800", False),
        ("http://a:7800", "http://a:7801", False),
        ("http://a", "http://b", False),
    ],
)
def test_spelling_makes_no_difference(one: str, other: str, same: bool) -> None:
    assert same_url(one, other) is same
