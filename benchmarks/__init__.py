"""Measurements. Nothing here is a test: figures depend on the machine and are read as ratios."""
