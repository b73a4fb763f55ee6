"""Special methods that a class gains, or loses, after an entry was created: C code looks for them in its own order.

``int(x)`` calls ``__int__``, or ``__index__`` if the class has no ``__int__``: adding one changes the result.
"""

# The old ways of formatting are tested as well.
# ruff: noqa: UP031, UP032
import functools
import itertools
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import dynamlir
import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore::dynamlir.PlainRunWarning")
X = torch.arange(3.0)

Use = Callable[[Any], Any]

# The use, the special method that it calls, and that method's results at first and later.
ALONE: dict[str, tuple[Use, str, Any, Any]] = {
    "neg": (lambda v: -v, "__neg__", 1, 2),
    "invert": (lambda v: ~v, "__invert__", 1, 2),
    "abs": (abs, "__abs__", 1, 2),
    "len": (lambda v: len(v), "__len__", 1, 2),
    "truth": (lambda v: 1 if v else 2, "__bool__", True, False),
    "index": (lambda v: [5, 6, 7][v], "__index__", 1, 2),
    "slice": (lambda v: [5, 6, 7][v:], "__index__", 1, 2),
    "range": (lambda v: range(v), "__index__", 1, 2),
    "int": (lambda v: int(v), "__int__", 1, 2),
    "float": (lambda v: float(v), "__float__", 1.0, 2.0),
    "sqrt": (lambda v: math.sqrt(v), "__float__", 1.0, 4.0),
    "add": (lambda v: v + 1, "__add__", 1, 2),
    "radd": (lambda v: 1 + v, "__radd__", 1, 2),
    "sum": (lambda v: sum([v]), "__radd__", 1, 2),
    "iadd": (lambda v: operator.iadd(v, 1), "__iadd__", 1, 2),
    "eq": (lambda v: v == 1, "__eq__", 1, 2),
    "eq in a list": (lambda v: [v] == [1], "__eq__", True, False),
    "in a list": (lambda v: 1 in [v], "__eq__", True, False),
    "count": (lambda v: [v].count(1), "__eq__", True, False),
    "lt": (lambda v: v < 1, "__lt__", True, False),
    "max": (lambda v: max(v, 1) == 1, "__lt__", True, False),
    "in": (lambda v: 1 in v, "__contains__", True, False),
    "item": (lambda v: v[0], "__getitem__", 1, 2),
    "item of the class": (lambda v: type(v)[0], "__class_getitem__", 1, 2),
    "format": (lambda v: f"{v:x}", "__format__", "a", "b"),
    "repr in a list": (lambda v: "object at" in str([v]), "__repr__", "a", "b"),
    "spread": (lambda v: dict(**v), "keys", [], ()),
    "dict": (lambda v: dict(v), "keys", [], ()),
    "call": (lambda v: v(), "__call__", 1, 2),
    "attribute": (lambda v: v.zz, "__getattr__", 1, 2),
}

# The use, the method that it calls if there is no better one, the better one, and their results.
PREFERRED: dict[str, tuple[Use, tuple[str, Any], tuple[str, Any]]] = {
    "int": (lambda v: int(v), ("__index__", 1), ("__int__", 2)),
    "float": (lambda v: float(v), ("__index__", 1), ("__float__", 2.0)),
    "complex": (lambda v: complex(v), ("__float__", 1.0), ("__complex__", 2j)),
    "bytes": (lambda v: bytes(v), ("__index__", 1), ("__bytes__", b"b")),
    "round": (lambda v: round(v), ("__float__", 1.0), ("__round__", 2)),
    "floor": (lambda v: math.floor(v), ("__float__", 1.0), ("__floor__", 2)),
    "percent d": (lambda v: "%d" % v, ("__index__", 1), ("__int__", 2)),
    "percent f": (lambda v: "%f" % v, ("__index__", 1), ("__float__", 2.0)),
    "percent s": (lambda v: "%s" % v, ("__repr__", "a"), ("__str__", "b")),
    "bool": (lambda v: bool(v), ("__len__", 1), ("__bool__", False)),
    "any": (lambda v: any([v]), ("__len__", 1), ("__bool__", False)),
    "filter": (lambda v: len(list(filter(None, [v]))), ("__len__", 1), ("__bool__", False)),
    "str": (lambda v: str(v), ("__repr__", "a"), ("__str__", "b")),
    "f-string": (lambda v: f"{v}", ("__str__", "a"), ("__format__", "b")),
    "format": (lambda v: "{}".format(v), ("__str__", "a"), ("__format__", "b")),
    "join": (lambda v: ",".join(map(str, [v])), ("__repr__", "a"), ("__str__", "b")),
    "text of an exception": (lambda v: str(ValueError(v)), ("__repr__", "a"), ("__str__", "b")),
    "ne": (lambda v: v != 1, ("__eq__", True), ("__ne__", True)),
    "ne in a list": (lambda v: [v] != [1], ("__eq__", True), ("__ne__", True)),
    "hash": (lambda v: len({v}), ("__eq__", True), ("__hash__", 1)),
    "in": (lambda v: 1 in v, ("__iter__", ()), ("__contains__", True)),
    "reversed": (lambda v: list(reversed(v)), ("__len__", 0), ("__reversed__", (1,))),
    "length hint": (lambda v: operator.length_hint(v, 5), ("__len__", 1), ("__length_hint__", 2)),
    "lt": (lambda v: v < v, ("__gt__", True), ("__lt__", False)),
    "sorted": (lambda v: len(sorted([v, v])), ("__gt__", True), ("__lt__", False)),
    "times": (lambda v: [1] * v, ("__index__", 1), ("__rmul__", 2)),
    "islice": (lambda v: list(itertools.islice([1, 2, 3], v)), ("__index__", 1), ("__int__", 2)),
    "partial": (lambda v: functools.partial(v, 3)(), ("__call__", 1), ("__get__", 2)),
}


def constant(value: Any) -> Callable[..., Any]:
    return lambda self, *args: value


def answer(function: Callable[..., Any], *args: Any) -> str:
    try:
        value, _ = function(X, *args)
    except Exception as error:  # The expected outcome is any exception of plain Python.
        return type(error).__name__
    return repr(value)


def follow(use: Use, members: dict[str, Any], *changes: Callable[[type], object], nested: bool = False) -> None:
    """Compares a compiled function with plain Python before and after changes of the class, twice each time."""
    made = type("Made", (), dict(members))
    held = types.SimpleNamespace(value=made(), row=[made(), made()])

    def function(x: torch.Tensor, held: Any) -> Any:
        return (list(map(use, held.row)) if nested else use(held.value)), x + 1

    compiled = dynamlir.compile(function)
    for change in (lambda _: None, *changes):
        change(made)
        for _ in range(2):
            with torch.no_grad():
                assert answer(compiled, held) == answer(function, held)


@pytest.mark.parametrize("nested", [False, True], ids=["alone", "nested"])
@pytest.mark.parametrize("name", ALONE)
def test_a_method_that_comes_changes_and_goes(name: str, nested: bool) -> None:
    use, method, first, later = ALONE[name]
    follow(
        use,
        {},
        lambda made: setattr(made, method, constant(first)),
        lambda made: setattr(made, method, constant(later)),
        lambda made: delattr(made, method),
        nested=nested,
    )


@pytest.mark.parametrize("nested", [False, True], ids=["alone", "nested"])
@pytest.mark.parametrize("name", PREFERRED)
def test_a_method_that_is_preferred(name: str, nested: bool) -> None:
    use, (method, value), (preferred, other) = PREFERRED[name]
    follow(
        use,
        {method: constant(value)},
        lambda made: setattr(made, preferred, constant(other)),
        lambda made: delattr(made, preferred),
        lambda made: setattr(made, method, None),
        lambda made: delattr(made, method),
        nested=nested,
    )


def test_an_attribute_of_a_class_of_the_frame_that_becomes_a_descriptor() -> None:
    def use(value: Any) -> Any:
        return type("Here", (), {"a": value})().a == 1

    follow(use, {}, lambda made: setattr(made, "__get__", constant(1)), lambda made: delattr(made, "__get__"))
