"""The embedded store: a write-ahead log in front of LMDB, group commit in an IO thread."""
