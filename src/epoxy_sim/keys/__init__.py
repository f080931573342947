"""The per-key engine in virtual time."""
