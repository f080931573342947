"""The per-key engine of one replica."""
