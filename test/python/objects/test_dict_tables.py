"""Items of dicts, which guards read at their place in the dict's table: deleted, put back, moved as it grows, shared.

From CPython 3.14 on dicts have no versions, and words of the table prove an item; before 3.14 the same must hold.
Lookups are compared with plain Python after each change.
"""

from __future__ import annotations

import collections
import random
import types
from collections.abc import Callable, Iterator
from typing import Any

import dynamlir
import pytest
import torch
from torch import Tensor

NAMES = tuple("abcdef")

CHANGES: dict[str, Callable[[random.Random, dict[Any, Any]], Any]] = {
    "set": lambda draw, held: held.__setitem__(draw.choice(NAMES), draw.randrange(4)),
    "delete": lambda draw, held: held.pop(draw.choice(NAMES), None),
    "delete and put back": lambda draw, held: held.__setitem__("a", held.pop("a", 0) + 1),
    "pop the last": lambda draw, held: held and held.popitem(),
    "clear": lambda draw, held: held.clear(),
    "clear and refill": lambda draw, held: (held.clear(), held.update(dict.fromkeys(NAMES, draw.randrange(4)))),
    "grow": lambda draw, held: held.update({f"n{draw.randrange(1000)}": 0 for _ in range(30)}),
    "shrink": lambda draw, held: [held.pop(name) for name in [*held] if name not in NAMES],
    "update": lambda draw, held: held.update(a=draw.randrange(4), b=1),
    "a key that is no name": lambda draw, held: held.__setitem__(draw.randrange(3), 0),
    "setdefault": lambda draw, held: held.setdefault(draw.choice(NAMES), draw.randrange(4)),
    "merge": lambda draw, held: held.__ior__({draw.choice(NAMES): 7}),
    "an equal name": lambda draw, held: held.__setitem__("".join(["", draw.choice(NAMES)]), draw.randrange(4)),
    "nothing": lambda draw, held: None,
}


class Holder:
    """Holds a dict, and has attributes of its own."""

    def __init__(self, kind: type[dict[Any, Any]]) -> None:
        self.held = kind(a=1, b=2)


def items(holder: Any, x: Tensor) -> Tensor:
    y = x + holder.held.get("a", 10)
    return y * holder.held["b"] if "b" in holder.held else y - holder.held.get("c", 5)


def all_of_them(holder: Any, x: Tensor) -> Tensor:
    for number, (name, value) in enumerate(holder.held.items()):
        x = x + value * (number + 1) if isinstance(name, str) else x - value
    return x * len(holder.held)


def attributes(holder: Any, x: Tensor) -> Tensor:
    y = x + getattr(holder, "a", 10)
    return y * holder.b if hasattr(holder, "b") else y


def by_number(holder: Any, x: Tensor) -> Tensor:
    y = x + holder.held.get(1, 10)
    return y * holder.held[2] if 2 in holder.held else y - holder.held.get("a", 5)


def names_of_a_module(holder: Any, x: Tensor) -> Tensor:
    return x + (a if "a" in globals() else 10)  # noqa: F821


KINDS = [dict, collections.OrderedDict, type("Own", (dict,), {})]


def check(function: Callable[..., Tensor], kind: Any, where: str, seed: int) -> None:
    """Checks a function of a holder whose dict at ``where`` is changed between calls and sometimes replaced."""
    draw, holder, x = random.Random(seed), Holder(kind), torch.arange(3.0)
    compiled = dynamlir.compile(function)
    for _ in range(12):
        name, change = draw.choice([*CHANGES.items()])
        change(draw, getattr(holder, where))
        if draw.random() < 0.15:
            setattr(holder, where, kind(getattr(holder, where)))
        for _ in range(2):
            assert torch.equal(compiled(holder, x), function(holder, x)), (seed, name, getattr(holder, where))
    compiled.reset()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("function", [items, all_of_them, by_number])
def test_each_change_of_a_dict_is_seen(function: Callable[..., Tensor], kind: Any, seeds: Iterator[int]) -> None:
    with torch.no_grad(), dynamlir.config.patch(recompile_limit=1000, on_plain="ignore"):
        for seed, _ in zip(seeds, range(6)):
            check(function, kind, "held", seed)


def test_each_change_of_an_instance_is_seen(seeds: Iterator[int]) -> None:
    """Changes go through the instance's dict, which shares the inline values until something separates them."""
    with torch.no_grad(), dynamlir.config.patch(recompile_limit=1000, on_plain="ignore"):
        for seed, _ in zip(seeds, range(12)):
            check(attributes, dict, "__dict__", seed)


def test_each_change_of_a_modules_names_is_seen() -> None:
    """Names that come and go among many others."""
    module = types.ModuleType("names")
    function = types.FunctionType(names_of_a_module.__code__, module.__dict__)
    compiled, x = dynamlir.compile(function), torch.arange(3.0)
    with torch.no_grad(), dynamlir.config.patch(on_plain="ignore"):
        for change in ({"a": 1}, {"b": 2}, {"a": 2}, {f"c{i}": i for i in range(100)}, {"a": 1}):
            module.__dict__.update(change)
            for _ in range(2):
                assert torch.equal(compiled(None, x), function(None, x)), change
        del module.a
        assert torch.equal(compiled(None, x), function(None, x))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("function", [items, by_number])
def test_a_check_walks_to_nothing(function: Callable[..., Tensor], kind: Any) -> None:
    """Words of the tables prove their items, so a check that passes looks nothing up."""
    holder, x = Holder(kind), torch.arange(3.0)
    holder.held[2] = 3
    compiled = dynamlir.compile(function)
    with torch.no_grad():
        for _ in range(3):
            compiled(holder, x)
    _, _, again = compiled._cache[0].guards.remembered
    assert again == []
