"""Settings every test shares."""

import os

from hypothesis import settings

from tests.leftovers import pytest_configure, pytest_unconfigure

__all__ = ["pytest_configure", "pytest_unconfigure"]

# No deadline anywhere: how fast the machine is must never decide a test.
# CI draws the same examples every time, so a red build is red again at home; at home each run explores anew.
settings.register_profile("home", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "home")
