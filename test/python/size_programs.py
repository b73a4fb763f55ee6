"""Random functions of tensors whose sizes change from call to call, run captured and plain.

A program takes two matrices, a vector and a number, and computes with their sizes: it slices, views, concatenates,
counts, decides, and reports its findings as text. Each is called many times, with newly drawn sizes each time, among
them 0 and 1; after each call both must have returned or raised the same.
"""

from __future__ import annotations

import math
import random
import re
from typing import Any

import dynamlir
import torch
from gradients import MORE

CALLS = 12

SIZES = (0, 1, 2, 2, 3, 3, 4, 5, 5, 7, 8, 8, 11, 16, 17)

HEAD = """
import math, torch


def function(x, y, v, n):
    a, b = x.shape
    c = y.size(1)
    r = []
"""

_RULE = re.compile(r"\{(size|few|decision|matrix|column|tensor|told)\}")


class Grammar:
    """Generates statements over ``x`` of sizes [a, b], ``y`` of [b, c], ``v`` of [a] and the number ``n``."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.depth = 0

    def pick(self, *choices: str) -> str:
        """One of the choices, with the rules in braces expanded; the first choice if that nests too deep."""
        self.depth += 1
        text = choices[0] if self.depth > 5 else self.random.choice(choices)
        text = _RULE.sub(lambda rule: getattr(self, rule[1])(), text)
        self.depth -= 1
        return text

    def size(self) -> str:
        """A size, or an expression over sizes."""
        return self.pick(
            "a",
            "b",
            "c",
            "n",
            "len(v)",
            "x.size(-1)",
            "x.shape[0]",
            "x.numel()",
            "y.stride(0)",
            "x.dim()",
            "({size} + {few})",
            "({size} * {few})",
            "({size} * {size})",
            "({size} - {few})",
            "({size} // 2)",
            "({size} // {few})",
            "({size} % 4)",
            "(-{size})",
            "max({size}, {size})",
            "min({size}, {few})",
            "max(2, {size})",
            "abs({size})",
            "sum(x.shape)",
            "math.ceil({size} / 2)",
            "int({size} / 2)",
            "divmod({size}, 3)[1]",
            "math.prod(y.shape)",
            "({size} if {decision} else {few})",
            "(x.shape + y.shape)[2]",
            "[*x.shape, *v.shape][-1]",
            "dict(p=a, q=b)['p']",
            "len(range({size}))",
        )

    def few(self) -> str:
        return self.pick("1", "2", "3", "8")

    def decision(self) -> str:
        return self.pick(
            "a > 4",
            "{size} > {few}",
            "{size} == {size}",
            "{size} % 2 == 0",
            "{size}",
            "not {size}",
            "x.shape == y.shape",
            "a in (3, 5)",
            "1 < {size} <= 8",
            "x.shape[0] == v.shape[0]",
            "x.is_contiguous()",
            "bool(a) and {size} < 9",
            "isinstance({size}, int)",
            "type(a) is int",
        )

    def matrix(self) -> str:
        """A tensor of sizes [a, b]."""
        return self.pick(
            "x",
            "x",
            "(x + {column})",
            "x.softmax(1)",
            "x.relu()",
            "(x * {size})",
            "(x / max(1, {size}))",
            "(x @ y @ y.t())",
            "torch.cat([x[:1], x[1:]])",
            "x.t().t()",
            "x.view(-1).view(a, b)",
            "x.reshape(a * b).reshape(x.shape)",
            "x.flip(0)",
            "(torch.zeros(a, b) + x)",
            "torch.full(x.size(), {size})",
            "torch.where(x > 0, x, {size})",
            "x.expand(2, a, b).sum(0)",
            "x.contiguous()",
            "(x - x.mean(0))",
            "x.cumsum(0)",
            "torch.ones_like(x).triu()",
            "torch.arange(a * b).view(a, b).float()",
            "(torch.nn.functional.layer_norm(x, (b,)) if b else x)",
            "torch.stack([x, x]).mean(0)",
        )

    def column(self) -> str:
        """A tensor of sizes [a, 1]."""
        return self.pick(
            "v[:, None]", "x.sum(1, keepdim=True)", "v.unsqueeze(1)", "torch.arange(a)[:, None]", "v.view(a, 1)"
        )

    def tensor(self) -> str:
        """A tensor of any size."""
        return self.pick(
            "{matrix}",
            "{matrix}",
            "{matrix} @ y",
            "x[: {size}]",
            "x[{size} :]",
            "x[:, : b // 2]",
            "x[a // 2]",
            "x[-1]",
            "x[::2]",
            "torch.cat([{matrix}, {matrix}])",
            "torch.cat([x, x], dim=1)",
            "x.sum()",
            "{matrix}.sum(0)",
            "{matrix}.mean()",
            "v * {size}",
            "v[: {few}]",
            "torch.arange({size})",
            "torch.arange(a) * {size}",
            "torch.zeros({few}, abs({size}) % 40)",
            "x.repeat(2, 1)",
            "x.narrow(0, 0, a // 2)",
            "x.split(2)[0]",
            "x.chunk(2)[-1]",
            "x.unfold(0, 2, 1)",
            "torch.nn.functional.pad(x, (1, {few}))",
            "x.view(a, b // 2, 2)",
            "x.reshape(-1, 2)",
            "x.flatten()",
            "x.argmax(0)",
            "v.sort().values",
            "torch.tensor({size})",
            "torch.tensor([a, {size}])",
            "torch.ones(b)[: {size}]",
            "y.t() @ x.t()",
            "torch.outer(v, v)",
            "x.index_select(0, torch.arange(a))",
            "x[torch.arange(a // 2)]",
        )

    def told(self) -> str:
        """A value that is not a tensor."""
        return self.pick(
            "{size}",
            "{size}",
            "{decision}",
            "tuple(x.shape)",
            "x.shape",
            "list(y.size())",
            "f'a {a}'",
            "str({size})",
            "'%d' % {size}",
            "repr(x.shape)",
            "{size} / 2",
            "float({size})",
            "math.sqrt(abs({size}))",
            "{a: b}",
            "{a, b, 3}",
            "hash({size})",
            "[i * b for i in range(a)]",
            "x.shape[1:]",
            "x.stride()",
            "torch.Size([a, b])",
            "2 ** min({size}, 9)",
            "type({size}).__name__",
            "[0] * min(a, 4)",
            "'ab' * a",
            "sorted([a, b, c])",
            "x.shape.numel()",
            "round(a / 3, 2)",
            "a.bit_length()",
            "a & 3",
            "a == 4.0",
            "divmod(a, 3)",
        )

    def statement(self) -> str:
        return self.pick(
            "r.append({tensor})",
            "r.append({tensor})",
            "r.append({tensor})",
            "r.append({told})",
            "x = {matrix}",
            "n = {size}",
            "v = v + {size}",
            "r.append(x.shape)",
            "x = x.clone(); x.add_({size})",
            "assert a == x.shape[0]",
        )

    def block(self, depth: int, indent: str) -> list[str]:
        """Some statements."""
        lines = []
        for _ in range(self.random.randint(1, 4)):
            kind = self.random.random()
            if kind < 0.75 or not depth:
                lines.append(indent + self.statement())
            elif kind < 0.88:
                lines += [f"{indent}if {self.decision()}:", *self.block(depth - 1, indent + "    ")]
            else:
                each = self.pick("range(a)", "range(min({size}, 4))", "x.shape", "enumerate(y.shape)", "range(0, b, 2)")
                lines += [f"{indent}for q in {each}:", *self.block(0, indent + "    "), f"{indent}    r.append(q)"]
        return lines


def text(seed: int) -> str:
    """The module of a seed."""
    return HEAD + "\n".join(Grammar(seed).block(2, "    ")) + "\n    return r\n"


def told(value: Any) -> Any:
    """Everything observable about a value."""
    if isinstance(value, torch.Tensor):
        numbers = value.flatten().double().tolist()
        return "tensor", str(value.dtype), tuple(value.shape), value.stride() if value.numel() else None, numbers
    if isinstance(value, dict):
        return "dict", [(told(key), told(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple, set)):
        return type(value).__name__, [told(item) for item in value]
    return type(value).__name__, value


def alike(one: Any, other: Any) -> bool:
    """Returns true if two such descriptions are equal up to rounding."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other or math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-5) or (one != one and other != other)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


def is_rounding(exact: Any, plain: Any, ours: Any) -> bool:
    """Returns true if both outcomes are equally near to one in doubles, by the worst number of each tensor."""
    if isinstance(plain, tuple) and plain[:1] == ("tensor",):
        if plain[:4] != ours[:4] or exact[2:4] != plain[2:4]:
            return False
        own, other = (max((abs(a - b) for a, b in zip(exact[4], one[4])), default=0.0) for one in (plain, ours))
        return alike(plain, ours) or other <= MORE * own
    if isinstance(plain, (list, tuple)) and isinstance(ours, (list, tuple)) and isinstance(exact, (list, tuple)):
        return len(exact) == len(plain) == len(ours) and all(map(is_rounding, exact, plain, ours))
    return alike(plain, ours)


def arguments(draw: random.Random) -> tuple[Any, ...]:
    """Tensors of drawn sizes, the same for the same state, and a number."""
    a, b, c = (draw.choice(SIZES) for _ in range(3))
    source = torch.Generator().manual_seed(draw.randrange(1000))
    x, y, v = (torch.randint(-8, 9, sizes, generator=source).float() / 4 for sizes in ((a, b), (b, c), (a,)))
    return x, y, v, draw.choice((0, 1, 2, 3, 5, 8))


def differs(seed: int, **options: Any) -> str | None:
    """The difference between the captured and the plain program of a seed; None if there is none."""
    home: dict[str, Any] = {"__name__": "sizes"}
    exec(compile(text(seed), "<sizes>", "exec"), home)
    functions = home["function"], dynamlir.compile(home["function"], **options)
    for call in range(CALLS):
        outcomes = []
        for function in functions:
            try:
                outcome = told(function(*arguments(random.Random(seed * 100 + call))))
            except Exception as error:
                # The messages of torch's errors contain sizes, and lines of C++.
                outcome = type(error).__name__, str(error).split("\n")[0]
            outcomes.append(outcome)
        if not alike(*outcomes):
            doubles = [
                value.double() if isinstance(value, torch.Tensor) else value
                for value in arguments(random.Random(seed * 100 + call))
            ]
            try:
                if is_rounding(told(home["function"](*doubles)), *outcomes):
                    continue
            except Exception:
                pass
            sizes = [tuple(value.shape) for value in arguments(random.Random(seed * 100 + call))[:3]]
            return f"{text(seed)}\ncall {call}, sizes {sizes}\n  plain {outcomes[0]}\n  ours  {outcomes[1]}"
    return None
