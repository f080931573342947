"""Calls about the scrub of one node's rows."""

from functools import partial

from epoxy.client.calls import Call, get_json, post_json
from epoxy.client.responses import read_json
from epoxy.model.api_scrub import ScrubReport


def scrub(*, timeout: float | None = None) -> Call[ScrubReport]:
    """How far the scrub of the node's rows is, and what it found."""
    return get_json("/v2/scrub", partial(read_json, ScrubReport), timeout)


def begin_scrub(*, timeout: float | None = None) -> Call[ScrubReport]:
    """Read and check all rows of the node now. Raises Unavailable if a round is under way."""
    return post_json("/v2/scrub", b"", partial(read_json, ScrubReport, status=202), writes=False, timeout=timeout)
