"""Settings every test shares."""

import logging
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.leftovers import pytest_configure, pytest_unconfigure

__all__ = ["pytest_configure", "pytest_unconfigure"]

# No deadline anywhere: how fast the machine is must never decide a test.
# CI draws the same examples every time, so a red build is red again at home; at home each run explores anew.
settings.register_profile("home", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "home")


@pytest.fixture(autouse=True)
def signals_stay() -> Iterator[None]:
    """A process that ends ignores signals from then on. One that a test plays inside this process would leave that to
    the tests after it, and to all processes that they start."""
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        if signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@pytest.fixture(autouse=True)
def logs_stay() -> Iterator[None]:
    """A process sets up its log for itself. A test that plays one would leave it to the tests after it, with a stream
    that is closed by then."""
    logger = logging.getLogger("epoxy")
    handlers, level, propagate = list(logger.handlers), logger.level, logger.propagate
    yield
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)
