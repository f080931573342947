"""How a process tells its supervisor why it ended, in the words of sysexits."""

EXIT_STORE = 74
"""EX_IOERR: something could not be saved. Look at the disk before starting it again."""

EXIT_BUSY = 75
"""EX_TEMPFAIL: whoever holds the address may be about to let it go, the process before this one for instance."""

EXIT_CONFIG = 78
"""EX_CONFIG: starting it again without changing something is pointless."""
