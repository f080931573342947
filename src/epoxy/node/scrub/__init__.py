"""Rows that rot: found, and repaired."""
