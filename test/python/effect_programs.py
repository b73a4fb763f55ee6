"""Random functions that change objects from before the call, run captured and plain in separate worlds.

A world is a module with globals, a list, a dict, a set, a deque, an object that may hold the same ones, a function with
variables of an enclosing one, and two tensors that have gradients. Each program is called several times. After each
call the results and everything reachable in both worlds must agree, including which objects are identical.
"""

from __future__ import annotations

import collections
import random
import sys
import types
from typing import Any

import dynamlir
import torch

CALLS = 5

HEAD = """
import collections, torch

COUNT, LATEST = 0, None


class Thing:
    pass


def number(*values):
    made = torch.tensor(values, dtype=torch.float64, requires_grad=True)
    made.grad = torch.ones_like(made)
    return made


def make(aliased):
    log, table, names, queue, thing = [1, 2, "a"], {"a": 1, 3: "b"}, {"a", 5}, collections.deque([1], 4), Thing()
    thing.n, thing.log, thing.table, thing.inner = 0, (log if aliased else [0]), (table if aliased else {"k": 2}), [log]
    n, kept, w, v = 0, None, number(1.0, 1.0), number(0.5, 2.0)

    def function(x):
        global COUNT, LATEST
        nonlocal n, kept
        r, y = [], x
"""

TAIL = """
        return r, y

    def world():
        return [log, table, names, queue, thing, n, kept, COUNT, LATEST, w, v]

    return function, world
"""


class Grammar:
    """Generates statements."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def pick(self, *choices: str) -> str:
        """One of the choices, with the rules in braces expanded recursively."""
        text = self.random.choice(choices)
        while "{" in text:
            start = text.index("{")
            stop = text.index("}", start)
            text = text[:start] + getattr(self, text[start + 1 : stop])() + text[stop + 1 :]
        return text

    def number(self) -> str:
        return self.pick("0", "1", "2", "3", "COUNT", "n", "thing.n", "len({sized})", "n + 1", "COUNT * 2")

    def index(self) -> str:
        return self.pick("0", "1", "-1", "2", "0")

    def key(self) -> str:
        return self.pick("'a'", "'b'", "3", "True", "1.0", "'k'", "None")

    def list(self) -> str:
        return self.pick("log", "log", "thing.log", "thing.inner[0]")

    def dict(self) -> str:
        return self.pick("table", "table", "thing.table")

    def sized(self) -> str:
        return self.pick("{list}", "{dict}", "names")

    def value(self) -> str:
        return self.pick(
            "{number}",
            "x",
            "y",
            "y + 1",
            "'t'",
            "None",
            "[1, x]",
            "{list}",
            "{dict}",
            "r",
            "{number}",
            "(n, y)",
            "LATEST",
            "kept",
        )

    def condition(self) -> str:
        return self.pick(
            "n % 3 == 0",
            "COUNT > 2",
            "{key} in {dict}",
            "{sized}",
            "len({sized}) > 3",
            "{key} in names",
            "thing.n",
            "kept is {value}",
            "{number} in {list}",
        )

    def change(self) -> str:
        return self.pick(
            "{list}.append({value})",
            "{list}.append({value})",
            "{list}[{index}] = {value}",
            "del {list}[{index}]",
            "{list}.insert({index}, {value})",
            "r.append({list}.pop())",
            "r.append({list}.pop({index}))",
            "{list}.extend([{value}, {value}])",
            "thing.log += [{value}]",
            "{list}.extend(list({sized})[:2])",
            "{list}.reverse()",
            "{list}.extend(len({list}) for _ in range(2))",
            "{list}.sort(key=lambda item: (type(item).__name__, len({list})))",
            "{dict}.update(a={value}, k={value})",
            "{list}.remove({value})",
            "{list}.clear()",
            "{list}[1:] = [{value}]",
            "del {list}[6:]",
            "{dict}[{key}] = {value}",
            "{dict}[{key}] = {value}",
            "del {dict}[{key}]",
            "r.append({dict}.pop({key}, {value}))",
            "r.append({dict}.setdefault({key}, {value}))",
            "{dict}.update(dict([({key}, {value}), ({key}, {value})]))",
            "{dict}.update({dict})",
            "r.append({dict}.popitem())",
            "names.add({key})",
            "names.discard({key})",
            "names.update([{key}, 7])",
            "queue.append({value})",
            "queue.extend([{value}])",
            "COUNT += 1",
            "COUNT = {number}",
            "LATEST = {value}",
            "n += 1",
            "n = {number}",
            "kept = {value}",
            "thing.n += 1",
            "thing.extra = {value}",
            "thing.inner = [{list}, {value}]",
            "thing.n = {number}",
            "{leaf}.grad = {tensor}",
            "{leaf}.grad = {leaf}.grad",
            "{leaf}.grad.mul_(2)",
            "{leaf}.data = y + 1",
            "{leaf}.requires_grad_({condition} is True)",
            "with torch.enable_grad(): ({leaf} * x).sin().sum().backward()",
            "with torch.enable_grad(): ({leaf} + v).exp().sum().backward()",
        )

    def leaf(self) -> str:
        return self.pick("w", "w", "v", "(v if n % 2 else w)")

    def tensor(self) -> str:
        return self.pick("x", "y", "y * 2", "None", "{leaf}.grad")

    def look(self) -> str:
        return self.pick(
            "r.append(len({sized}))",
            "r.append({list}[{index}])",
            "r.append({dict}[{key}])",
            "r.append({dict}.get({key}))",
            "r.append({condition})",
            "r.append(list({dict}))",
            "r.append(list({dict}.items()))",
            "r.append({list} == [1, 2])",
            "r.append({list} == [{list}, 1])",
            "r.append(str({list})[:200])",
            "r.append({list} is {list})",
            "r.append([q for q in {list}])",
            "r.extend({list}[:4])",
            "r.append(bool({sized}))",
            "r.append({number})",
            "r.append(LATEST is y)",
            "r.append((lambda: (n, COUNT, len(log)))())",
            "r.append({list}[1:])",
            "r.append(sorted(map(str, {dict}))[:2])",
            "y = y * {number}",
            "y = y + 1",
            "y = torch.stack([x, y]).sum(0)",
            "x.add_(1)",
            "r.append(dict({dict}))",
            "r[:1] = {list}",
            "r.append({value} in [{list}, {value}])",
            "r.append('%s' % (list(map(type, {list})),))",
            "r.append([q for q in filter(None, [{list}, {list}])])",
            "r.append([len(q) for q in [{list}, {sized}]])",
            "r.append(max([{list}, {list}], key=len) is {list})",
            "r.append([*{list}, 1][:5])",
            "r.append({leaf}.grad)",
            "r.append({leaf}.grad is {tensor})",
            "r.append({leaf}.requires_grad)",
            "y = y + {leaf}",
        )

    def block(self, depth: int, indent: str) -> list[str]:
        """Some statements."""
        lines = []
        for _ in range(self.random.randint(2, 5 if depth else 4)):
            kind = self.random.random()
            if kind < 0.6:
                lines.append(indent + self.change())
            elif kind < 0.85:
                lines.append(indent + self.look())
            elif depth and kind < 0.92:
                lines += [f"{indent}if {self.condition()}:", *self.block(depth - 1, indent + "    ")]
            elif depth and kind < 0.96:
                errors = "except (KeyError, IndexError, TypeError, ValueError) as error:"
                lines += [
                    f"{indent}try:",
                    *self.block(depth - 1, indent + "    "),
                    f"{indent}{errors}",
                    f"{indent}    r.append(str(error))",
                ]
            elif depth:
                each = self.pick("list({list})[:3]", "list({dict})[:3]", "{list}[:3]", "(1, 2)")
                lines += [f"{indent}for q in {each}:", *self.block(0, indent + "    ")]
        return lines or [f"{indent}pass"]


def text(seed: int) -> str:
    """The module of a seed."""
    return HEAD + "\n".join(Grammar(seed).block(2, "        ")) + "\n" + TAIL


def told(value: Any, seen: dict[int, int]) -> Any:
    """Everything observable about a value; an object seen before is represented by its number."""
    if isinstance(value, (int, float, str, type(None))):
        return type(value).__name__, value
    if id(value) in seen:
        return "again", seen[id(value)]
    seen[id(value)] = len(seen)
    if isinstance(value, torch.Tensor):
        grad = told(value.grad, seen) if value.is_leaf else None
        return "tensor", [float(f"{number:.6g}") for number in value.tolist()], value.requires_grad, grad
    if isinstance(value, dict):
        return "dict", [(told(key, seen), told(item, seen)) for key, item in value.items()]
    if isinstance(value, (list, tuple, set, collections.deque)):
        return type(value).__name__, [told(item, seen) for item in value]
    return type(value).__name__, told(vars(value), seen)


def world_of(seed: int, name: str, compile_: Any) -> tuple[Any, Any]:
    """A function in a world of its own, and a function that describes that world."""
    home = types.ModuleType(name)
    sys.modules[name] = home
    exec(compile(text(seed), f"<{name}>", "exec"), vars(home))
    function, world = vars(home)["make"](seed % 3 == 0)
    return compile_(function), world


def differs(seed: int) -> str | None:
    """The difference between the captured and the plain program of a seed; None if there is none."""
    worlds = [
        world_of(seed, "effects_plain", lambda function: function),
        world_of(seed, "effects_ours", dynamlir.compile),
    ]
    try:
        for call in range(CALLS):
            outcomes = []
            for function, world in worlds:
                x = torch.arange(2.0, dtype=torch.float64) + call
                # The result and the world afterwards may share objects.
                seen: dict[int, int] = {}
                keep: list[Any] = [x]
                try:
                    keep.append(function(x))
                    outcome = told(keep, seen)
                except Exception as error:
                    outcome = type(error).__name__, str(error)
                keep.append(world())
                outcomes.append((outcome, told(keep[-1], seen)))
            if outcomes[0] != outcomes[1]:
                return f"{text(seed)}\ncall {call}\n  plain {outcomes[0]}\n  ours  {outcomes[1]}"
    finally:
        for name in ("effects_plain", "effects_ours"):
            sys.modules.pop(name, None)
    return None
