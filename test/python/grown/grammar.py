"""The text of a grown function: lines, names and expressions. Statements are in `statements`."""

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
# `<kind>`, or `<kind:depth>` where only something simple fits.
HOLE = re.compile(r"<(\w+)(?::(\d))?>")
# What can be a part of anything without parentheses around it.
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
    """The expression, in parentheses where it needs them."""
    body = ast.parse(text, mode="eval").body
    return text if isinstance(body, ATOMS) or (isinstance(body, ast.Constant) and text.isalnum()) else f"({text})"


class Text:
    """A text that grows, what is bound where it has come to, and expressions over that."""

    def __init__(self, seed: int, tensors: bool = False) -> None:
        self.random = random.Random(seed)
        self.tensors = tensors
        self.words = words.table(tensors)
        self.kinds = KINDS + ("tensor",) * (8 * tensors)
        self.lines: list[str] = []
        self.indent = 0
        self.names = 0
        # Per function, innermost last: what is surely bound, by kind; and every name with its kind.
        self.scopes: list[dict[str, list[str]]] = []
        self.locals: list[dict[str, str]] = []
        self.loops = 0
        self.statements = 0

    # --- text

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def step(self) -> None:
        """Counts towards the end of a program that would run for long."""
        if not self.tensors:
            self.put("Steps.take()")

    def say(self, parts: str) -> None:
        """Prints; with tensors the output is part of what is returned, since a graph does not print."""
        self.put(f"said.append(({parts},))" if self.tensors else f"print({parts})")

    @contextlib.contextmanager
    def under(self, line: str) -> Iterator[None]:
        """A compound statement's head, and its body inside."""
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
        """Names of that kind that a function sees: its own and, now and then, those around it."""
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
        """A form with an expression in each hole."""
        return HOLE.sub(lambda hole: enclosed(self.expression(hole[1], int(hole[2] or depth))), form)

    def target(self, kind: str) -> str:
        """A name to assign to: a new one, or one whose kind is the same."""
        own = self.scopes[-1].get(kind, [])
        return self.random.choice(own) if own and self.chance(0.5) else self.bind(kind, self.fresh())

    def any(self) -> str:
        return self.random.choice(self.kinds)

    def begin(self, start: int) -> None:
        """Gives most names of the function that ends here a value where its statements began."""
        given = [(name, kind) for name, kind in self.locals.pop().items() if self.chance(0.95)]
        self.lines[start:start] = ["    " * self.indent + f"{name} = {DEFAULTS[kind]}" for name, kind in given]
