"""The Redis protocol (RESP)."""
