"""Commands as data."""

from epoxy.model.strings import Steps


def test_the_size_of_steps_is_that_of_their_arguments() -> None:
    steps = Steps(commands=((b"SET", b"k", b"12345"), (b"GET", b"k")))

    assert steps.size == len(b"SETk12345GETk")
