"""Epoxy: leaderless, geo-distributed consensus for one key at a time."""

from importlib.metadata import version

__version__ = version("epoxy")
