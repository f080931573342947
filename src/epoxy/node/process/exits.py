"""Exit codes, as in sysexits.h: a supervisor can tell by them why a process ended."""

EXIT_STORE = 74
"""EX_IOERR: a write or sync failed. Look at the disk before starting it again."""

EXIT_BUSY = 75
"""EX_TEMPFAIL: an address is in use, perhaps by the process before this one, and may soon be free."""

EXIT_CONFIG = 78
"""EX_CONFIG: starting it again fails in the same way until a setting is changed."""
