"""Records of the rounds of one instance."""

from epoxy.model.writes import Write
from epoxy.protocol.keys.terms import KeyInstance, OwnProposal
from tests.protocol.keys.harness import KEY, fold_of, prop, waiting

ONE, TWO = (prop(b"%d" % version, version, mutable=True) for version in (1, 2))
PUT = Write(key=KEY, value=b"x", mutable=True)


def test_an_instance_is_named_by_its_base() -> None:
    assert KeyInstance(key=KEY, base=None).number == 0
    assert KeyInstance(key=KEY, base=TWO).number == 2


def test_a_proposal_that_is_put_forward_exposes_its_writes() -> None:
    """Also those that were refused in it: they may be folded again on a later version, and looked for until then."""
    fresh, earlier = waiting(PUT), waiting(PUT, nonce=2, floor=0)
    offer = OwnProposal(fold=fold_of(TWO, ONE), writes=(fresh, earlier))
    assert (offer.made, fresh.is_exposed) == (False, False)
    offer.put_forward()
    assert (offer.made, fresh.floor, earlier.floor) == (True, 1, 0)
