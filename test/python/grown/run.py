"""Runs a grown function by CPython and by dynamlir, and reports differences.

The source is executed twice, in separate modules: neither run sees the other's changes to globals or classes.
"""

from __future__ import annotations

import functools
import json
import linecache
import operator
import random
import sys
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from interpreted.support import HARNESS, outcome, shown

from .statements import Grower

PRELUDE = Path(__file__).with_name("prelude.py").read_text()
PLAIN = {"a": "int", "b": "float", "c": "str", "d": "list", "e": "dict", "f": "tuple", "g": "box"}
TENSORS = {"t": "tensor", "u": "tensor", "a": "int", "d": "list", "g": "box"}
STEPS = 400

HARNESS.add(__file__)


def text(seed: int, tensors: bool = False) -> str:
    """The source of the `main` grown from a seed."""
    return Grower(seed, tensors).main(TENSORS if tensors else PLAIN)


@functools.lru_cache(maxsize=8)
def code(name: str, source: str) -> types.CodeType:
    """Compiles a source and registers its lines for tracebacks."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile(source, name, "exec")


def quiet(*_parts: object) -> None:
    """Prints nothing: a graph has no output."""


def module(seed: int, source: str, tensors: bool = False) -> types.ModuleType:
    """A new module with the prelude and this source; tracebacks find the lines of both."""
    made = types.ModuleType("grown.made")
    # Dataclasses look up their module in `sys.modules`.
    sys.modules[made.__name__] = made
    if tensors:
        made.say = quiet
    for name, lines in (("<prelude>", PRELUDE), (f"<grown {seed}>", source)):
        exec(code(name, lines), made.__dict__)
    if tensors:
        import torch

        generator = torch.Generator().manual_seed(seed)
        made.torch = torch
        made.linear = torch.nn.Linear(4, 4)
        for parameter in made.linear.parameters():
            parameter.data = torch.rand(parameter.shape, generator=generator)
    return made


def arguments(made: types.ModuleType, seed: int, tensors: bool = False) -> list[Any]:
    """Arguments for `main`, the same for the same seed."""
    chance = random.Random(seed)
    numbers = [chance.randint(-3, 9) for _ in range(6)]
    values: dict[str, Any] = {
        "int": numbers[0],
        "float": numbers[1] / 4,
        "str": chance.choice(["abba", "key", "", "Zoë a"]),
        "list": numbers[: chance.randint(0, 4)],
        "dict": {"a": numbers[2], "key": numbers[3]},
        "tuple": tuple(numbers[: chance.randint(0, 3)]),
        "box": made.Box(numbers[4]),
    }
    if tensors:
        import torch

        generator = torch.Generator().manual_seed(seed)
        return [
            torch.randn(3, 4, generator=generator) if kind == "tensor" else values[kind] for kind in TENSORS.values()
        ]
    return [values[kind] for kind in PLAIN.values()]


def exact(value: Any, met: dict[int, int] | None = None) -> Any:
    """A value, its tensors spelled out to the last bit; a list or dict that holds itself, or is held twice, once."""
    if type(value).__module__ == "torch" and hasattr(value, "stride"):
        return ["tensor", str(value.dtype), list(value.shape), list(value.stride()), repr(value.tolist())]
    met = {} if met is None else met
    if isinstance(value, (list, dict)):
        if id(value) in met:
            return ["again", met[id(value)]]
        met[id(value)] = len(met)
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(exact(item, met) for item in value)]
    if isinstance(value, dict):
        return ["dict", *([exact(key, met), exact(item, met)] for key, item in value.items())]
    if isinstance(value, (set, frozenset)):
        # The order in which a set shows its elements depends on its history.
        return [type(value).__name__, *sorted(map(shown, value))]
    return shown(value)


def forget_joined_loads(error: dict[str, Any] | None) -> None:
    """Drops the positions of `UnboundLocalError`s: warm code of CPython 3.11 loads two locals at once, and reports
    either as unbound at the position of the first.
    """
    if error is not None:
        if error["type"] == "UnboundLocalError":
            error["positions"] = None
            error["traceback"] = [*error["traceback"][:-1], (*error["traceback"][-1][:1], None)]
        forget_joined_loads(error["cause"])
        forget_joined_loads(error["context"])


def came_to(made: types.ModuleType, given: list[Any], call: Callable[..., Any]) -> Any:
    """The outcome of a call of `main`, including its effects on the arguments and the module."""
    if not hasattr(made, "torch"):
        made.Steps.left = STEPS
    result: list[Any] = []
    found = outcome(lambda run: run(), lambda: result.append(call(made.main, *given)))
    if sys.version_info < (3, 12):
        forget_joined_loads(found["error"])
    kept = {name: value for name, value in vars(made.Box).items() if isinstance(value, int)}
    return json.loads(json.dumps([found, exact(result), exact(given), made.COUNT, kept, made.Steps.left]))


def concrete(native: Any, seed: int) -> tuple[Any, Any]:
    """Calls `main` in CPython and in the interpreter's concrete mode; returns both outcomes of the first call that
    differs, or of the last call.
    """
    source = text(seed)
    plain, ours = module(seed, source), module(seed, source)
    for call in range(2):
        seen = came_to(ours, arguments(ours, seed + call), native.interpret)
        expected = came_to(plain, arguments(plain, seed + call), operator.call)
        if seen != expected:
            break
    return expected, seen
