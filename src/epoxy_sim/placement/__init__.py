"""Simulations of placement: how evenly pools fill up, and what becomes of actors when things fail."""
