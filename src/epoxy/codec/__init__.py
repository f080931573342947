"""Bytes to values and back. No sockets, no files."""
