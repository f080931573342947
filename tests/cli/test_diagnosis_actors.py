"""What `epoxy doctor` says of actors whose home is gone, and whether its command mends that."""

from msgspec.structs import replace

from epoxy.cli.diagnosis_actors import homes, take_over
from epoxy.cli.findings import Severity
from epoxy.model.api_actors import HomelessActor, HomelessPage

LOBBY = HomelessActor(namespace="default", name="room", key="lobby", pool="web", datacenter="eu-west-1")


def test_actors_without_a_home_are_named_with_the_command_that_mends_it() -> None:
    cellar = replace(LOBBY, key="cellar", pool="gpu")
    (finding,) = homes(HomelessPage(count=2, actors=[LOBBY, cellar]))
    assert finding.severity is Severity.WARNING
    assert finding.words == (
        "2 actors had a home in eu-west-1, whose lease is over, and no other yet: room/lobby, room/cellar"
    )
    assert "`epoxy actor get room lobby`" in finding.advice
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
