"""The configuration and the request to change it, as values of registers."""

from msgspec.structs import replace

from epoxy.codec import wire
from epoxy.model.cluster import first_epoch
from epoxy.model.members import ChangeRequest, Member
from epoxy.model.records import ProposalId
from epoxy.node.members.config_record import change_request, from_proposal, to_proposal
from tests.protocol.keys.harness import prop

CONFIG = replace(first_epoch((1, 2, 3)), epoch=4, coordinator_id=2)


def test_a_configuration_comes_back_from_its_proposal() -> None:
    assert from_proposal(to_proposal(CONFIG)) == CONFIG


def test_a_proposal_follows_from_the_configuration_alone() -> None:
    proposal = to_proposal(CONFIG)
    assert (proposal.version, proposal.proposal_id, proposal.mutable) == (4, ProposalId(2, 4), True)
    assert to_proposal(replace(CONFIG)) == proposal


def test_no_request_is_none_and_so_is_one_that_was_deleted() -> None:
    assert change_request(None) is None
    assert change_request(prop(None, mutable=True)) is None


def test_a_request_is_decoded() -> None:
    request = ChangeRequest(members=(Member(id=1), Member(id=4)))
    assert change_request(prop(wire.encode_change_request(request), mutable=True)) == request
