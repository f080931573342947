"""Why tests of redis-py's suite fail at a node, by the test's name and its message. Others are unexplained."""

import re

REASONS: tuple[tuple[str, str], ...] = (
    (r"unknown command '(DUMP|RESTORE)'", "DUMP and RESTORE are not offered: the format is that of a Redis' own files"),
    (r"unknown command 'RANDOMKEY'", "RANDOMKEY is not offered"),
    (r"unknown command 'LCS'", "LCS is not offered"),
    (r"DB index is out of range", "there is one database, 0"),
    (r"test_large_responses.*the limit is", "a value has at most 1 MiB"),
    (r"for CLIENT 'LIST'", "CLIENT LIST takes no filter"),
    (r"'cmsgpack'", "scripts have no cmsgpack"),
    (r"a script (works on|has) one key", "a script has one key"),
    (
        r"test_scan\b.*assert \d+ == 0",
        "a page of SCAN counts deleted keys, too, so it may end before the last key",
    ),
    (
        r"test_pexpiretime",
        "what is kept is the time that is left: an absolute time comes back some ms later",
    ),
    (
        r"lock_not_owned_error.*DID NOT RAISE",
        "a lock with a timeout of 100 ms ends after 151 at the earliest (1 % and 50 ms for clocks that differ), "
        "and the test waits for 150",
    ),
)
"""A pattern of `test: message`, and the reason."""


def reason(test: str, message: str) -> str | None:
    return next((why for pattern, why in REASONS if re.search(pattern, f"{test}: {message}")), None)
