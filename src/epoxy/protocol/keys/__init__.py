"""The per-key protocol, pure: no IO, no clock, no dice of its own."""
