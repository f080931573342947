"""Commands end by leaving, as a process would."""

import pytest

from epoxy.cli.main import run


def status_of(words: list[str]) -> int:
    with pytest.raises(SystemExit) as left:
        run(words)
    assert isinstance(left.value.code, int)
    return left.value.code
