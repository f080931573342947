"""Backups: the file's format, and the data directory of a new cluster made from one."""
