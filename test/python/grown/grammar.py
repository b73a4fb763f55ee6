"""The source of a grown function: lines, names and expressions. Statements are in `statements`."""

from __future__ import annotations

import ast
import contextlib
import functools
import random
import re
from collections.abc import Iterator

from . import words

KINDS = ("int", "int", "int", "float", "str", "bool", "list", "list", "tuple", "dict", "set", "box")
DEPTH = 3
DEFAULTS = {
    "int": "5",
    "bool": "False",
    "float": "1.25",
    "str": "'start'",
    "list": "[3, 1, 2]",
    "tuple": "(1, 2)",
    "dict": "{'a': 1, 'key': 2}",
    "set": "{1, 2}",
    "box": "Box(4)",
    "tensor": "torch.ones(3, 4)",
}
# `<kind>`, or `<kind:depth>` where only a simple expression fits.
HOLE = re.compile(r"<(\w+)(?::(\d))?>")
# Expressions that can be part of any other without parentheses.
ATOMS = (
    ast.Name,
    ast.Call,
    ast.Attribute,
    ast.Subscript,
    ast.List,
    ast.Dict,
    ast.Set,
    ast.ListComp,
    ast.DictComp,
    ast.SetComp,
    ast.Tuple,
)


@functools.lru_cache(maxsize=1 << 14)
def enclosed(text: str) -> str:
    """Returns the expression, in parentheses where it needs them."""
    body = ast.parse(text, mode="eval").body
    return text if isinstance(body, ATOMS) or (isinstance(body, ast.Constant) and text.isalnum()) else f"({text})"


class Text:
    """A growing source, the names bound at its current end, and expressions over these names."""

    def __init__(self, seed: int, tensors: bool = False) -> None:
        self.random = random.Random(seed)
        self.tensors = tensors
        self.words = words.table(tensors)
        self.kinds = KINDS + ("tensor",) * (8 * tensors)
        self.lines: list[str] = []
        self.indent = 0
        self.names = 0
        # For each function, innermost last: the names that are surely bound, by kind; and every name with its kind.
        self.scopes: list[dict[str, list[str]]] = []
        self.locals: list[dict[str, str]] = []
        self.loops = 0
        self.statements = 0

    # --- text

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def step(self) -> None:
        """Emits a step: programs that would run for long end when their steps run out."""
        if not self.tensors:
            self.put("Steps.take()")

    def say(self, parts: str) -> None:
        """Emits a print. In tensor programs the output becomes part of the result, since a graph does not print."""
        self.put(f"said.append(({parts},))" if self.tensors else f"print({parts})")

    @contextlib.contextmanager
    def under(self, line: str) -> Iterator[None]:
        """Emits the head of a compound statement and, indented, its body."""
        self.put(line)
        self.indent += 1
        length = len(self.lines)
        yield
        if len(self.lines) == length:
            self.put("pass")
        self.indent -= 1

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def fresh(self, stem: str = "v") -> str:
        self.names += 1
        return f"{stem}{self.names}"

    # --- names and expressions

    def bind(self, kind: str, name: str) -> str:
        bound = self.scopes[-1].setdefault(kind, [])
        if name not in bound:
            bound.append(name)
        self.locals[-1].setdefault(name, kind)
        return name

    def known(self, kind: str) -> list[str]:
        """The names of a kind that a function sees: its own and, sometimes, those of enclosing functions."""
        own = self.scopes[-1].get(kind, [])
        around = [name for scope in self.scopes[:-1] for name in scope.get(kind, [])]
        return own + (around if not own or self.chance(0.3) else [])

    def expression(self, kind: str, depth: int = DEPTH) -> str:
        if (known := self.known(kind)) and (depth <= 0 or self.chance(0.45)):
            return self.random.choice(known)
        choices = self.words[kind]
        if depth <= 0:
            choices = [text for text in choices if not HOLE.search(text)] or choices[:3]
        return self.fill(self.random.choice(choices), depth - 1)

    def fill(self, form: str, depth: int = 1) -> str:
        """Returns a form with an expression in each hole."""
        return HOLE.sub(lambda hole: enclosed(self.expression(hole[1], int(hole[2] or depth))), form)

    def target(self, kind: str) -> str:
        """A name to assign to: a new one, or an existing one of the same kind."""
        own = self.scopes[-1].get(kind, [])
        return self.random.choice(own) if own and self.chance(0.5) else self.bind(kind, self.fresh())

    def any(self) -> str:
        return self.random.choice(self.kinds)

    def begin(self, start: int) -> None:
        """Called at the end of a function; gives most of its names a value before its first statement."""
        given = [(name, kind) for name, kind in self.locals.pop().items() if self.chance(0.95)]
        self.lines[start:start] = ["    " * self.indent + f"{name} = {DEFAULTS[kind]}" for name, kind in given]
