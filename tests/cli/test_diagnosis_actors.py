"""What `epoxy doctor` says of actors whose home is gone, and whether its command mends that."""

from msgspec.structs import replace

from epoxy.cli.diagnosis_actors import homes, take_over, unseen_actors, workers
from epoxy.cli.findings import Severity
from epoxy.model.api_actors import ActorPlace, HomelessActor, HomelessPage, PoolName, PoolPage
from tests.cli.visits import visit

LOBBY = HomelessActor(namespace="default", name="room", key="lobby", pool="web", datacenter="eu-west-1")


def test_actors_without_a_home_are_named_with_the_command_that_mends_it() -> None:
    cellar = replace(LOBBY, key="cellar", pool="gpu")
    (finding,) = homes(HomelessPage(count=2, actors=[LOBBY, cellar]))
    assert finding.severity is Severity.WARNING
    assert finding.words == (
        "2 actors had a home in eu-west-1, whose lease is over, and no other yet: room/lobby, room/cellar"
    )
    assert finding.commands == ("epoxy actor get room lobby", "epoxy actor get room cellar")
    assert "(gpu, web)" in finding.advice
    (many,) = homes(HomelessPage(count=700, actors=[LOBBY]))
    assert many.words.startswith("700 actors had")
    assert many.words.endswith("room/lobby, ...")


def test_no_finding_where_all_have_one_or_it_is_not_known() -> None:
    assert list(homes(HomelessPage(count=0, actors=[]))) == []
    assert list(homes(None)) == []


def test_the_command_can_be_pasted() -> None:
    odd = replace(LOBBY, namespace="prod", key="a b;c")
    assert take_over(odd) == "epoxy actor get room 'a b;c' --namespace prod"


def place(datacenter: str, *pools: PoolName) -> ActorPlace:
    return ActorPlace(datacenter=datacenter, here=False, hosts=bool(pools), pools=list(pools))


def page(*places: ActorPlace) -> PoolPage:
    return PoolPage(datacenter="a", pools=[], datacenters=list(places))


WEB, GPU = PoolName(namespace="default", pool="web"), PoolName(namespace="prod", pool="gpu")


def test_a_region_without_workers_is_named_with_the_commands_that_start_some() -> None:
    there = visit(datacenter="b", url="http://127.0.0.1:2").status
    assert there is not None
    first, second = workers(page(place("a", WEB, GPU), place("b"), place("c")), [there])
    assert first.words.startswith(
        "b has no workers (it holds no lease of actors), and others have workers of the pools"
    )
    assert first.commands == (
        "epoxy worker run MODULE:ATTRIBUTE --pool web --url http://127.0.0.1:2",
        "epoxy worker run MODULE:ATTRIBUTE --pool gpu --namespace prod --url http://127.0.0.1:2",
    )
    assert second.commands[0].endswith("--url URL"), "it did not answer, so its address is not known"


def test_a_cluster_without_actors_needs_no_workers() -> None:
    assert list(workers(page(place("a"), place("b")), [])) == []
    assert list(workers(page(place("a", WEB), place("b", GPU)), [])) == []
    assert list(workers(None, [])) == []


def test_what_was_not_told_is_unknown_once() -> None:
    (found,) = unseen_actors({"pools": "no", "homeless": "no", "grants": "never"})
    assert (found.severity, found.words) == (Severity.UNKNOWN, "actors and workers were not looked at: no")
    assert list(unseen_actors({"grants": "never"})) == []
