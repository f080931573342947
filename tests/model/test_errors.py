"""Every failure says whether it is definite, and the tree drawn on top of the module is the real one."""

import inspect
import pickle

from epoxy.model import errors
from epoxy.model.errors import EpoxyError

UNKNOWN = {"OutcomeUnknown", "ConsensusFailed", "Timeout", "ConnectionLost", "UnexpectedAnswer"}
INDEFINITE = {"StoreFailed", "InvariantViolation"} | UNKNOWN


def tree(root: type[EpoxyError]) -> list[type[EpoxyError]]:
    return [root] + [error for child in root.__subclasses__() for error in tree(child)]


def ours() -> list[type[EpoxyError]]:
    """Those of the module: other tests may plant errors of their own."""
    return [error for error in tree(EpoxyError) if error.__module__ == errors.__name__]


def test_every_error_of_the_module_is_in_the_tree() -> None:
    defined = {thing for _, thing in inspect.getmembers(errors, inspect.isclass) if issubclass(thing, Exception)}
    assert defined == set(ours())
    assert len(defined) > 10


def test_every_error_says_whether_it_is_definite() -> None:
    answers = {error.__name__: error.definite for error in ours()}
    assert all(isinstance(definite, bool) for definite in answers.values())
    assert {name for name, definite in answers.items() if not definite} == INDEFINITE


def drawn_definite(drawing: str) -> dict[str, bool]:
    """What the drawing says of the errors it marks."""
    marked = [line.strip("│├└─ ").split() for line in drawing.splitlines() if "── " in line]
    return {words[0]: words[1] == "definite" for words in marked if len(words) > 1 and words[1].endswith("definite")}


def test_the_drawing_is_the_tree() -> None:
    drawing = inspect.getdoc(errors)
    assert drawing is not None
    drawn = [line.strip("│├└─ ").split()[0] for line in drawing.splitlines() if "── " in line]
    assert drawn == [error.__name__ for error in ours()][1:]
    assert drawn_definite(drawing) == {e.__name__: e.definite for e in ours() if e.__name__ in drawn_definite(drawing)}
    assert {name for name, definite in drawn_definite(drawing).items() if not definite} == INDEFINITE & marked(drawing)


def marked(drawing: str) -> set[str]:
    """A branch whose leaves all agree is marked once, at its root."""
    return set(drawn_definite(drawing))


def test_a_conflict_survives_a_trip_between_processes() -> None:
    there = errors.VersionMismatch("version 3 stands", value=b"x", version=3)
    back = pickle.loads(pickle.dumps(there))
    assert (str(back), back.value, back.version, back.definite) == ("version 3 stands", b"x", 3, True)
