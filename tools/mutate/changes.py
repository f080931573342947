"""Small changes of a source, as a hasty edit would make them. Found in its syntax tree, made in its text.

    negate      the condition of an if, a while or a conditional expression
    compare     < and <=, > and >=, == and !=, in and not in, is and is not
    both        and and or
    number      a whole number, one more
    switch      True and False
    sum         + and -
    drop        a statement that is a call, an assignment to an attribute or an item, or an addition to something
    result      what a function returns: None, or of a condition its opposite

What only words depend on stays out: messages of errors, log lines, assertions, annotations, doc strings. So do limits,
the constants of a module that are numbers: one more or less of them is as good.
"""

import ast
from collections.abc import Iterator
from itertools import pairwise

from msgspec import Struct

SWAPS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
TRUTHS = (ast.Compare, ast.BoolOp)
LOGS = ("log", "_log", "logger", "warn", "warning", "info", "debug", "error", "exception", "say", "alarm")


class Change(Struct, frozen=True, kw_only=True):
    """Of the text from `start` to `end`, in characters. `line` is where it begins, from 1."""

    path: str
    kind: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def made(self, text: str) -> str:
        assert text[self.start : self.end] == self.before, "the source is not the one the change was found in"
        return text[: self.start] + self.after + text[self.end :]


class Text:
    """Places of a source: the tree counts columns in bytes."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self._starts = [0]
        self._lines = text.splitlines(keepends=True)
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def change(self, kind: str, start: int, end: int, after: str) -> Change:
        line = self.text.count("\n", 0, start) + 1
        before = self.text[start:end]
        return Change(path=self.path, kind=kind, line=line, start=start, end=end, before=before, after=after)

    def replaced(self, kind: str, node: ast.expr | ast.stmt, form: str) -> Change:
        """`form` with what stood there in the place of {}."""
        start, end = self.span(node)
        return self.change(kind, start, end, form.replace("{}", self.text[start:end]))

    def between(self, kind: str, left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[Change]:
        """An operator, which the tree has no place for: it stands between its two sides."""
        begin, finish = self.span(left)[1], self.span(right)[0]
        middle = self.text[begin:finish]
        if middle.count(old) == 1 and "#" not in middle:
            start = begin + middle.index(old)
            yield self.change(kind, start, start + len(old), new)


def changes(path: str, source: str) -> list[Change]:
    """All there are, in the order of the text."""
    text = Text(path, source)
    found = [change for node in reached(ast.parse(source)) for change in of_node(text, node)]
    return sorted(found, key=lambda change: (change.start, change.end, change.kind, change.after))


def reached(node: ast.AST) -> Iterator[ast.AST]:
    """Everything below, but for what only words depend on."""
    for child in parts(node):
        if not (isinstance(child, (ast.Assert, ast.Raise)) or is_log(child) or is_words(child) or is_limit(child)):
            yield child
            yield from reached(child)


def parts(node: ast.AST) -> Iterator[ast.AST]:
    """Without types: of parameters, of results, of names; and without what a class is declared with."""
    match node:
        case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body) | ast.ClassDef(body=body):
            yield from body
        case ast.AnnAssign(value=value):
            yield from [value] if value is not None else []
        case _:
            yield from ast.iter_child_nodes(node)


def is_log(node: ast.AST) -> bool:
    if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Call):
        return False
    called = node.value.func
    owner = called.value if isinstance(called, ast.Attribute) else called
    names = [part.attr if isinstance(part, ast.Attribute) else getattr(part, "id", "") for part in (called, owner)]
    return any(name.lower().strip("_") in LOGS for name in names)


def is_limit(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and all(
        isinstance(name, ast.Name) and name.id.isupper() for name in node.targets
    )


def is_words(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )


def of_node(text: Text, node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield from negated(text, test)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            yield from text.between("compare", left, right, *SWAPS[type(op)])
        case ast.BoolOp(op=op, values=values):
            old, new = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
            for left, right in pairwise(values):
                yield from text.between("both", left, right, old, new)
        case ast.Constant(value=bool(value)):
            yield text.replaced("switch", node, str(not value))
        case ast.Constant(value=int()):
            yield text.replaced("number", node, "({} + 1)")
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            yield from text.between("sum", left, right, *(("+", "-") if isinstance(op, ast.Add) else ("-", "+")))
        case ast.Expr() | ast.Assign() | ast.AugAssign():
            yield from dropped(text, node)
        case ast.Return(value=ast.expr() as value):
            yield from results(text, value)
        case _:
            pass


def negated(text: Text, test: ast.expr) -> Iterator[Change]:
    named = test.id if isinstance(test, ast.Name) else ""
    if named != "TYPE_CHECKING":
        yield text.replaced("negate", test, "not ({})")


def dropped(text: Text, node: ast.Expr | ast.Assign | ast.AugAssign) -> Iterator[Change]:
    match node:
        case ast.Expr(value=ast.Call()) | ast.AugAssign():
            yield text.replaced("drop", node, "pass")
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield text.replaced("drop", node, "pass")
        case _:
            pass


def results(text: Text, value: ast.expr) -> Iterator[Change]:
    if isinstance(value, TRUTHS) or (isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.Not)):
        yield text.replaced("result", value, "not ({})")
    elif not (isinstance(value, ast.Constant) and value.value is None):
        yield text.replaced("result", value, "None")
