"""Whether a fuzzer finds a fault that a test planted, within the count that CI runs."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from tests.fuzz.harness import Finding, FuzzTarget, fuzz

CI_INPUTS = 20_000


def finding_of(make: Callable[[], AbstractContextManager[FuzzTarget]], seed: int = 7) -> str:
    """What is found; "" if nothing is."""
    with make() as target:
        try:
            fuzz(target, CI_INPUTS, seed)
        except Finding as finding:
            return str(finding)
    return ""
