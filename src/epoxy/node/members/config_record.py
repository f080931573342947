"""The configuration, and the request to change it, as values of registers.

The proposal of a configuration is a function of the configuration alone, so each can be checked against the other: two
configurations of one epoch are two values of one instance.
"""

from epoxy.codec import wire
from epoxy.model.cluster import CHANGE_REQUEST_KEY, ClusterConfig
from epoxy.model.members import ChangeRequest
from epoxy.model.records import Proposal, ProposalId
from epoxy.model.writes import Write


def to_proposal(config: ClusterConfig) -> Proposal:
    return Proposal(
        value=wire.encode_config(config),
        version=config.epoch,
        mutable=True,
        proposal_id=ProposalId(config.coordinator_id, config.epoch),
    )


def from_proposal(proposal: Proposal) -> ClusterConfig:
    assert proposal.value is not None, "there is always a configuration"
    return wire.decode_config(proposal.value)


def change_request(committed: Proposal | None) -> ChangeRequest | None:
    """None: no change was ever requested."""
    value = committed.value if committed is not None else None
    return wire.decode_change_request(value) if value is not None else None


def change_write(request: ChangeRequest, if_version: int | None = None) -> Write:
    value = wire.encode_change_request(request)
    return Write(key=CHANGE_REQUEST_KEY, value=value, mutable=True, if_version=if_version)
