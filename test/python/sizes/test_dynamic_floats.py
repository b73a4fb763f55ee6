"""Python floats that change from call to call: they become inputs of the graphs of `dynamlir.compile` once they have
changed.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
import random
import struct
from collections.abc import Callable
from typing import Any

import dynamlir
import numpy as np
import pytest
import torch
from numbers_in_graphs import NUMBERS


def graphs() -> int:
    """The number of compiled graphs."""
    return sum(made.eager is None for made in dynamlir.compiles())


def same(one: Any, other: Any) -> None:
    """Checks that results agree, including their types."""
    assert type(one) is type(other)
    if isinstance(one, (list, tuple)):
        for left, right in zip(one, other, strict=True):
            same(left, right)
    elif isinstance(one, torch.Tensor):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5, equal_nan=True)
    elif isinstance(one, float):
        assert struct.pack("d", one) == struct.pack("d", other)
    else:
        assert one == other


def check(function: Callable[..., Any], calls: list[tuple[Any, ...]], compiled: Any = None) -> Any:
    """Checks that each call gives what eager gives, or raises what eager raises."""
    compiled = compiled or dynamlir.compile(function)
    for call in calls:
        try:
            wanted = function(*call)
        except Exception as error:
            with pytest.raises(type(error)) as raised:
                compiled(*call)
            assert str(raised.value) == str(error)
        else:
            same(compiled(*call), wanted)
    return compiled


X = torch.randn(3, 40)

ARITHMETIC: dict[str, Callable[..., Any]] = {
    **NUMBERS,
    "in place": lambda x, a, b: x.clone().mul_(a).add_(x, alpha=b),
    "assigned in place": lambda x, a, b: x * _doubled(a) - b,
    "types": lambda x, a, b: x * a if isinstance(a, float) and type(b) is float and a is not None else x,
    "not tensors": lambda x, a, b: x * a if not isinstance(a, (int, torch.Tensor, str)) else x * b,
    "containers": lambda x, a, b: sum(x * rate for rate in [a, *(b, a)]) + {"rate": a}["rate"] * x,
    "generators": lambda x, a, b: x * sum(rate * 2 for rate in (a, b)),
    "returned": lambda x, a, b: (x * a, b, [a]),
    "float()": lambda x, a, b: x * float(a) + b,
    "sum()": lambda x, a, b: x * sum([a, b, 1.0]),
}


def _doubled(value: float) -> float:
    value *= 2
    return value


@pytest.mark.parametrize("name", ARITHMETIC)
def test_floats_that_change_are_inputs(name: str) -> None:
    rates = [(0.25, 0.5), (0.3, 0.7), (0.9, 1.5), (0.55, 3.25), (1e-30, 7.0)]
    check(ARITHMETIC[name], [(X, a, b) for a, b in rates])
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()
    assert graphs() == 2


SOURCES = [0.5, 0.25, 0.125, 3.0, -1.0]


@dataclasses.dataclass
class Settings:
    rate: float
    name: str = "settings"


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(40, 3)
        self.rate = 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.rate


def test_sources_of_floats() -> None:
    """Floats from arguments, attributes, items of dicts, lists and tuples, globals, enclosing functions."""
    settings, group, rates, scaled = Settings(1.0), {"lr": 1.0, "betas": (0.9, 0.99)}, [1.0, 2.0], Scaled()
    enclosed = 1.0

    def function(x: torch.Tensor, rate: float, *rest: float, named: float = 1.0) -> torch.Tensor:
        first, second = group["betas"]
        y = x * rate + rest[0] * x + named + settings.rate * x + group["lr"] - rates[1] * first * second
        return y * enclosed + RATE * x + scaled(x).sum()

    compiled = dynamlir.compile(function)
    for at, rate in enumerate(SOURCES):
        settings.rate = group["lr"] = rates[1] = scaled.rate = enclosed = rate * 2
        group["betas"] = (rate, rate / 2)
        globals()["RATE"] = rate + 1
        same(compiled(X, rate, rate - 1, named=rate + 3), function(X, rate, rate - 1, named=rate + 3))
        assert graphs() == min(at + 1, 2)
    assert not dynamlir.counters()["fallbacks"]


RATE = 1.0


def test_a_change_at_one_place_leaves_the_others_constants() -> None:
    def function(x: torch.Tensor, a: float, b: float) -> torch.Tensor:
        return x * a if b > 0.5 else x + a

    check(function, [(X, 0.1, 0.75), (X, 0.2, 0.75), (X, 0.3, 0.75), (X, 0.4, 0.75)])
    assert graphs() == 2
    check(function, [(X, 0.1, 0.25), (X, 0.2, 0.75)])


LOOKS: dict[str, Callable[..., Any]] = {
    "branch": lambda x, a: x * a if a > 0.3 else x - a,
    "truth": lambda x, a: x + (a or 2.0),
    "equality": lambda x, a: x + a if a == 0.5 else x,
    "int()": lambda x, a: x + int(a * 10),
    "text": lambda x, a: (x + a, f"{a:.3f}"),
    "percent": lambda x, a: (x + a, "%d" % (a,)),  # noqa: UP031
    "percent of one": lambda x, a: (x + a, "%g" % a),  # noqa: UP031
    "repr": lambda x, a: (x + a, repr([a])),
    "key": lambda x, a: x + {0.5: 1.0, 0.25: 2.0}.get(a, 3.0),
    "set": lambda x, a: x + len({a, 0.5}),
    "hash": lambda x, a: (x, hash(a)),
    "math": lambda x, a: x * math.sqrt(a * a),
    "max": lambda x, a: x * max(a, 0.3),
    "round": lambda x, a: x * round(a, 1),
    "floor": lambda x, a: x * (a // 0.1) + a % 0.1,
    "method": lambda x, a: (x * a, a.is_integer(), a.hex()),
    "unbound": lambda x, a: x * float.__mul__(a, 2.0),
    "membership": lambda x, a: x + (a in (0.5, 0.25)),
    "sorted": lambda x, a: x * sorted([a, 0.3])[0],
    "pattern": lambda x, a: x * _matched(a),
    "clamp": lambda x, a: x.clamp(min=a),
    "full": lambda x, a: x + torch.full((40,), a),
    "tensor": lambda x, a: x + torch.tensor(a),
    "sizes": lambda x, a: x.new_zeros(int(abs(a) * 8)),
    "returned": lambda x, a: (x, a * 2),
    "abs": lambda x, a: x * abs(a),
    "divmod": lambda x, a: x * divmod(a, 0.2)[0],
    "caught": lambda x, a: _caught(x, a),
    "leaf": lambda x, a: torch.nn.functional.leaky_relu(x, a),
    "dropout": lambda x, a: torch.nn.functional.dropout(x, abs(a) / 8, training=False),
    "conversion": lambda x, a: x + complex(a).real,
    "json": lambda x, a: (x, __import__("json").dumps({"a": a})),
    "get with a default": lambda x, a: x * {}.get("rate", a),
}


def _matched(value: Any) -> float:
    match value:
        case 0.5:
            return 1.0
        case float():
            return 2.0
        case _:
            return 3.0


def _caught(x: torch.Tensor, a: float) -> torch.Tensor:
    try:
        return x * float.__add__(a, 1)
    except TypeError:
        return x * 100


@pytest.mark.parametrize("name", LOOKS)
def test_what_looks_at_a_float_gets_its_value(name: str) -> None:
    check(LOOKS[name], [(X, a) for a in [0.5, 0.25, 0.5, -0.125, 0.75, 0.25]])


@pytest.mark.parametrize("name", ["branch", "int()", "math", "max", "leaf"])
def test_a_float_that_python_looks_at_has_an_entry_for_each_value(name: str) -> None:
    compiled = check(LOOKS[name], [(X, a) for a in [0.5, 0.25, 0.75]])
    assert len(compiled._cache) == 3
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()


COMPARED: dict[str, Callable[..., Any]] = {
    "above": lambda x, a: x * a if a > 0.3 else x - a,
    "not below": lambda x, a: x * a if not a < 0.3 else x - a,
    "turned": lambda x, a: x * a if 0.3 <= a else x - a,  # noqa: SIM300
    "an int": lambda x, a: x * a if a != 0 else x,
    "equal": lambda x, a: x * a if a == 0.3 else x + a,
    "truth": lambda x, a: x * a if a else x + 1,
    "chain": lambda x, a: x * a if 0.0 <= a < 0.3 else x + a,
    "operator": lambda x, a: x * a if operator.gt(a, 0.3) else x + a,
    "assertion": lambda x, a: x * a if a >= 0.0 and a is not None else -x * a,
}


@pytest.mark.parametrize("name", COMPARED)
def test_comparing_a_float_with_a_constant_guards_what_that_gives(name: str) -> None:
    values = [0.5, 0.25, 0.3, 0.7, 0.2, 0.0, 0.1, 0.3, math.nan, 0.9, -0.0, -1.0, math.inf, 0.29, -7.0]
    compiled = check(COMPARED[name], [(X, a) for a in values])
    assert len(compiled._cache) <= 4
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()


EDGES = [0.5, 0.25, math.nan, math.inf, -math.inf, -0.0, 0.0, 5e-324, 1.7e308, 1 / 3]


def test_edge_values() -> None:
    """Edge values are ordinary numbers: one graph serves all of them."""
    check(lambda x, a: (x * a, x + a, a, torch.full_like(x, 1.0).mul(a)), [(X, a) for a in EDGES])
    assert graphs() == 2
    assert not dynamlir.counters()["fallbacks"]


class Rate(float):
    """A subclass of float."""

    def __mul__(self, other: Any) -> Any:
        return 100.0


def test_other_types_are_not_floats() -> None:
    """Each type has entries of its own: an int or a bool has another meaning to Python than a float."""
    values = [0.5, 0.25, 1, True, 1.0, False, 0, np.float64(0.5), np.float64(0.25), np.float32(0.5), Rate(0.5), 0.125]
    check(lambda x, a: (x * (a + a), type(a).__name__), [(X, a) for a in values])
    check(lambda x, a: x * a + isinstance(a, int), [(X, a) for a in values])


def test_python_raises_for_numbers() -> None:
    check(lambda x, a: x * (1.0 / a), [(X, 0.5), (X, 0.25), (X, 0.0), (X, 0.125)])
    check(lambda x, a: x * 0.5 ** (-1 / a), [(X, 0.5), (X, 0.25), (X, 1e-5), (X, 0.125)])


def test_an_error_that_is_handled() -> None:
    def function(x: torch.Tensor, a: float) -> torch.Tensor:
        try:
            return x * (1.0 / a)
        except ZeroDivisionError:
            return x

    check(function, [(X, a) for a in (0.5, 0.25, 0.0, 2.0)])


def test_gradients_of_what_numbers_scale() -> None:
    weight = torch.randn(40, requires_grad=True)

    def function(x: torch.Tensor, a: float, b: float) -> torch.Tensor:
        return ((x * weight * a).exp() * b + weight / a).sum()

    compiled = dynamlir.compile(function)
    for a, b in [(0.5, 1.0), (0.25, 2.0), (0.75, 3.0), (0.1, 4.0)]:
        wanted = torch.autograd.grad(function(X, a, b), weight)[0]
        torch.testing.assert_close(torch.autograd.grad(compiled(X, a, b), weight)[0], wanted)
    assert graphs() == 2


def test_what_is_saved_for_gradients_is_of_its_call() -> None:
    weight = torch.randn(40, requires_grad=True)
    compiled = dynamlir.compile(lambda x, a: (x * (weight * a).sin()).sum())
    for a in (0.5, 0.25):
        compiled(X, a)
    first, second = compiled(X, 0.75), compiled(X, 2.0)
    for result, a in [(first, 0.75), (second, 2.0)]:
        wanted = torch.autograd.grad((X * (weight * a).sin()).sum(), weight)[0]
        torch.testing.assert_close(torch.autograd.grad(result, weight)[0], wanted)


def test_static_floats() -> None:
    """``dynamic=False`` treats each float as a constant, as in torch.compile; so do third-party backends."""
    for settings in ({"dynamic": False}, {"backend": "eager"}):
        compiled = dynamlir.compile(lambda x, a: x * a, **settings)
        check(lambda x, a: x * a, [(X, 0.5), (X, 0.25), (X, 0.125)], compiled)
        assert len(compiled._cache) == 3


def test_reset_forgets_what_has_changed() -> None:
    compiled = check(lambda x, a: x * a, [(X, 0.5), (X, 0.25)])
    compiled.reset()
    check(lambda x, a: x * a, [(X, 0.125), (X, 0.5), (X, 0.75)], compiled)
    assert len(compiled._cache) == 2


def test_guards_of_a_number_are_on_its_type() -> None:
    compiled = check(lambda x, a: x * a, [(X, 0.5), (X, 0.25)])
    guards = compiled._cache[1].guards
    assert guards.check_all(X, 7.0) and guards.check_all(X, math.nan)
    for value in (1, True, np.float64(1.0), Rate(1.0), "1.0", None):
        assert not guards.check_all(X, value)


def test_an_entry_with_numbers_as_bytecode() -> None:
    compiled = check(lambda x, a, b: (x * a + b, a), [(X, 0.5, 1.0), (X, 0.25, 2.0)])
    same(compiled._cache[1].function(X, 0.75, 3.0), (X * 0.75 + 3.0, 0.75))


def test_equal_layers_with_rates_of_their_own() -> None:
    layers = torch.nn.Sequential(*(Scaled() for _ in range(1)), torch.nn.Linear(3, 40), *(Scaled() for _ in range(1)))
    stack = torch.nn.ModuleList([Scaled() for _ in range(4)])

    def function(x: torch.Tensor) -> torch.Tensor:
        return sum(layer(x) for layer in stack) + layers(x)

    compiled = dynamlir.compile(function)
    for rate in (0.5, 0.25, 0.75, 2.0):
        for at, layer in enumerate(stack):
            layer.rate = rate * (at + 1)
        layers[0].rate = rate
        same(compiled(X), function(X))
    assert graphs() <= 3


ITEMS: dict[str, Callable[..., Any]] = {
    "item": lambda x, t: x * t.item(),
    "float()": lambda x, t: x * float(t) + 1,
    "after a write": lambda x, t: (t.add_(1), x * t.item())[1],
    "before a write": lambda x, t: (t.item(), t.add_(1))[0] * x,
    "between writes": lambda x, t: x * (t.add_(1).item() + t.mul_(2).item()),
    "power": lambda x, t: x / (1 - 0.9 ** (t.add_(1).item())),
    "of a sum": lambda x, t: x * x.sum().item() / 1000 + t,
    "twice": lambda x, t: x * t.item() + t.item(),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ITEMS)
def test_numbers_of_tensors(name: str, dtype: torch.dtype) -> None:
    """``item()`` reads the tensor's value at run time; no value of it is compiled in."""
    function, ours, eager = ITEMS[name], torch.tensor(1.5, dtype=dtype), torch.tensor(1.5, dtype=dtype)
    compiled = dynamlir.compile(function)
    for _ in range(6):
        torch.testing.assert_close(compiled(X, ours), function(X, eager), rtol=1e-6, atol=1e-6)
        torch.testing.assert_close(ours, eager, rtol=0, atol=0)
    assert graphs() == 1
    assert not dynamlir.counters()["fallbacks"], dynamlir.explain_last()


@pytest.mark.parametrize(
    "function",
    [
        lambda x, t: x * t.item() if t.item() > 2 else x,
        lambda x, t: (x, t.item()),
        lambda x, t: x + int(t.item()),
        lambda x, t: (x, f"{t.item()}"),
    ],
    ids=["branch", "returned", "int", "text"],
)
def test_numbers_of_tensors_that_python_looks_at(function: Callable[..., Any]) -> None:
    check(function, [(X, torch.tensor(value)) for value in (1.5, 2.5, 3.5)])
    assert "data-dependent" in "".join(dynamlir.counters()["fallbacks"])


def _expression(source: random.Random, depth: int) -> str:
    """A random expression of numbers ``a``, ``b``, ``c``."""
    if depth == 0 or source.random() < 0.2:
        return source.choice(["a", "b", "c", "1.5", "2", "-0.25"])
    kind = source.randrange(10)
    left, right = _expression(source, depth - 1), _expression(source, depth - 1)
    if kind < 6:
        return f"({left} {source.choice('+-*/')} {right})"
    if kind == 6:
        return f"(-{left})"
    if kind == 7:
        return f"(({left}) if ({right}) > 0 else ({right}))"
    if kind == 8:
        return f"[{left}, {right}][{source.randrange(2)}]"
    return f"abs({left}) ** 0.5"


@pytest.mark.parametrize("seed", range(40))
def test_random_expressions(seed: int) -> None:
    source = random.Random(seed)
    x = torch.randn(5, dtype=torch.float64)
    text = f"lambda x, a, b, c: x * {_expression(source, 4)} + {_expression(source, 3)}"
    function = eval(text)
    values = [0.5, -1.5, 2.0, 0.0, math.inf, 1, True, 1e-3, math.nan, -0.0]
    calls = [tuple(source.choice(values) for _ in range(3)) for _ in range(8)]
    compiled = dynamlir.compile(function)
    for call in itertools.chain(calls, calls):
        check(function, [(x, *call)], compiled)
