"""The configuration as the value of a register.

Its proposal is a function of the configuration alone, so whoever is handed the one can check it against the other: two
configurations of one epoch are two values of one instance.
"""

from epoxy.codec import wire
from epoxy.model.cluster import ClusterConfig
from epoxy.model.records import Proposal, ProposalId


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
